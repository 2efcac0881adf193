"""How OpenSpiel's Kuhn poker, Leduc poker and Goofspiel read: the seat's cards, what was done.

A text is made of what the library's own information state has, so it tells neither more nor less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.wrappers.spiel_view import public_moves, seat_name

RANKS = ("3", "4", "5", "6", "7", "8", "9", "10", "jack", "queen", "king")
"""The highest are played with; the library's limit of ten players needs eleven."""
SUITS = ("hearts", "spades")
FOLD, CALL = 0, 1
STACK = 100
"""Chips a seat of Leduc poker starts with."""
PAYS = {
    "win_loss": "The most points in the end win.",
    "point_difference": "In the end you get your points less the average of all seats.",
    "total_points": "In the end you get your points.",
}


class KuhnView:
    """Passing and betting have the names that they have at a table: check, bet, fold, call."""

    def describe(self, state: Any, player: int) -> str:
        players = state.num_players()
        deck = RANKS[-players - 1 :]
        told = []
        for number, (who, action) in enumerate(moves := public_moves(state)):
            faced = any(bet for _, bet in moves[:number])
            word = (("checked", "bet"), ("folded", "called"))[faced][action]
            told.append(f"{seat_name(who, player)} {word}")
        return (
            f"One card each of {', '.join(deck)}; the highest wins. "
            "Each seat has paid 1; to bet or to call costs 1 more.\n"
            f"Your card: {deck[state.history()[player]]}.\n"
            f"Moves: {', '.join(told) or 'none yet'}."
        )

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        faced = any(bet for _, bet in public_moves(state))
        names = (("check", "bet"), ("fold", "call"))[faced]
        return {names[number]: number for number in state.legal_actions(player)}


class LeducView:
    """A call of nothing is a check. Cards have suits unless the game does without them."""

    def describe(self, state: Any, player: int) -> str:
        facts = _facts(state, player)
        players = state.num_players()
        deck = RANKS[-players - 1 :]
        plain = state.get_game().get_parameters()["suit_isomorphism"]
        rounds = [[int(code) for code in facts[f"Round{k}"].split()] for k in (1, 2)]
        actors = [who for who, _ in public_moves(state)]
        halves = (actors[: len(rounds[0])], actors[len(rounds[0]) :])
        chips = [float(money) - STACK for money in facts["Money"].split()]
        over = state.is_terminal()
        each = ", ".join(
            f"{seat_name(k, player)} {change if over else -change:g}"
            for k, change in enumerate(chips)
        )
        public = facts.get("Public")
        lines = [
            f"Two cards each of {', '.join(deck)}. A pair with the public card wins, else the "
            "highest card. Ante 1; a raise is 2 in round 1 and 4 in round 2, at most two a round.",
            f"Your card: {_card(facts['Private'], deck, plain)}. "
            f"Public card: {_card(public, deck, plain) if public else 'none yet'}.",
        ]
        for number, (who, codes) in enumerate(zip(halves, rounds, strict=True), start=1):
            if number == 1 or public:
                lines.append(f"Round {number}: {_bets(who, codes, player)}.")
        return "\n".join([*lines, f"{'Won' if over else 'Paid so far'}: {each}."])

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        facts = _facts(state, player)
        here = facts[f"Round{2 if 'Public' in facts else 1}"].split()
        names = ("fold", "call" if "2" in here else "check", "raise")
        return {names[number]: number for number in state.legal_actions(player)}


class GoofspielView:
    """A bid has the number of its card."""

    def describe(self, state: Any, player: int) -> str:
        rules = state.get_game().get_parameters()
        lines = state.information_state_string(player).splitlines()
        facts = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
        prizes, winners = facts["Point card sequence"], facts["Win sequence"]
        bids = [f", you bid {int(code) + 1}" for code in facts.get(_bids(player), [])]
        past = [
            f"{prize} to {seat_name(int(who), player) if int(who) >= 0 else 'nobody'}{bid}"
            for prize, who, bid in zip(prizes, winners, bids or [""] * len(winners), strict=False)
        ]
        rounds = rules["num_turns"] if rules["num_turns"] > 0 else rules["num_cards"]
        owners = ["Your" if k == player else f"player_{k}'s" for k in range(state.num_players())]
        hands = [
            f"{owner} cards: {' '.join(cards) or 'none'}."
            for k, owner in enumerate(owners)
            if (cards := facts.get(f"P{k} hand")) is not None
        ]
        points = (f"{seat_name(k, player)} {got}" for k, got in enumerate(facts["Points"]))
        told = [
            "Each round every seat bids a card for the prize; the highest bid gets its points, "
            f"nobody does at a tie. {PAYS[rules['returns_type']]}",
        ]
        if len(prizes) > len(winners):
            told.append(f"Round {len(prizes)} of {rounds}. Prize: {prizes[-1]}.")
        told += [*hands, f"Points: {', '.join(points)}."]
        return "\n".join([*told, f"Past prizes: {'; '.join(past) or 'none yet'}."])

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        return {str(number + 1): number for number in state.legal_actions(player)}


def _bids(player: int) -> str:
    return f"P{player} action sequence"


def _facts(state: Any, player: int) -> dict[str, str]:
    """The parts of Leduc poker's information state: `[Private: 5][Round1: 2 1]` ..."""
    return dict(re.findall(r"\[(\w+): ?([^\]]*)\]", state.information_state_string(player)))


def _card(code: str, deck: Sequence[str], plain: bool) -> str:
    number = int(code)
    return deck[number] if plain else f"{deck[number // 2]} of {SUITS[number % 2]}"


def _bets(actors: Sequence[int], codes: Sequence[int], player: int) -> str:
    told = []
    for number, (who, code) in enumerate(zip(actors, codes, strict=True)):
        faced = any(before > CALL for before in codes[:number])
        called = "called" if faced else "checked"
        word = "folded" if code == FOLD else called if code == CALL else "raised"
        told.append(f"{seat_name(who, player)} {word}")
    return ", ".join(told) or "no moves yet"
