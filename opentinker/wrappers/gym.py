"""Any Gymnasium env with numbered or text actions by its name, `gymnasium/<Id>`, as one seat.

Parts: `gym_env`, the factory; `GymEnv`, the env. Gymnasium's own time limit truncates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from opentinker.env import TextEnv
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import load_object
from opentinker.view import Foreign, ask
from opentinker.wrappers.gym_view import GymView, PlainView

VIEWS: Mapping[str, str] = {
    "Blackjack": "opentinker.wrappers.toy_text:BlackjackView",
    "CliffWalking": "opentinker.wrappers.toy_text:CliffWalkingView",
    "CliffWalkingSlippery": "opentinker.wrappers.toy_text:CliffWalkingView",
    "FrozenLake": "opentinker.wrappers.toy_text:FrozenLakeView",
    "FrozenLake8x8": "opentinker.wrappers.toy_text:FrozenLakeView",
    "Taxi": "opentinker.wrappers.toy_text:TaxiView",
}
"""Envs, named without their version, with a view of their own, and its place."""


class GymEnv(TextEnv):
    """One seat, `player_0`, in a Gymnasium env that is made by `make`, which must be picklable."""

    seats = ("player_0",)

    def __init__(
        self, make: Any, view: GymView, *, name: str, worst_reward: float, **options: Any
    ) -> None:
        self._foreign, self._view = Foreign(make), view
        space = self._foreign.env.action_space
        self._speaks = isinstance(space, gymnasium.spaces.Text)
        if not self._speaks and not isinstance(space, gymnasium.spaces.Discrete):
            raise ConfigError(
                f"the actions of {name!r} are {space}; a seat can say numbered ones (Discrete) or "
                f"text (Text) only"
            )
        self.name, self.worst_reward = name, worst_reward
        self._seen, self._told = self._foreign.env.reset(seed=0)
        self.words = () if self._speaks else tuple(self._names())[:10]
        super().__init__(**options)

    def deal(self, options: Mapping[str, Any]) -> None:
        self._seen, self._told = self._foreign.reset(self.seed, options)
        self._end = ""

    def describe(self, seat: str) -> str:
        text = self._view.describe(self._foreign.env, self._seen, self._told)
        if self._end:
            return f"{text}\n{self._end}"
        return text if self._speaks else f"{text}\n{ask(self._names())}"

    def legal(self, seat: str) -> list[str] | None:
        return None if self._speaks else list(self._names())

    def infostate(self, seat: str) -> str | None:
        """The observation, where it is one of finitely many."""
        return str(self._seen) if isinstance(self._seen, int | np.integer | tuple) else None

    def play(self, seat: str, action: str) -> None:
        step = action if self._speaks else self._names()[action]
        self._seen, paid, ended, cut, self._told = self._foreign.step(step)
        self.reward(seat, float(paid))
        if ended:
            self._end = "The game is over."
            self.finish()
        elif cut:
            self._end = "The game is cut short."
            self.truncate()

    def _names(self) -> Mapping[str, int]:
        return self._view.actions(self._foreign.env, self._told)

    def close(self) -> None:
        self._foreign.env.close()


def gym_env(
    id: str,
    *,
    worst_reward: float = -1.0,
    illegal: str | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> GymEnv:
    """The env that Gymnasium calls `id`; `options` are those of `gymnasium.make`.

    `id` may name the module that registers it, as Gymnasium's own do: `"my_package:MyEnv-v0"`.
    """
    if ":" not in id and id not in gymnasium.registry:
        raise UnknownNameError("Gymnasium env", id, gymnasium.registry)
    name = id.rpartition(":")[2].partition("-v")[0]
    return GymEnv(
        partial(_make, id, **options),
        load_object(VIEWS[name])() if name in VIEWS else PlainView(),
        name=f"gymnasium/{id}",
        worst_reward=worst_reward,
        illegal=illegal,
        render_mode=render_mode,
    )


def _make(id: str, **options: Any) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(id, disable_env_checker=True, **options)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise ConfigError(
            f"Gymnasium's {id!r} needs more packages ({error}); its own games of words come with "
            f"pip install 'opentinker[gymnasium]'"
        ) from error
    except (gymnasium.error.Error, TypeError) as error:
        raise ConfigError(f"Gymnasium's {id!r} can't be made with {options!r}: {error}") from error
