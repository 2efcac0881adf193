"""PettingZoo's go, on a board of 9 x 9 unless `size` says otherwise.

Seats `black_0` (X, first) and `white_0` (O). Points are called by column, a letter from the left
without I, and row, a number from the bottom: `[D4]`; or `[pass]`. Two passes end the game; stones
on the board and territory count (area scoring, all stones alive), and `komi` is added to White's.
Suicide is not legal, nor is taking back a ko at once; longer repetitions are. Rewards at the end:
1 won, -1 lost.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from pettingzoo.utils import BaseWrapper

from opentinker.options import number, whole
from opentinker.view import Moves, ViewedEnv, ask, pettingzoo_maker

NAME = "go_v5"
MARKS = {"black_0": "X", "white_0": "O"}
COLUMNS = "ABCDEFGHJKLMNOPQRST"
PASS = "pass"


class GoView:
    """Rows from the top; the infostate is the rows, who is to move, the ko, whether one passed."""

    def __init__(self, size: int, komi: float) -> None:
        points = [f"{COLUMNS[k % size]}{size - k // size}" for k in range(size**2)]
        self._names = [*points, PASS]
        self._numbers = {name: k for k, name in enumerate(self._names)}
        self._size, self._komi = size, komi

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        rows = self._rows(env)
        width = len(str(self._size))
        lines = [f"{self._size - k:>{width}} {' '.join(row)}" for k, row in enumerate(rows)]
        picture = "\n".join([*lines, " " * (width + 1) + " ".join(COLUMNS[: self._size])])
        text = f"Go, {self._size} x {self._size}, White gets {self._komi:g} points more. You are "
        text += f"{seat} and play {MARKS[seat]}.\n{picture}\n"
        if any(env.terminations.values()):
            return text + ("You won." if env.rewards[seat] > 0 else "You lost.")
        if seat != env.agent_selection:
            return text + "The other one is to move."
        last = f"The other one played {next(iter(moves[-1].values()))}. " if moves else ""
        return f"{text}{last}{ask(self.legal(env, seat))}"

    def legal(self, env: Any, seat: str) -> list[str]:
        return [self._names[k] for k in np.flatnonzero(env.observe(seat)["action_mask"])]

    def action(self, env: Any, seat: str, name: str) -> int:
        return self._numbers[name]

    def infostate(self, env: Any, seat: str, moves: Moves) -> str:
        ko = env.unwrapped._go.ko
        taken = "-" if ko is None else self._names[ko[0] * self._size + ko[1]]
        passed = PASS if moves and PASS in moves[-1].values() else "-"
        return " ".join(["/".join(self._rows(env)), MARKS[seat], taken, passed])

    def _rows(self, env: Any) -> list[str]:
        return ["".join({1: "X", -1: "O"}.get(cell, ".") for cell in row) for row in _board(env)]


class OwnBoard(BaseWrapper):
    """Keeps envs of different sizes apart: PettingZoo's go holds the size in its module."""

    def __init__(self, env: Any, size: int) -> None:
        super().__init__(env)
        self._size = size

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._claim()
        super().reset(seed=seed, options=options)

    def step(self, action: Any) -> None:
        self._claim()
        super().step(action)

    def observe(self, agent: str) -> Any:
        self._claim()
        return super().observe(agent)

    def _claim(self) -> None:
        from pettingzoo.classic.go import go_base  # comes with an extra

        if self._size != go_base.N:
            raw: Any = self.unwrapped
            raw._overwrite_go_global_variables(self._size)


def env(
    *,
    size: int = 9,
    komi: float = 7.5,
    illegal: str | None = None,
    render_mode: str | None = None,
) -> ViewedEnv:
    size = whole(NAME, "size", size, 2, len(COLUMNS))
    komi = number(NAME, "komi", komi, -(size**2), size**2)
    return ViewedEnv(
        partial(_make, size, komi),
        GoView(size, komi),
        words=("D4", "E5", "C3", "F6", PASS),
        illegal=illegal,
        render_mode=render_mode,
    )


def _make(size: int, komi: float) -> OwnBoard:
    make = pettingzoo_maker("aec", "classic/go-v5", board_size=size, komi=komi)
    return OwnBoard(make(), size)


def _board(env: Any) -> np.ndarray:
    """[rows from the top, columns] 1 black, -1 white, 0 free."""
    return env.unwrapped._go.board
