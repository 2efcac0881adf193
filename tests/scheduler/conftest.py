"""What two runs of one experiment have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opentinker.recorder import Run

CLOCK = ("seconds", "tokens_per_second")
ROUNDING = ("mismatch_kl", "mismatch_max", "probe_gap")
"""what measures the engine's rounding, which depends on how requests happened to be batched"""


@pytest.fixture(scope="session")
def exact() -> Callable[..., list[dict[str, Any]]]:
    """A run's records without what may differ between two runs of the same experiment."""

    def read(run: Run, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
        return [
            {
                key: value
                for key, value in row.items()
                if not key.startswith(CLOCK) and not key.endswith(ROUNDING)
            }
            for row in run.lines(name)
        ]

    return read
