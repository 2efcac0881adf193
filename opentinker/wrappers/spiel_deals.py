"""How OpenSpiel's negotiation and bargaining read: what there is to split, what was proposed.

In both a proposal is what its maker keeps of each kind of item: `keep 1 0 2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from opentinker.wrappers.spiel_view import public_moves, seat_name

GOODS = ("books", "hats", "balls")
RULES = (
    "Two split the items. `keep` and a number of each kind, in that order, proposes that you keep "
    "these and the other gets the rest; `agree` takes the other's last proposal. There are {turns} "
    "turns; without an agreement by then nobody gets anything."
)

SAID = re.compile(r"Player (\d) proposes: \[([^]]*)\](?: utters: \[([^]]*)\])?")


class NegotiationView:
    """Kinds of items are A, B, C ...; an utterance, `say 4 0 2`, is numbers without a meaning."""

    def describe(self, state: Any, player: int) -> str:
        rules = state.get_game().get_parameters()
        seen = state.observation_string(player)
        told = RULES.format(turns=_numbers(r"Max steps: ", seen)[0])
        if rules["enable_utterances"]:
            told += " After each proposal `say` sends the other numbers that mean nothing yet."
        lines = []
        for line in str(state).splitlines():
            if match := SAID.match(line):
                who, kept, uttered = match.groups()
                said = [f"keep {_plain(kept)}", *([f"say {_plain(uttered)}"] if uttered else [])]
                lines.append(f"{seat_name(int(who), player)}: {', '.join(said)}")
        if "Agreement reached!" in str(state):
            lines.append(f"{seat_name(public_moves(state)[-1][0], player)}: agree")
        pool, worth = _numbers(r"Item pool: ", seen), _numbers(r"util vec: ", seen)
        return _text(told, ascii_uppercase, pool, worth, lines)

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        numbers = state.legal_actions(player)
        return {deal_name(state.action_to_string(player, k)): k for k in numbers}


class BargainingView:
    """Books, hats and balls; what there is and what it is worth is of the library's list."""

    def describe(self, state: Any, player: int) -> str:
        game, deal = state.get_game(), state.instance()
        told = RULES.format(turns=game.max_turns())
        if game.discount() != 1:
            told += f" Each offer after the first multiplies the pay by {game.discount():g}."
        if game.prob_end() > 0:
            told += (
                f" After each offer but the first the game ends with chance {game.prob_end():g}."
            )
        lines = [
            f"{seat_name(who, player)}: {self._name(state, who, action)}"
            for who, action in public_moves(state)
        ]
        return _text(told, GOODS, deal.pool, deal.values[player], lines)

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        return {self._name(state, player, k): k for k in state.legal_actions(player)}

    def _name(self, state: Any, player: int, action: int) -> str:
        return deal_name(state.action_to_string(player, action))


def deal_name(written: str) -> str:
    """`keep 1 0 2`, `say 4 0 2` or `agree` for what the library writes of an action."""
    if "Agree" in written:
        return "agree"
    verb = "say" if "Utterance" in written else "keep"
    return " ".join([verb, *re.findall(r"\d+", written)])


def _text(
    rules: str,
    kinds: Sequence[str],
    pool: Sequence[int],
    worth: Sequence[int],
    said: Sequence[str],
) -> str:
    items = ", ".join(f"{kind} {count}" for count, kind in zip(pool, kinds, strict=False))
    values = ", ".join(f"{kind} {value}" for value, kind in zip(worth, kinds, strict=False))
    return "\n".join(
        [
            rules,
            f"Items: {items}.",
            f"What one is worth to you: {values}.",
            f"So far: {'; '.join(said) or 'nothing was said'}.",
        ]
    )


def _plain(numbers: str) -> str:
    return numbers.replace(",", "")


def _numbers(before: str, text: str) -> list[int]:
    match = re.search(f"{before}([\\d ]+)", text)
    return [int(part) for part in match.group(1).split()] if match else []
