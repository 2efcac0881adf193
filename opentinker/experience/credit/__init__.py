"""Credit estimators: one a file, whose name is its name in a config and whose `build` makes it."""

from __future__ import annotations

import inspect
from importlib import import_module
from numbers import Real
from pkgutil import iter_modules
from typing import Any

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.experience.estimator import Estimator


def names() -> list[str]:
    """The names that `make` knows, sorted."""
    return sorted(module.name for module in iter_modules(__path__))


def make(name: str, **options: Any) -> Estimator:
    """A fresh estimator.

    Raises `ConfigError` when there is no such name or option, or for a value that an option can't
    have.
    """
    if name not in names():
        raise UnknownNameError("credit estimator", name, names())
    build = import_module(f"{__name__}.{name}").build
    allowed = inspect.signature(build, eval_str=True).parameters
    for option, value in options.items():
        if option not in allowed:
            known = ", ".join(allowed) or "none"
            raise ConfigError(f"credit {name!r} has no option {option!r}; it has {known}")
        boolean = allowed[option].annotation is bool
        if isinstance(value, bool) != boolean or not isinstance(value, Real):
            words = "true or false" if boolean else "a number"
            raise ConfigError(f"credit {name!r}: {option} is {value!r}; allowed: {words}")
    return build(**options)
