"""RLOO: a return against the mean of the others in its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opentinker.experience.estimator import Credit, Memoryless, within_groups
from opentinker.types import Play


class LeaveOneOut(Memoryless):
    """R - mean of the other plays of the same start and seat (arXiv 2402.14740).

    A group of one or of equal returns gets 0 and is counted.
    """

    needs_values: ClassVar[bool] = False

    def advantages(self, plays: Sequence[Play]) -> Credit:
        return within_groups(plays, _against_others)


def _against_others(returns: NDArray[np.float64]) -> NDArray[np.float64]:
    return returns - (returns.sum() - returns) / (len(returns) - 1)


build = LeaveOneOut
