"""Plays perfectly where all is known and nothing is drawn: it looks at every way to the end.

For games of two seats in which one wins what the other loses. The value of a position is kept, so
that ways that meet again are looked at once, and it is shared by all agents of the game.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache

from opentinker.agent import Agent, Answer, View
from opentinker.errors import ConfigError
from opentinker.game import Positions, Terminal
from opentinker.registry import env_module, load_object
from opentinker.types import Sampler


class Solution:
    """The values of a game's positions, each found when it is first asked for."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._known: dict[str, Mapping[str, float]] = {}

    def returns(self, infostate: str) -> Mapping[str, float]:
        """What each seat gets from there when both play perfectly."""
        if infostate not in self._known:
            here = self._positions(infostate)
            if isinstance(here, Terminal):
                self._known[infostate] = here.returns
            else:
                ways = (self.returns(child) for child in here.children.values())
                self._known[infostate] = max(ways, key=lambda returns: returns[here.seat])
        return self._known[infostate]

    def best(self, infostate: str) -> list[str]:
        """All perfect actions there, in the game's order; none at an end."""
        here = self._positions(infostate)
        if isinstance(here, Terminal):
            return []
        value = self.returns(infostate)[here.seat]
        return [
            action
            for action, child in here.children.items()
            if self.returns(child)[here.seat] == value
        ]


class MinimaxAgent:
    """Draws uniformly from the perfect actions; reads the position from the view's infostate."""

    def __init__(self, solution: Solution, seed: int) -> None:
        self._solution = solution
        self._generator = random.Random(seed)

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        if view.infostate is None:
            raise ConfigError(f"minimax in seat {view.seat!r}: the env names no information state")
        return Answer(f"[{self._generator.choice(self._solution.best(view.infostate))}]")


@lru_cache(maxsize=16)
def solution(game: str) -> Solution:
    """The one solution of `game`, an env with a `position()` or the place of such a function."""
    if ":" in game:
        return Solution(load_object(game))
    positions = getattr(env_module(game), "position", None)
    if positions is None:
        raise ConfigError(
            f"minimax can't play {game!r}: its module has no position(infostate), which tells what "
            f"each action leads to; tictactoe_v3 has one"
        )
    return Solution(positions)


def make(*, game: str, seat: str, seed: int) -> Agent:
    """`game` is an env's name, or `"package.module:position"` (`opentinker.game.Positions`)."""
    return MinimaxAgent(solution(game), seed)
