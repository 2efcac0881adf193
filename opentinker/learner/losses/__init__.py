"""Losses: one a file, whose name is its name in a config and whose `build` makes it."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol

from opentinker.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from torch import Tensor


class Loss(Protocol):
    """A scalar to be made smaller, and what is worth logging about each token.

    All arguments have one shape: [N] chosen tokens, or [B, T] with weight 0 where not trained.
    `logprobs` are the learner's, with a gradient; `old_logprobs` the engine's. `weights` sum to 1
    over a whole update, so the losses of its micro-batches add up to the update's.
    """

    def __call__(
        self, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, weights: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]: ...


def names() -> list[str]:
    """The names that `make` knows, sorted."""
    return sorted(module.name for module in iter_modules(__path__))


def make(name: str, **options: Any) -> Loss:
    """The loss of that name; `ConfigError` when there is no such name or option."""
    if name not in names():
        raise UnknownNameError("loss", name, names())
    build = import_module(f"{__name__}.{name}").build
    allowed = inspect.signature(build).parameters
    for option in options:
        if option not in allowed:
            known = ", ".join(allowed) or "none"
            raise ConfigError(f"loss {name!r} has no option {option!r}; it has {known}")
    return build(**options)
