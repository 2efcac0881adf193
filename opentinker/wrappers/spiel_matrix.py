"""How OpenSpiel's matrix games read: the whole table of payoffs, from the seat's own side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentinker.wrappers.spiel_view import seat_name


class MatrixView:
    """Two choose at once; a choice has its name of the library, in small letters."""

    def describe(self, state: Any, player: int) -> str:
        game, other = state.get_game(), 1 - player
        mine, theirs = choices(game, player), choices(game, other)
        them = seat_name(other, player)
        lines = [f"Both choose at once. What each of your choices pays you, {them}:"]
        for k, choice in enumerate(mine):
            pays = "; ".join(
                f"{_pay(game, player, k, j)} against {name}" for j, name in enumerate(theirs)
            )
            lines.append(f"{choice}: {pays}.")
        if state.is_terminal():
            played = state.history()
            lines.append(f"You played {mine[played[player]]}, {them} {theirs[played[other]]}.")
        return "\n".join(lines)

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        names = choices(state.get_game(), player)
        return {names[number]: number for number in state.legal_actions(player)}


def choices(game: Any, player: int) -> list[str]:
    """What `player` can choose; player 0 has the rows."""
    if player == 0:
        return [game.row_action_name(k).lower() for k in range(game.num_rows())]
    return [game.col_action_name(k).lower() for k in range(game.num_cols())]


def _pay(game: Any, player: int, own: int, against: int) -> str:
    """What `player` gets for choosing `own` when the other chooses `against`, and the other."""
    row, column = (own, against) if player == 0 else (against, own)
    pays = (game.player_utility(who, row, column) for who in (player, 1 - player))
    return ", ".join(f"{pay:g}" for pay in pays)
