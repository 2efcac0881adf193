"""REINFORCE++: what was paid from each turn on, standardized over the whole update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from opentinker.experience.estimator import Credit, Memoryless, turn_by_turn
from opentinker.experience.returns import returns_to_go, share, standardized
from opentinker.types import Play


class GlobalNorm(Memoryless):
    """(G - mean) / std over all turns of all plays of an update (arXiv 2501.03262).

    G is the return-to-go, discounted by `gamma` a turn. The std is the population's; where it is 0
    every turn gets 0.
    """

    needs_values: ClassVar[bool] = False

    def __init__(self, gamma: float = 1.0) -> None:
        self._gamma = share("global_norm", "gamma", gamma)

    def advantages(self, plays: Sequence[Play]) -> Credit:
        returns = [returns_to_go(play.rewards, self._gamma) for play in plays]
        return Credit(turn_by_turn(plays, standardized(np.concatenate([*returns, []]))))


build = GlobalNorm
