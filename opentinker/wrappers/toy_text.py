"""Gymnasium's games of words, as a person would be told them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Told = Mapping[str, Any]


class FrozenLakeView:
    """The map in letters, `A` where the seat stands."""

    def describe(self, env: Any, seen: Any, told: Told) -> str:
        rows = [[cell.decode() for cell in row] for row in env.unwrapped.desc]
        row, column = divmod(int(seen), len(rows[0]))
        ground, rows[row][column] = rows[row][column], "A"
        text = "Frozen lake. Walk from S to the goal G over ice F; who falls into a hole H is lost."
        text += _slippery(env, True)
        board = "\n".join(" ".join(cells) for cells in rows)
        return f"{text}\n{board}\nYou are A, on {ground}."

    def actions(self, env: Any, told: Told) -> dict[str, int]:
        return {"left": 0, "down": 1, "right": 2, "up": 3}


class CliffWalkingView:
    """Four rows of twelve cells; each step costs 1, the cliff 100 and a way back to the start."""

    def describe(self, env: Any, seen: Any, told: Told) -> str:
        rows = [["."] * 12 for _ in range(4)]
        rows[3] = ["S", *"#" * 10, "G"]
        row, column = divmod(int(seen), 12)
        rows[row][column] = "A"
        board = "\n".join(" ".join(cells) for cells in rows)
        text = "Cliff walking. You are A; walk to the goal G. Each step costs 1. Who steps on the "
        text += f"cliff # loses 100 and is back at the start S.{_slippery(env, False)}"
        return f"{text}\n{board}"

    def actions(self, env: Any, told: Told) -> dict[str, int]:
        return {"up": 0, "right": 1, "down": 2, "left": 3}


class TaxiView:
    """The town with its walls `|`; the actions that a wall forbids are not listed."""

    NAMES = ("south", "north", "east", "west", "pickup", "dropoff")
    PLACES = ("R", "G", "Y", "B")

    def describe(self, env: Any, seen: Any, told: Told) -> str:
        row, column, passenger, goal = map(int, env.unwrapped.decode(int(seen)))
        town = [[cell.decode() for cell in line] for line in env.unwrapped.desc]
        town[row + 1][2 * column + 1] = "T"
        where = f"waits at {self.PLACES[passenger]}" if passenger < 4 else "is in the taxi"
        board = "\n".join("".join(line) for line in town)
        return (
            "Taxi. Drive T in the town, past walls |, pick the passenger up and set them down "
            "where they want to go. Each step costs 1, a wrong pickup or dropoff 10, the right "
            f"dropoff earns 20.\n{board}\nThe taxi is in row {row}, column {column}. The "
            f"passenger {where} and wants to go to {self.PLACES[goal]}."
        )

    def actions(self, env: Any, told: Told) -> dict[str, int]:
        mask = told.get("action_mask", np.ones(6))
        return {name: k for k, name in enumerate(self.NAMES) if mask[k]}


class BlackjackView:
    """Sutton and Barto's blackjack: cards come from an endless deck."""

    def describe(self, env: Any, seen: Any, told: Told) -> str:
        total, dealer, ace = map(int, seen)
        soft = ", with an ace counted as 11" if ace else ""
        shown = "an ace" if dealer == 1 else str(dealer)
        return (
            "Blackjack. Come closer to 21 than the dealer, not over it. Your cards make "
            f"{total}{soft}. The dealer shows {shown}."
        )

    def actions(self, env: Any, told: Told) -> dict[str, int]:
        return {"stick": 0, "hit": 1}


def _slippery(env: Any, otherwise: bool) -> str:
    """The warning, if the env was made so; `otherwise` is what it is when that was not said."""
    slips = env.spec.kwargs.get("is_slippery", otherwise) if env.spec else otherwise
    return " It is slippery: you may slide to the side." if slips else ""
