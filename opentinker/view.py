"""Other people's PettingZoo envs as text envs, each through a view of it.

Parts: `GameView`, the contract of a view (how a state reads, what actions are called); `Foreign`,
which makes any env copyable; `ViewedEnv` and `ViewedParallelEnv`, which play the foreign env behind
a text env; `PlainView`, for any env with numbered actions; `pettingzoo_env`, PettingZoo's own by
name; `ask`, the line that lists the legal answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import pettingzoo
from gymnasium.spaces import Discrete
from pettingzoo import ParallelEnv
from pettingzoo.env_registry.exceptions import FailedToImport

from opentinker.env import ParallelTextEnv, TextEnv
from opentinker.errors import ConfigError, UnknownNameError

SHOWN = 100
"""how many legal answers `ask` lists; `infos` has all"""
Moves = Sequence[Mapping[str, str]]
"""All that was played so far: for each step, seat -> name of its action."""


class GameView(Protocol):
    """How a foreign env's state reads, what its actions are called, and back.

    `env` is the foreign env after its reset; a view keeps no state of its own.
    """

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        """What `seat` sees, also after the end."""
        ...

    def legal(self, env: Any, seat: str) -> Sequence[str]:
        """The names of the legal actions of `seat`, who is to move."""
        ...

    def action(self, env: Any, seat: str, name: str) -> Any:
        """The foreign env's action of that name."""
        ...

    def infostate(self, env: Any, seat: str, moves: Moves) -> str | None:
        """The name of all that `seat` knows, or None if it has none."""
        ...


