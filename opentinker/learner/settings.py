"""How one policy learns: the knobs of its updates, and their schedules. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from opentinker.errors import ConfigError

Schedule = float | tuple[float, float]
"""A number, or its value at the start and at the end of training, linear in between."""

Normalization = Literal["token", "sequence"]


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """ConfigError for a value that can't be.

    `entropy` and `kl` are the coefficients of the entropy bonus and of KL(policy || reference),
    exact over the vocabulary; the reference is a copy of the policy, taken anew every
    `reference_every` updates (magnetic mirror descent, arXiv 2206.05825). Loss, bonus and KL are
    means over the trained tokens of the whole update (`normalization = "token"`), or over its rows
    of the mean within each (`"sequence"`). `temperature` is the one that the tokens were sampled
    at. The `max_skipped`th update in a row that is not finite is a LearningError.
    """

    learning_rate: Schedule = 2e-3
    entropy: Schedule = 0.0
    kl: Schedule = 0.0
    reference_every: int = 20
    max_grad_norm: float = 1.0
    loss: str = "policy_gradient"
    importance_cap: float | None = None
    normalization: Normalization = "token"
    temperature: float = 1.0
    weight_decay: float = 0.0
    max_skipped: int = 5

    def __post_init__(self) -> None:
        for name in ("learning_rate", "entropy", "kl"):
            if not all(0 <= value < math.inf for value in ends(getattr(self, name))):
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; allowed: 0 and above, or two such numbers"
                )
        for name in ("max_grad_norm", "temperature", "importance_cap"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value}; it must be above 0")
        for name in ("reference_every", "max_skipped"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; at least 1 is needed")
        if self.normalization not in ("token", "sequence"):
            raise ConfigError(
                f"normalization is {self.normalization!r}; allowed: 'token', 'sequence'"
            )
        if not 0 <= self.weight_decay < math.inf:
            raise ConfigError(f"weight_decay is {self.weight_decay}; allowed: 0 and above")


def ends(schedule: Schedule) -> tuple[float, float]:
    """The values at the start and at the end."""
    return schedule if isinstance(schedule, tuple) else (schedule, schedule)


def at(schedule: Schedule, progress: float) -> float:
    """The value at `progress`, which is held within 0 to 1."""
    start, end = ends(schedule)
    return start + (end - start) * min(1.0, max(0.0, progress))
