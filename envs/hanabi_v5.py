"""PettingZoo's Hanabi: all seats together build a firework of each colour, seeing all hands but
their own.

Seats `player_0`, ..., two unless `players` says otherwise. `[play 2]` and `[discard 2]` are of
one's own cards, counted from 1, the oldest; `[tell player_1 R]` and `[tell player_1 3]` point out
all cards of a colour or rank to another and cost a hint. Rewards, the same for all: 1 for each card
that fits, and all that was won is lost with the last life.
"""

from __future__ import annotations

import re
from typing import Any

from opentinker.options import whole
from opentinker.view import Moves, ViewedEnv, ask, pettingzoo_maker

NAME = "hanabi_v5"
_REVEAL = re.compile(r"\(Reveal player \+(\d+) (?:color|rank) (\w)\)")
_OWN = re.compile(r"\((Play|Discard) (\d+)\)")


class HanabiView:
    """Each card with what its holder was told of it: `?`, its colour, its rank, or both."""

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        state, seats = env.unwrapped.hanabi_env.game_state, env.possible_agents
        me = seats.index(seat)
        facts, hands = _read(state.observation_string(me))
        lines = [
            f"Hanabi, played together: play each colour from 1 up. You are {seat}.",
            f"Fireworks: {facts['Fireworks']}. Lives: {facts['Life tokens']}. Hints: "
            f"{facts['Info tokens']}. Deck: {facts['Deck size']}. Discards: "
            f"{facts['Discards'] or 'none'}.",
        ]
        for offset, hand in enumerate(hands):
            if offset == 0:
                cards = [f"{k} {told}" for k, (_, told) in enumerate(hand, start=1)]
                lines.append(f"What you know of your cards: {', '.join(cards)}.")
            else:
                cards = [f"{card} (knows {told})" for card, told in hand]
                lines.append(f"{seats[(me + offset) % len(seats)]} holds {', '.join(cards)}.")
        if moves:
            [(mover, name)] = moves[-1].items()
            lines.append(f"Last move: {mover}: {name}.")
        if any(env.terminations.values()):
            lines.append(f"The game is over with {sum(state.returns()) / len(seats):g} points.")
        elif seat != env.agent_selection:
            lines.append(f"{env.agent_selection} is to move.")
        else:
            lines.append(ask(self.legal(env, seat)))
        return "\n".join(lines)

    def legal(self, env: Any, seat: str) -> list[str]:
        return list(self._actions(env, seat))

    def action(self, env: Any, seat: str, name: str) -> int:
        return self._actions(env, seat)[name]

    def infostate(self, env: Any, seat: str, moves: Moves) -> None:
        """None: the view does not keep what the seat saw before."""
        return None

    def _actions(self, env: Any, seat: str) -> dict[str, int]:
        state, seats = env.unwrapped.hanabi_env.game_state, env.possible_agents
        me = seats.index(seat)
        return {
            _name(state.action_to_string(me, action), me, seats): action
            for action in state.legal_actions(me)
        }


def env(
    *,
    players: int = 2,
    colours: int = 5,
    ranks: int = 5,
    hand: int = 5,
    hints: int = 8,
    lives: int = 3,
    illegal: str | None = None,
    render_mode: str | None = None,
) -> ViewedEnv:
    colours = whole(NAME, "colours", colours, 2, 5)
    return ViewedEnv(
        pettingzoo_maker(
            "aec",
            "classic/hanabi-v5",
            players=whole(NAME, "players", players, 2, colours),
            colors=colours,
            ranks=whole(NAME, "ranks", ranks, 2, 5),
            hand_size=whole(NAME, "hand", hand, 2, 5),
            max_information_tokens=whole(NAME, "hints", hints, 1),
            max_life_tokens=whole(NAME, "lives", lives, 1),
        ),
        HanabiView(),
        words=("play 1", "play 2", "discard 1", "tell player_1 1", "tell player_1 R"),
        worst_reward=0.0,
        illegal=illegal,
        render_mode=render_mode,
    )


def _read(seen: str) -> tuple[dict[str, str], list[list[tuple[str, str]]]]:
    """OpenSpiel's text of a seat: its facts, and the hands from the seat's own on.

    A card is `B3 || X3|RGB3`: what it is, what its holder was told, and what that leaves.
    """
    facts: dict[str, str] = {}
    hands: list[list[tuple[str, str]]] = []
    for line in seen.splitlines():
        if line in ("Hands:", "-----"):
            hands.append([])
        elif "||" in line:
            card, _, known = line.partition(" || ")
            colour, rank = known[:2]
            told = f"{colour}{rank}".replace("X", "")
            hands[-1].append((card, told or "?"))
        elif ":" in line:
            name, _, value = line.partition(":")
            facts[name] = value.strip()
    return facts, hands


def _name(written: str, me: int, seats: list[str]) -> str:
    """What a seat says for OpenSpiel's `(Reveal player +1 color R)`, `(Play 0)`, `(Discard 0)`."""
    reveal, own = _REVEAL.fullmatch(written), _OWN.fullmatch(written)
    if reveal is not None:
        return f"tell {seats[(me + int(reveal[1])) % len(seats)]} {reveal[2]}"
    assert own is not None, written
    return f"{own[1].lower()} {int(own[2]) + 1}"
