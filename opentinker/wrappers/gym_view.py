"""How a Gymnasium env's observation reads and what its actions are called: contract, plain view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium
import numpy as np

from opentinker.view import compact


class GymView(Protocol):
    """A view keeps no state of its own; `seen` and `told` are the observation and the info."""

    def describe(self, env: Any, seen: Any, told: Mapping[str, Any]) -> str:
        """What the seat sees, also after the end."""
        ...

    def actions(self, env: Any, told: Mapping[str, Any]) -> Mapping[str, int]:
        """The legal actions: name -> the env's action."""
        ...


class PlainView:
    """Any env: numbers as they are; actions by number, without those that a mask forbids."""

    def describe(self, env: Any, seen: Any, told: Mapping[str, Any]) -> str:
        name = env.spec.name if env.spec else type(env.unwrapped).__name__
        return f"{name}. You see: {write(seen)}"

    def actions(self, env: Any, told: Mapping[str, Any]) -> Mapping[str, int]:
        space: gymnasium.spaces.Discrete = env.action_space
        mask = told.get("action_mask")
        numbers = np.arange(space.n) if mask is None else np.flatnonzero(mask)
        return {str(space.start + k): int(space.start + k) for k in numbers}


def write(seen: Any) -> str:
    """An observation of any space as text: texts as they are, arrays short, parts in turn."""
    if isinstance(seen, str):
        return seen
    if isinstance(seen, Mapping):
        return "; ".join(f"{key}: {write(part)}" for key, part in seen.items())
    if isinstance(seen, tuple):
        return ", ".join(write(part) for part in seen)
    return compact(seen)
