"""PettingZoo's connect four, as a board of letters.

Seats `player_0` (X, first) and `player_1` (O). Columns are called 1 to 7 from the left; column k is
PettingZoo's action k - 1. A stone falls to the lowest free cell of its column. Rewards at the end:
1 won, -1 lost, 0 drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentinker.view import Moves, ViewedEnv, pettingzoo_maker

MARKS = {"player_0": "X", "player_1": "O"}


class ConnectFourView:
    """Six rows under the numbers of the columns; the infostate is the rows in one line."""

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        rows = "\n".join(" ".join(row) for row in ["1234567", *self._rows(env)])
        text = f"Connect four: four in a row win, in any direction. You are {seat} and play "
        text += f"{MARKS[seat]}.\n{rows}\n"
        if any(env.terminations.values()):
            return text + {1: "You won.", -1: "You lost.", 0: "A draw."}[int(env.rewards[seat])]
        if seat != env.agent_selection:
            return text + "The other one is to move."
        legal = " ".join(f"[{name}]" for name in self.legal(env, seat))
        return f"{text}Answer the column of your stone: {legal}."

    def legal(self, env: Any, seat: str) -> list[str]:
        return [str(k) for k, mark in enumerate(self._rows(env)[0], start=1) if mark == "."]

    def action(self, env: Any, seat: str, name: str) -> int:
        return int(name) - 1

    def infostate(self, env: Any, seat: str, moves: Moves) -> str:
        return "/".join(self._rows(env))

    def _rows(self, env: Any) -> list[str]:
        """The rows, from the top."""
        planes = np.asarray(env.observe("player_0")["observation"])
        return ["".join("X" if x else "O" if o else "." for x, o in row) for row in planes]


def env(*, illegal: str | None = None, render_mode: str | None = None) -> ViewedEnv:
    return ViewedEnv(
        pettingzoo_maker("aec", "classic/connect_four-v3"),
        ConnectFourView(),
        words=tuple("1234567"),
        illegal=illegal,
        render_mode=render_mode,
    )
