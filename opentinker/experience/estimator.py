"""The contract of a credit estimator, whose collection is `opentinker.experience.credit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from opentinker.experience.returns import compared
from opentinker.types import Play


@dataclass(frozen=True, slots=True)
class Credit:
    """What each turn was worth, and what is worth logging about it."""

    advantages: list[NDArray[np.float64]]
    """one [K] a play, in the order of the plays"""
    metrics: Mapping[str, float] = field(default_factory=dict)
    targets: list[NDArray[np.float64]] | None = None
    """one [K] a play: what the critic should have said; None without a critic"""


class Estimator(Protocol):
    """Turns the plays of one policy into advantages; what it remembers goes through `state`."""

    needs_values: ClassVar[bool]
    """whether plays must come with a critic's `values`"""

    def advantages(self, plays: Sequence[Play]) -> Credit: ...

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON values."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        ...


class Memoryless:
    """The half of an estimator that remembers nothing from one update to the next."""

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        pass


def every_turn(
    plays: Sequence[Play], values: Iterable[float], metrics: Mapping[str, float]
) -> Credit:
    """The credit in which every turn of a play is worth the play's value."""
    turns = [np.full(len(play.rewards), value) for play, value in zip(plays, values, strict=True)]
    return Credit(turns, metrics)


def within_groups(
    plays: Sequence[Play], compare: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Credit:
    """Give `compare` the total returns [G] of each group: plays of the same start and seat.

    A group of one or of equal returns teaches nothing: its plays get 0, and it is counted.
    """
    returns = np.array([play.rewards.sum() for play in plays], dtype=np.float64)
    keys = ((play.group, play.seat) for play in plays)
    return every_turn(plays, *compared(keys, returns, compare))


def turn_by_turn(plays: Sequence[Play], values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """`values` of all turns of all plays, one after the other, as one [K] a play."""
    ends = np.cumsum([len(play.rewards) for play in plays], dtype=np.int64)
    return np.split(values, ends[:-1]) if plays else []
