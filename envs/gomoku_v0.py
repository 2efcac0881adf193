"""Gomoku on a board of any size, with lines of any length: `line` in a row win.

Seats `player_0` (X, first) and `player_1` (O) put stones on free cells in turn. A cell is named by
its column, a letter from the left, and its row, a number from the top: `c2`. Whoever has `line` or
more stones of its own in a row, column or diagonal wins; a full board is a draw. Rewards at the
end: 1 won, -1 lost, 0 drawn. `size` 3 and `line` 3 is tic-tac-toe; 15 and 5 is the usual board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

from opentinker.env import TextEnv
from opentinker.options import whole

NAME = "gomoku_v0"
SEATS = ("player_0", "player_1")
MARKS = "XO"
FREE = "."
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


class Gomoku(TextEnv):
    """The board is one text, row after row from the top; the infostate is that text in rows."""

    name = NAME
    seats = SEATS
    words = ("a1", "b2", "c3", "b1")

    def __init__(
        self,
        *,
        size: int = 9,
        line: int = 5,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.size = whole(NAME, "size", size, 1, len(ascii_lowercase))
        self.line = whole(NAME, "line", line, 1, size)
        self.cells = tuple(f"{ascii_lowercase[k % size]}{k // size + 1}" for k in range(size**2))
        self.places = {cell: place for place, cell in enumerate(self.cells)}
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        self.board = FREE * self.size**2
        self.newest = ""
        self.result: str | None = None

    def describe(self, seat: str) -> str:
        mark = MARKS[SEATS.index(seat)]
        text = f"Gomoku, {self.line} in a row win. You are {seat} and play {mark}.\n"
        text += f"{self.picture()}\n"
        if self.result is not None:
            return text + {"": "A draw.", mark: "You won."}.get(self.result, "You lost.")
        if seat != self.agent_selection:
            return text + "The other one is to move."
        last = f"The other one played {self.newest}. " if self.newest else ""
        example = self.cells[self.board.index(FREE)]
        return f"{text}{last}Answer a free cell, column and row, as [{example}]."

    def legal(self, seat: str) -> Sequence[str]:
        return [cell for cell, mark in zip(self.cells, self.board, strict=True) if mark == FREE]

    def infostate(self, seat: str) -> str:
        return "/".join(self._rows())

    def play(self, seat: str, action: str) -> None:
        place, mark = self.places[action], MARKS[SEATS.index(seat)]
        self.board = self.board[:place] + mark + self.board[place + 1 :]
        self.newest = action
        if longest(self.board, self.size, place) >= self.line:
            self.result = mark
            self.reward(seat, 1.0)
            self.reward(SEATS[1 - SEATS.index(seat)], -1.0)
            self.finish()
        elif FREE not in self.board:
            self.result = ""
            self.finish()

    def picture(self) -> str:
        head = "   " + " ".join(ascii_lowercase[: self.size])
        rows = [f"{k:>2} {' '.join(row)}" for k, row in enumerate(self._rows(), start=1)]
        return "\n".join([head, *rows])

    def _rows(self) -> list[str]:
        return [self.board[k : k + self.size] for k in range(0, len(self.board), self.size)]


def env(**options: Any) -> Gomoku:
    return Gomoku(**options)


def longest(board: str, size: int, place: int) -> int:
    """The length of the longest line of equal stones through `place`, which has one."""
    row, column = divmod(place, size)
    return max(
        1
        + _run(board, size, row, column, down, right)
        + _run(board, size, row, column, -down, -right)
        for down, right in DIRECTIONS
    )


def _run(board: str, size: int, row: int, column: int, down: int, right: int) -> int:
    """How many stones equal to the one at (row, column) follow it in one direction."""
    mark, count = board[row * size + column], 0
    row, column = row + down, column + right
    while 0 <= row < size and 0 <= column < size and board[row * size + column] == mark:
        row, column, count = row + down, column + right, count + 1
    return count
