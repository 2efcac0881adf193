"""Credit estimators: one a file, whose name is its name in a config and whose `build` makes it."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.experience.estimator import Estimator


def names() -> list[str]:
    """The names that `make` knows, sorted."""
    return sorted(module.name for module in iter_modules(__path__))


def make(name: str, **options: Any) -> Estimator:
    """A fresh estimator; `ConfigError` when there is no such name or option."""
    if name not in names():
        raise UnknownNameError("credit estimator", name, names())
    build = import_module(f"{__name__}.{name}").build
    allowed = inspect.signature(build).parameters
    for option in options:
        if option not in allowed:
            known = ", ".join(allowed) or "none"
            raise ConfigError(f"credit {name!r} has no option {option!r}; it has {known}")
    return build(**options)
