"""Tic-tac-toe enumerated, by its position function and through the env: the odds of random play."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from opentinker.envs.tictactoe_v3 import position
from opentinker.game import Terminal
from opentinker.registry import make_env

Odds = tuple[float, float, float]
"""of the first seat, the second, and a draw"""

RANDOM_PLAY = (737 / 1260, 121 / 420, 8 / 63)
"""58.492, 28.810 and 12.698 %"""


@cache
def odds(board: str) -> Odds:
    here = position(board)
    if isinstance(here, Terminal):
        return _end(here.returns["player_1"])
    return _mean([odds(child) for child in here.children.values()])


def _end(first: float) -> Odds:
    return float(first == 1.0), float(first == -1.0), float(first == 0.0)


def _mean(ways: list[Odds]) -> Odds:
    first, second, draw = (sum(way) / len(ways) for way in zip(*ways, strict=True))
    return first, second, draw


def test_random_play_has_the_known_odds() -> None:
    assert [round(100 * chance, 3) for chance in RANDOM_PLAY] == [58.492, 28.810, 12.698]
    assert odds("." * 9) == pytest.approx(RANDOM_PLAY, abs=1e-12)


class Enumeration:
    """Every position that the env can come to, what is legal there, and the odds from there."""

    def __init__(self) -> None:
        self.env: Any = make_env("tictactoe_v3")
        self.odds: dict[str, Odds] = {}
        self.moves: dict[str, list[str]] = {}
        self.visit(())

    def visit(self, line: tuple[str, ...]) -> Odds:
        env = self.env
        env.reset(seed=0)
        for move in line:
            env.step(move)
        if all(env.terminations.values()):
            assert env.rewards["player_2"] == -env.rewards["player_1"]
            return _end(env.rewards["player_1"])
        info = env.infos[env.agent_selection]
        board, legal = info["infostate"], info["legal_actions"]
        if board not in self.odds:
            self.odds[board] = _mean([self.visit((*line, move)) for move in legal])
            self.moves[board] = legal
        return self.odds[board]


@pytest.mark.slow
def test_the_env_and_the_position_function_tell_the_same_game() -> None:
    """5478 positions can be reached, 958 of them ends (626 won by X, 316 by O, 16 drawn)."""
    enumeration = Enumeration()
    assert enumeration.odds["." * 9] == pytest.approx(RANDOM_PLAY, abs=1e-12)
    assert len(enumeration.moves) == 5478 - 958
    ends = {}
    for board, legal in enumeration.moves.items():
        assert enumeration.odds[board] == pytest.approx(odds(board), abs=1e-12)
        here = position(board)
        assert not isinstance(here, Terminal)
        assert list(here.children) == legal
        for child in here.children.values():
            if isinstance(end := position(child), Terminal):
                ends[child] = end.returns["player_1"]
            else:
                assert child in enumeration.moves
    values = list(ends.values())
    assert [values.count(value) for value in (1.0, -1.0, 0.0)] == [626, 316, 16]
