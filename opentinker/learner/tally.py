"""Sums of what was seen, from micro-batch to micro-batch and step to step, and their means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from torch import Tensor


class Tally:
    """Metrics by name, each the mean of all numbers that were added under it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)
        self.worst_gap = 0.0
        """the largest of all, of either sign"""

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Numbers [N] of tokens or turns; under `gap` the largest alone is kept."""
        for name, each in values.items():
            if not each.numel():
                continue
            if name == "gap":
                self.worst_gap = max(self.worst_gap, each.abs().max().item())
                continue
            self._sums[name] += each.sum().item()
            self._counts[name] += each.numel()

    def note(self, name: str, value: float) -> None:
        """One number of a whole optimizer step."""
        self._sums[name] += value
        self._counts[name] += 1

    def merge(self, other: Tally) -> None:
        for name, value in other._sums.items():
            self._sums[name] += value
            self._counts[name] += other._counts[name]
        self.worst_gap = max(self.worst_gap, other.worst_gap)

    def means(self) -> dict[str, float]:
        """Those of all names; `mismatch_max` where there is a `mismatch_kl`."""
        found = {name: value / self._counts[name] for name, value in self._sums.items()}
        if "mismatch_kl" in found:
            found["mismatch_max"] = self.worst_gap
        return found