class Foreign:
    """A foreign env that can be pickled and copied in the middle of a game, by playing it again.

    (PettingZoo's own envs lose their state in a copy: `EzPickle` keeps the arguments only.)
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.env = make()
        self._start: dict[str, Any] | None = None
        self._steps: list[Any] = []

    def reset(self, seed: int, options: Mapping[str, Any]) -> Any:
        self._start, self._steps = {"seed": seed, "options": dict(options)}, []
        return self.env.reset(**self._start)

    def step(self, action: Any) -> Any:
        self._steps.append(action)
        return self.env.step(action)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "env"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.env = self._make()
        if self._start is not None:
            self.env.reset(**self._start)
        for action in self._steps:
            self.env.step(action)


class _Viewed:
    """What both kinds share: a foreign env's facts as a text env's, and the view's hooks."""

    def __init__(
        self,
        make: Callable[[], Any],
        view: GameView,
        *,
        words: Sequence[str] = (),
        worst_reward: float = -1.0,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._foreign = Foreign(make)
        self._view = view
        env = self._foreign.env
        self.name = str(env.metadata.get("name", type(env.unwrapped).__name__))
        self.seats = tuple(env.possible_agents)
        for seat in self.seats:
            _actions(env, seat)
        self.words = words
        self.worst_reward = worst_reward
        self.moves: list[Mapping[str, str]] = []
        super().__init__(illegal=illegal, render_mode=render_mode)  # type: ignore[call-arg]

    def describe(self, seat: str) -> str:
        return self._view.describe(self._foreign.env, seat, self.moves)

    def legal(self, seat: str) -> Sequence[str]:
        return self._view.legal(self._foreign.env, seat)

    def infostate(self, seat: str) -> str | None:
        return self._view.infostate(self._foreign.env, seat, self.moves)


class ViewedEnv(_Viewed, TextEnv):
    """A turn-based foreign env, played by text. `make` must be picklable for the env to be."""

    def deal(self, options: Mapping[str, Any]) -> None:
        self._foreign.reset(self.seed, options)
        self.moves.clear()
        self.next(self._foreign.env.agent_selection)

    def play(self, seat: str, action: str) -> None:
        env = self._foreign.env
        self._foreign.step(self._view.action(env, seat, action))
        self.moves.append({seat: action})
        for each, amount in env.rewards.items():
            self.reward(each, amount)
        for each in _true(env.terminations):
            self.finish(each)
        for each in _true(env.truncations):
            self.truncate(each)
        over = {*_true(env.terminations), *_true(env.truncations)}
        if over >= set(env.agents):
            return
        while env.agent_selection in over:
            self._foreign.step(None)
        self.next(env.agent_selection)


class ViewedParallelEnv(_Viewed, ParallelTextEnv):
    """A simultaneous foreign env, played by text.

    Where `length_is_rule`, the foreign env's truncation is an end by the rules: a termination.
    """

    def __init__(
        self,
        make: Callable[[], ParallelEnv],
        view: GameView,
        *,
        length_is_rule: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(make, view, **options)
        self._length_is_rule = length_is_rule

    def deal(self, options: Mapping[str, Any]) -> None:
        self._foreign.reset(self.seed, options)
        self.moves.clear()

    def play(self, actions: Mapping[str, str]) -> None:
        env = self._foreign.env
        chosen = {seat: self._view.action(env, seat, name) for seat, name in actions.items()}
        _, rewards, ended, cut, _ = self._foreign.step(chosen)
        self.moves.append(dict(actions))
        for seat, amount in rewards.items():
            self.reward(seat, amount)
        for seat in _true(ended):
            self.finish(seat)
        for seat in _true(cut):
            (self.finish if self._length_is_rule else self.truncate)(seat)


class PlainView:
    """Any turn-based env with numbered actions: they are called by number, states are arrays."""

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        seen = env.observe(seat)
        array = seen["observation"] if isinstance(seen, dict) else seen
        text = f"You are {seat} in {env.metadata.get('name', 'a game')}.\n{compact(array)}"
        legal = self.legal(env, seat) if seat == env.agent_selection else []
        tags = " ".join(f"[{name}]" for name in legal)
        return f"{text}\nAnswer one of {tags}." if legal else text

    def legal(self, env: Any, seat: str) -> list[str]:
        space = _actions(env, seat)
        seen, info = env.observe(seat), env.infos.get(seat, {})
        mask = seen.get("action_mask") if isinstance(seen, dict) else info.get("action_mask")
        numbers = np.arange(space.n) if mask is None else np.flatnonzero(mask)
        return [str(space.start + number) for number in numbers]

    def action(self, env: Any, seat: str, name: str) -> int:
        return int(name)

    def infostate(self, env: Any, seat: str, moves: Moves) -> None:
        return None


def pettingzoo_env(
    id: str,
    *,
    worst_reward: float = -1.0,
    illegal: str | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> ViewedEnv:
    """The turn-based env that PettingZoo calls `id` (`"classic/chess-v6"`), seen by `PlainView`.

    `options` are the foreign env's own.
    """
    return ViewedEnv(
        pettingzoo_maker("aec", id, **options),
        PlainView(),
        words=tuple(map(str, range(10))),
        worst_reward=worst_reward,
        illegal=illegal,
        render_mode=render_mode,
    )


def pettingzoo_maker(
    kind: Literal["aec", "parallel"], id: str, **options: Any
) -> Callable[[], Any]:
    """What makes PettingZoo's own env `id`; UnknownNameError if it has none of that name."""
    registry = {"aec": pettingzoo.aec_registry, "parallel": pettingzoo.parallel_registry}[kind]
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", id) or pettingzoo.EnvSpec(id).id not in registry:
        known = [name for name in registry if not name.startswith("opentinker/")]
        raise UnknownNameError("PettingZoo env", id, known)
    return partial(_make, kind, id, **options)


def ask(names: Iterable[str]) -> str:
    """The line that lists the legal answers, at most `SHOWN` of them."""
    every = list(names)
    tags = " ".join(f"[{name}]" for name in every[:SHOWN])
    if len(every) > SHOWN:
        tags += f" ... ({len(every)} in all)"
    return f"Answer one of {tags}." if len(every) > 1 else f"Answer {tags}."


def compact(value: Any, limit: int = 2000) -> str:
    """An array as short text: a small one in full, else where it is not 0; `limit` letters at most.

    Of three axes the last is taken as planes of a board: `plane 3: 0,1 0,6`, or `plane 3: all 1`.
    """
    array = np.asarray(value).astype(float)
    if array.size <= 64:
        text = np.array2string(array, formatter={"all": "{:g}".format}, max_line_width=200)
    elif array.ndim == 3:
        planes = [_plane(array[..., k]) for k in range(array.shape[2])]
        text = "\n".join(f"plane {k}: {plane}" for k, plane in enumerate(planes) if plane)
    else:
        text = f"not 0: {_plane(array)}"
    text = text or "all 0"
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text)} letters in all)"


def _plane(array: np.ndarray) -> str:
    """The places of the values that are not 0, each with its value unless that is 1."""
    if array.min() == array.max():
        return f"all {array.min():g}" if array.any() else ""
    return " ".join(
        ",".join(map(str, place))
        + ("" if array[tuple(place)] == 1 else f"={array[tuple(place)]:g}")
        for place in np.argwhere(array)
    )


def _make(kind: Any, id: str, **options: Any) -> Any:
    try:
        return pettingzoo.make(kind, id, **options)
    except (ImportError, FailedToImport) as error:
        family = id.split("/")[0]
        package = "opentinker" if family == "classic" else "pettingzoo"
        raise ConfigError(
            f"PettingZoo's {id!r} needs more packages: pip install '{package}[{family}]'"
        ) from error


def _actions(env: Any, seat: str) -> Discrete:
    space = env.action_space(seat)
    if not isinstance(space, Discrete):
        raise ConfigError(
            f"the actions of {seat!r} in {env} are {space}; a view takes numbered ones (Discrete)"
        )
    return space


def _true(flags: Mapping[str, bool]) -> list[str]:
    return [seat for seat, on in flags.items() if on]
