"""Losses: one a file, whose name is its name in a config and whose `build` makes it.

Making one loads no torch, so that options are checked before anything is started.
Axes: N trained tokens of one micro-batch.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.learner.settings import PolicySettings

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """What a loss is told of each trained token; a row's tokens are never in two micro-batches."""

    logprobs: Tensor
    """[N] the learner's, with a gradient"""
    proximal: Tensor
    """[N] the learner's when the update began, without a gradient"""
    engine: Tensor
    """[N] the engine's, when the token was sampled"""
    advantages: Tensor
    """[N]"""
    weights: Tensor
    """[N] what the token counts; over all micro-batches of an optimizer step they sum to 1, unless
    normalization is `constant`"""
    sequences: Tensor
    """[N] the row that the token belongs to"""


class Loss(Protocol):
    """A scalar to be made smaller, and [N] numbers worth logging; micro-batches add up."""

    def __call__(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]: ...


def names() -> list[str]:
    """The names that `make` knows, sorted."""
    return sorted(module.name for module in iter_modules(__path__))


def make(name: str, **options: Any) -> Loss:
    """The loss of that name; `ConfigError` when there is no such name or option, or a bad value."""
    if name not in names():
        raise UnknownNameError("loss", name, names())
    build = import_module(f"{__name__}.{name}").build
    allowed = inspect.signature(build).parameters
    for option in options:
        if option not in allowed:
            known = ", ".join(allowed) or "none"
            raise ConfigError(f"loss {name!r} has no option {option!r}; it has {known}")
    return build(**options)


def of(settings: PolicySettings) -> Loss:
    """The loss that a policy learns by; `ConfigError` as for `make`."""
    cap = settings.importance_cap
    options = dict(settings.loss_options) | ({} if cap is None else {"importance_cap": cap})
    return make(settings.loss, **options)


def importance(gap: Tensor, cap: float | None) -> tuple[Tensor | float, dict[str, Tensor]]:
    """Truncated importance weights min(exp(gap), cap) [N], and which of them were truncated.

    `gap` [N] is the learner's logprob at the start of the update less the engine's: the weights
    have no gradient, and correct for tokens that an older version or a slightly different engine
    sampled (IMPALA, arXiv 1802.01561; TIS as in https://fengyao.notion.site/off-policy-rl). A `cap`
    of None takes every token as sampled by the version that is being updated.
    """
    if cap is None:
        return 1.0, {}
    return gap.exp().clamp(max=cap), {"truncated_share": (gap > math.log(cap)).to(gap.dtype)}


def check_options(
    loss: str, importance_cap: float | None, epsilon_low: float = 1.0, epsilon_high: float = 1.0
) -> None:
    """ConfigError: a cap not above 0, bounds 1 - `epsilon_low`, 1 + `epsilon_high` without sense.

    A lower bound of 0, which no ratio is below, is none; an infinite `epsilon_high` is none either.
    """
    limits = {"epsilon_low": (epsilon_low, 1.0), "epsilon_high": (epsilon_high, math.inf)}
    if importance_cap is not None:
        limits["importance_cap"] = (importance_cap, math.inf)
    for option, (value, most) in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            end = "" if most == math.inf else f", at most {most:g}"
            raise ConfigError(f"loss {loss!r}: {option} is {value!r}; it must be above 0{end}")
