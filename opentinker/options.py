"""Checks of the options that envs and protocols take: each returns the value, or a ConfigError that
names the option, what was given and what is allowed.

`where` is the id of the env or protocol that asks.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any

from opentinker.errors import ConfigError


def whole(where: str, name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number of `least` to `most`."""
    high = math.inf if most is None else most
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= high:
        allowed = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{where}: {name} is {value!r}; allowed: a whole number {allowed}")
    return value


def number(where: str, name: str, value: Any, least: float, most: float = math.inf) -> float:
    """A finite number of `least` to `most`."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or not least <= float(value) <= most:
        allowed = f"of {least:g} or more" if most == math.inf else f"from {least:g} to {most:g}"
        raise ConfigError(f"{where}: {name} is {value!r}; allowed: a number {allowed}")
    return float(value)


def flag(where: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {name} is {value!r}; allowed: true or false")
    return value


def one_of(where: str, name: str, value: Any, allowed: Collection[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"{where}: {name} is {value!r}; allowed: {', '.join(map(repr, allowed))}{hint}"
        )
    return value


def some_of(
    where: str, name: str, values: Any, allowed: Collection[str], least: int = 1
) -> tuple[str, ...]:
    """At least `least` different ones of `allowed`, in the order given."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ConfigError(f"{where}: {name} is {values!r}; allowed: a list of names")
    for value in values:
        one_of(where, name, value, allowed)
    if len(set(values)) != len(values) or len(values) < least:
        raise ConfigError(
            f"{where}: {name} is {list(values)!r}; allowed: at least {least} different ones of "
            f"{', '.join(allowed)}"
        )
    return tuple(values)


def prompts(
    where: str, defaults: Mapping[str, str], given: Mapping[str, str] | None
) -> dict[str, str | None]:
    """The prompt templates of a protocol by stage, `given` ones in place of the `defaults`.

    An empty text takes the template away: the seat is then shown the words heard and the
    observation. A template may name {seat}, {heard} and {observation}.
    """
    merged: dict[str, str | None] = dict(defaults)
    for name, template in (given or {}).items():
        one_of(where, "a name in prompts", name, defaults)
        if not isinstance(template, str):
            raise ConfigError(f"{where}: the prompt {name!r} is {template!r}; allowed: a text")
        try:
            template.format(seat="", heard="", observation="")
        except (KeyError, IndexError, ValueError) as error:
            raise ConfigError(
                f"{where}: the prompt {name!r} can't be filled: {error!r}; it may name {{seat}}, "
                f"{{heard}} and {{observation}}"
            ) from error
        merged[name] = template or None
    return merged
