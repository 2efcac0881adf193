"""RLOO: a return against the mean of the others in its group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opentinker.experience.estimator import Credit, within_groups
from opentinker.types import Play


class LeaveOneOut:
    """R - mean of the other plays of the same start and seat (arXiv 2402.14740).

    A group of one or of equal returns gets 0 and is counted.
    """

    def advantages(self, plays: Sequence[Play]) -> Credit:
        return within_groups(plays, _against_others)

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        pass


def _against_others(returns: NDArray[np.float64]) -> NDArray[np.float64]:
    return returns - (returns.sum() - returns) / (len(returns) - 1)


build = LeaveOneOut
