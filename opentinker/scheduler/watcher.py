"""What a job tells of itself while it runs; the command line draws it, a test ignores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Watcher(Protocol):
    """Hears of phases, steps and results as they come."""

    def phase(self, text: str) -> None: ...

    def step(self, row: Mapping[str, float], step: int, total: int) -> None: ...

    def closing(self, title: str, rows: Sequence[tuple[str, str, str]]) -> None:
        """A table of (what, at the first step, at the last)."""
        ...


class Silent:
    """A watcher that says nothing."""

    def phase(self, text: str) -> None:
        del text

    def step(self, row: Mapping[str, float], step: int, total: int) -> None:
        del row, step, total

    def closing(self, title: str, rows: Sequence[tuple[str, str, str]]) -> None:
        del title, rows
