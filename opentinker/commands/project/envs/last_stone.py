"""Last stone: two seats take 1 or 2 stones from a heap in turn; who takes the last one wins.

The best play is to leave the other a multiple of 3, whenever that can be done.
"""

from collections.abc import Mapping
from typing import Any

from opentinker.env import TextEnv
from opentinker.options import whole


class LastStone(TextEnv):
    name = "last_stone"
    seats = ("player_0", "player_1")
    words = ("1", "2")

    def __init__(self, *, most: int = 9, **options: Any) -> None:
        self.most = whole("last_stone", "most", most, 4)
        super().__init__(**options)

    def deal(self, options: Mapping[str, Any]) -> None:
        """Start a game. Whatever is drawn comes from `self.rng`, so that a seed repeats it."""
        self.stones = int(self.rng.integers(4, self.most + 1))
        self.winner = ""

    def describe(self, seat: str) -> str:
        """What `seat` sees, also after the end."""
        if self.winner:
            return f"The heap is empty. {self.winner} took the last stone."
        takes = " or ".join(f"[{number}]" for number in self.legal(seat))
        return f"{self.stones} stones are left. Take {takes}."

    def legal(self, seat: str) -> list[str]:
        return [str(number) for number in (1, 2) if number <= self.stones]

    def infostate(self, seat: str) -> str:
        """All that `seat` knows, as a key of tables and solvers."""
        return f"{seat}:{self.stones}"

    def play(self, seat: str, action: str) -> None:
        self.stones -= int(action)
        if self.stones == 0:
            self.winner = seat
            for each in self.seats:
                self.reward(each, 1.0 if each == seat else -1.0)
            self.finish()


def env(**options: Any) -> LastStone:
    return LastStone(**options)
