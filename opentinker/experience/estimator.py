"""The contract of a credit estimator, whose collection is `opentinker.experience.credit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opentinker.types import Play

SAME = 1e-9
"""Returns of a group that differ by less than this share of their size are the same return."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What each turn was worth, and what is worth logging about it."""

    advantages: list[NDArray[np.float64]]
    """one [K] a play, in the order of the plays"""
    metrics: Mapping[str, float] = field(default_factory=dict)


class Estimator(Protocol):
    """Turns the plays of one policy into advantages; what it remembers goes through `state`."""

    def advantages(self, plays: Sequence[Play]) -> Credit: ...

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON values."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        ...


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
    groups: dict[tuple[str, str], list[int]] = {}
    for position, play in enumerate(plays):
        groups.setdefault((play.group, play.seat), []).append(position)
    returns = np.array([play.rewards.sum() for play in plays], dtype=np.float64)
    values = np.zeros(len(plays))
    constant = 0
    for members in groups.values():
        own = returns[members]
        if np.ptp(own) > SAME * max(1.0, np.abs(own).max()):
            values[members] = compare(own)
        else:
            constant += 1
    return every_turn(plays, values, {"groups": len(groups), "constant_groups": constant})
