"""Where a policy's weights come from, and how it learns. Loads no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from opentinker.errors import ConfigError
from opentinker.types import AdapterSpec

Schedule = float | tuple[float, float]
"""A number, or its value at the start and at the end of training, linear in between."""

Init = Literal["kaiming", "gaussian"]
Normalization = Literal["token", "sequence", "constant"]

COPY = "copy"
"""The reference that is the policy itself, some updates ago."""


@dataclass(frozen=True, slots=True)
class LoraSource:
    """A trainable adapter over the base: a fresh one, whose B is 0, or that of a PEFT folder.

    `init` draws the A of a fresh one as PEFT does: uniform as Kaiming's, or normal with a standard
    deviation of 1 / rank.
    """

    spec: AdapterSpec
    init: Init = "kaiming"
    start: str | None = None


@dataclass(frozen=True, slots=True)
class FullSource:
    """A whole trainable model, from a folder that transformers saved; None is the base's."""

    model: str | None = None


@dataclass(frozen=True, slots=True)
class FrozenSource:
    """Weights that never learn: a PEFT folder, a whole model's, or for None the base itself."""

    folder: str | None = None


Source = LoraSource | FullSource | FrozenSource


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """ConfigError for a value that can't be.

    `entropy` and `kl` are the coefficients of the entropy bonus and of KL(policy || reference),
    exact over the vocabulary. The `reference` is a `"copy"` of the policy, taken anew every
    `reference_every` updates (magnetic mirror descent, arXiv 2206.05825), the `"base"` model, or a
    frozen policy by its name; without a `kl` above 0 there is none.

    An update is `epochs` passes over what was played, each of `minibatches` optimizer steps.
    Loss, bonus and KL are means over the trained tokens of a step (`normalization = "token"`), over
    its rows of the mean within each (`"sequence"`), or sums over tokens that each count
    1 / (rows * `normalization_tokens`) (`"constant"`: Dr. GRPO, arXiv 2503.20783). With a `critic`,
    `value_coefficient` times the mean over turns of (value - target)^2 / 2 is added.

    `temperature` is the one that the tokens were sampled at. The `max_skipped`th update in a row
    that is not finite is a LearningError.
    """

    learning_rate: Schedule = 2e-3
    entropy: Schedule = 0.0
    kl: Schedule = 0.0
    reference: str = COPY
    reference_every: int = 20
    max_grad_norm: float = 1.0
    loss: str = "policy_gradient"
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    importance_cap: float | None = None
    normalization: Normalization = "token"
    normalization_tokens: int | None = None
    temperature: float = 1.0
    weight_decay: float = 0.0
    epochs: int = 1
    minibatches: int = 1
    critic: bool = False
    value_coefficient: float = 0.5
    max_skipped: int = 5

    def __post_init__(self) -> None:
        for name in ("learning_rate", "entropy", "kl"):
            if not all(0 <= value < math.inf for value in ends(getattr(self, name))):
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; allowed: 0 and above, or two such numbers"
                )
        for name in ("weight_decay", "value_coefficient"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 0 and above")
        for name in ("max_grad_norm", "temperature", "importance_cap"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value}; it must be above 0")
        for name in (
            "reference_every",
            "max_skipped",
            "epochs",
            "minibatches",
            "normalization_tokens",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; at least 1 is needed")
        if self.normalization not in ("token", "sequence", "constant"):
            raise ConfigError(
                f"normalization is {self.normalization!r}; allowed: 'token', 'sequence', 'constant'"
            )
        if self.normalization == "constant" and self.normalization_tokens is None:
            raise ConfigError(
                "normalization is 'constant' without normalization_tokens: as how many tokens "
                "does a row count?"
            )
        if self.importance_cap is not None and "importance_cap" in self.loss_options:
            raise ConfigError(
                f"train.importance_cap = {self.importance_cap} and loss_options has importance_cap "
                f"= {self.loss_options['importance_cap']}: give one of them"
            )


def ends(schedule: Schedule) -> tuple[float, float]:
    """The values at the start and at the end."""
    return schedule if isinstance(schedule, tuple) else (schedule, schedule)


def at(schedule: Schedule, progress: float) -> float:
    """The value at `progress`, which is held within 0 to 1."""
    start, end = ends(schedule)
    return start + (end - start) * min(1.0, max(0.0, progress))
