"""GRPO: a return against the mean of its group, over the group's standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opentinker.experience.estimator import Credit, within_groups
from opentinker.types import Play


class GroupRelative:
    """(R - mean) / std over plays of the same start and seat (arXiv 2402.03300).

    The std is the population's, and nothing is added to it. Without `std` only the mean is taken
    off (Dr. GRPO, arXiv 2503.20783). A group of one or of equal returns gets 0 and is counted.
    """

    def __init__(self, std: bool = True) -> None:
        self._std = std

    def advantages(self, plays: Sequence[Play]) -> Credit:
        return within_groups(plays, self._relative)

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        pass

    def _relative(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        centred = returns - returns.mean()
        return centred / returns.std() if self._std else centred


build = GroupRelative
