"""GRPO: a return against the mean of its group, over the group's standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from opentinker.experience.estimator import Credit, Memoryless, within_groups
from opentinker.experience.returns import standardized
from opentinker.types import Play


class GroupRelative(Memoryless):
    """(R - mean) / std over plays of the same start and seat (arXiv 2402.03300).

    The std is the population's, and nothing is added to it. Without `std` only the mean is taken
    off (Dr. GRPO, arXiv 2503.20783). A group of one or of equal returns gets 0 and is counted.
    """

    needs_values: ClassVar[bool] = False

    def __init__(self, std: bool = True) -> None:
        self._std = std

    def advantages(self, plays: Sequence[Play]) -> Credit:
        return within_groups(plays, partial(standardized, std=self._std))


build = GroupRelative
