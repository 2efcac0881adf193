"""The arithmetic of returns: discounting, standardizing, comparing within groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from opentinker.errors import ConfigError

SAME = 1e-9
"""Returns of a group that differ by less than this share of their size are the same return."""


def share(estimator: str, option: str, value: float) -> float:
    """`value` if it lies in 0 to 1, both included; `ConfigError` if not."""
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"credit {estimator!r}: {option} is {value}; allowed: 0 <= {option} <= 1")
    return float(value)


def returns_to_go(rewards: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    """[K] what was paid from each turn on: G_k = r_k + gamma * G_(k+1)."""
    found = np.zeros(len(rewards))
    total = 0.0
    for k in reversed(range(len(rewards))):
        found[k] = total = float(rewards[k]) + gamma * total
    return found


def alike(values: NDArray[np.float64]) -> bool:
    """Whether [N] values are one value but for rounding; so are none and one."""
    if len(values) < 2:
        return True
    return bool(np.ptp(values) <= SAME * max(1.0, np.abs(values).max()))


def standardized(values: NDArray[np.float64], std: bool = True) -> NDArray[np.float64]:
    """(x - mean) / std of [N] values, or x - mean without `std`; 0 where all are alike.

    The std is the population's, and nothing is added to it.
    """
    if alike(values):
        return np.zeros(len(values))
    centred = values - values.mean()
    return centred / values.std() if std else centred


def compared(
    keys: Iterable[Hashable],
    returns: NDArray[np.float64],
    compare: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> tuple[NDArray[np.float64], Mapping[str, float]]:
    """[N]: `compare` of the returns [G] of each group, those of `returns` [N] with equal keys [N].

    A group of one or of equal returns teaches nothing: its members get 0, and it is counted in the
    metrics that come second.
    """
    groups: dict[Hashable, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    values = np.zeros(len(returns))
    constant = 0
    for members in groups.values():
        own = returns[members]
        if alike(own):
            constant += 1
        else:
            values[members] = compare(own)
    return values, {"groups": len(groups), "constant_groups": constant}
