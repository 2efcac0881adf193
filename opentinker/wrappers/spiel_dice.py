"""How OpenSpiel's liar's dice and backgammon read: dice, bids and checkers in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opentinker.wrappers.spiel_view import public_moves, seat_name

FACES = ("one", "two", "three", "four", "five", "six")
FACES += ("seven", "eight", "nine", "ten", "eleven", "twelve")
POINTS = 24
HIGHER = {
    "reset-face": "more dice, or as many dice of a higher face",
    "reset-quantity": "a higher face, or more dice of the same face",
}
WINS = {
    "winloss_scoring": "A win pays 1.",
    "enable_gammons": "A win pays 1, a gammon 2.",
    "full_scoring": "A win pays 1, a gammon 2, a backgammon 3.",
}


class LiarsDiceView:
    """A bid is how many dice of a face there are: `2 fives`."""

    def describe(self, state: Any, player: int) -> str:
        rules = state.get_game().get_parameters()
        dice, sides = rules["numdice"], rules["dice_sides"]
        rolled = state.history()[player * dice : (player + 1) * dice]
        bids = [
            f"{seat_name(who, player)}: {bid_name(state.action_to_string(who, action))}"
            for who, action in public_moves(state)
        ]
        return (
            f"Each seat has {dice} hidden dice of {sides} sides; a {sides} counts as any face. "
            "A bid says how many dice of a face all have together; a higher bid has "
            f"{HIGHER[rules['bidding_rule']]}. `liar` doubts the last bid: who is wrong loses.\n"
            f"Your dice: {' '.join(str(face + 1) for face in sorted(rolled))}.\n"
            f"Bids: {'; '.join(bids) or 'none yet'}."
        )

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        numbers = state.legal_actions(player)
        return {bid_name(state.action_to_string(player, k)): k for k in numbers}


class BackgammonView:
    """Points are counted as the seat's moves are written: 24 is the farthest, 1 the last."""

    def describe(self, state: Any, player: int) -> str:
        other, seen = 1 - player, state.observation_string(player)
        bar = _found(r"Bar: ?(\w*)", seen)
        off = (_found(r"X: (\d+)", seen), _found(r"O: (\d+)", seen))
        dice = _found(r"Dice: ?(\d*)", seen)
        lines = [
            "All move their checkers home and off. Points are counted from your side: you go from "
            f"24 down to 1 and off, {seat_name(other, player)} goes up. A move is written from/to; "
            f"* hits. {WINS[state.get_game().get_parameters()['scoring_type']]}"
        ]
        for who, title in ((player, "Your"), (other, f"{seat_name(other, player)}'s")):
            places = [
                f"{count} on {point}"
                for point in range(POINTS, 0, -1)
                if (count := state.board(who, POINTS - point if player == 0 else point - 1))
            ]
            places += [f"{count} on the bar" for count in [bar.count("xo"[who])] if count]
            places += [f"{off[who]} off"] if off[who] != "0" else []
            lines.append(f"{title} checkers: {', '.join(places)}.")
        if dice:
            again = _found(r"Extra turn: (\d)", seen) == "1"
            double = dice[0] == dice[1]
            how = "" if not double else " again" if again else ", to be played twice"
            lines.append(f"Dice: {dice[0]} and {dice[1]}{how}.")
        return "\n".join(lines)

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        """The library has two numbers for some moves, which do the same; the first is taken."""
        names: dict[str, int] = {}
        for number in state.legal_actions(player):
            written = state.action_to_string(player, number).partition("- ")[2]
            names.setdefault(written.lower(), number)
        return names


def bid_name(written: str) -> str:
    """The library's `2-5` in words; faces above twelve stay numbers."""
    if written == "Liar":
        return "liar"
    count, face = (int(part) for part in written.split("-"))
    if face > len(FACES):
        return f"{count} of {face}"
    name = FACES[face - 1]
    many = f"{name}es" if name == "six" else f"{name}s"
    return f"{count} {name if count == 1 else many}"


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1) if match else ""
