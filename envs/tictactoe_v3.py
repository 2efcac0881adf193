"""PettingZoo's tic-tac-toe, as a board of letters.

Seats `player_1` (X, first) and `player_2` (O). Cells are called 1 to 9 as one reads, from the top
left; cell k is PettingZoo's action k - 1. (Its picture shows the board mirrored along the diagonal,
which changes no line.) Rewards at the end: 1 won, -1 lost, 0 drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentinker.game import Position, Terminal
from opentinker.view import Moves, ViewedEnv, pettingzoo_maker

MARKS = {"player_1": "X", "player_2": "O"}
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
"""The places of each line in a board of nine letters."""


class TicTacToeView:
    """A free cell shows its number; the infostate is the board in one line."""

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        cells = [mark or str(k) for k, mark in enumerate(self._cells(env), start=1)]
        rows = "\n".join(" ".join(cells[k : k + 3]) for k in (0, 3, 6))
        text = f"Tic-tac-toe, three in a row win. You are {seat} and play {MARKS[seat]}.\n{rows}\n"
        if any(env.terminations.values()):
            return text + {1: "You won.", -1: "You lost.", 0: "A draw."}[int(env.rewards[seat])]
        if seat != env.agent_selection:
            return text + "The other one is to move."
        return f"{text}Answer one of {' '.join(f'[{name}]' for name in self.legal(env, seat))}."

    def legal(self, env: Any, seat: str) -> list[str]:
        return [str(k) for k, mark in enumerate(self._cells(env), start=1) if not mark]

    def action(self, env: Any, seat: str, name: str) -> int:
        return int(name) - 1

    def infostate(self, env: Any, seat: str, moves: Moves) -> str:
        return "".join(mark or "." for mark in self._cells(env))

    def _cells(self, env: Any) -> list[str]:
        planes = np.asarray(env.observe("player_1")["observation"]).reshape(9, 2)
        return ["X" if first else "O" if second else "" for first, second in planes]


def env(*, illegal: str | None = None, render_mode: str | None = None) -> ViewedEnv:
    return ViewedEnv(
        pettingzoo_maker("aec", "classic/tictactoe-v3"),
        TicTacToeView(),
        words=tuple("123456789"),
        illegal=illegal,
        render_mode=render_mode,
    )


def position(board: str) -> Position | Terminal:
    """What the infostate `board` stands for; `"." * 9` is the start."""
    for first, second, third in LINES:
        if board[first] != "." and board[first] == board[second] == board[third]:
            return Terminal({seat: 1.0 if board[first] == MARKS[seat] else -1.0 for seat in MARKS})
    if "." not in board:
        return Terminal(dict.fromkeys(MARKS, 0.0))
    seat = "player_2" if board.count("X") > board.count("O") else "player_1"
    free = [place for place, mark in enumerate(board) if mark == "."]
    return Position(seat, {str(k + 1): f"{board[:k]}{MARKS[seat]}{board[k + 1 :]}" for k in free})
