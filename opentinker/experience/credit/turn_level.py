"""AT-GRPO: what a turn led to, against the same turn of the same seat in its group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from opentinker.experience.estimator import Credit, Memoryless, turn_by_turn
from opentinker.experience.returns import compared, returns_to_go, share, standardized
from opentinker.types import Play


class TurnLevel(Memoryless):
    """(G - mean) / std over the same turn of plays of one start and seat (arXiv 2510.11062).

    G is the return-to-go, discounted by `gamma` a turn. With `same_prompt` only turns that were
    asked with the same ids are compared; without it, turns of one index whatever went before. The
    std is the population's; without `std` only the mean is taken off. A group of one or of equal
    returns gets 0 and is counted. Raises ValueError for a play without digests of its prompts.
    """

    needs_values: ClassVar[bool] = False

    def __init__(self, gamma: float = 1.0, same_prompt: bool = True, std: bool = True) -> None:
        self._gamma = share("turn_level", "gamma", gamma)
        self._same_prompt = same_prompt
        self._std = std

    def advantages(self, plays: Sequence[Play]) -> Credit:
        returns = [returns_to_go(play.rewards, self._gamma) for play in plays]
        keys = [key for play in plays for key in self._keys(play)]
        values, metrics = compared(
            keys, np.concatenate([*returns, []]), partial(standardized, std=self._std)
        )
        return Credit(turn_by_turn(plays, values), metrics)

    def _keys(self, play: Play) -> list[Hashable]:
        """[K] which group each turn belongs to."""
        turns = range(len(play.rewards))
        if not self._same_prompt:
            return [(play.group, play.seat, k) for k in turns]
        if len(play.prompts) != len(turns):
            raise ValueError(
                f"seat {play.seat!r} in episode {play.episode!r} has {len(play.prompts)} digests "
                f"of prompts for {len(turns)} turns; compare without them: same_prompt = false"
            )
        return [(play.group, play.seat, k, play.prompts[k]) for k in turns]


build = TurnLevel
