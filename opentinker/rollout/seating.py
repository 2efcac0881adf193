"""One face for both kinds of PettingZoo env, and the border where an env's faults become data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pettingzoo import AECEnv, ParallelEnv

from opentinker.errors import EnvironmentFault

Result = TypeVar("Result")


class Table:
    """An env that is being played: who is to move, what a seat sees, what its answers do.

    All AEC bookkeeping of the walk is here: dead steps, one reward dict a step, flags that outlive
    the removal of a seat. Whatever the env raises comes out as `EnvironmentFault`.
    """

    def __init__(self, env: AECEnv | ParallelEnv) -> None:
        self._env: Any = env
        self.parallel = isinstance(env, ParallelEnv)
        self.name = str(env.metadata.get("name", type(env.unwrapped).__name__))
        self.conversation = env.metadata.get("kind") == "conversation"
        self._observations: Mapping[str, Any] = {}
        self._infos: Mapping[str, Mapping[str, Any]] = {}
        self.ended: set[str] = set()
        """the seats for which the game ended by its rules"""
        self.cut: set[str] = set()
        """the seats for which it was cut short"""

    @property
    def terminated(self) -> bool:
        return bool(self.ended)

    @property
    def truncated(self) -> bool:
        return bool(self.cut)

    @property
    def seats(self) -> tuple[str, ...]:
        """Every seat of the env, playing or not."""
        return tuple(self._env.possible_agents)

    def reset(self, seed: int, options: Mapping[str, Any] | None) -> None:
        self.ended, self.cut = set(), set()
        self._guard("reset", self._reset, seed, dict(options) if options else None)

    def agents(self) -> tuple[str, ...]:
        """The seats that still play."""
        return tuple(self._env.agents)

    def current(self) -> tuple[str, ...]:
        """The seats that the env selects: one, or in a simultaneous env all that play."""
        agents = self._env.agents
        if self.parallel or not agents:
            return tuple(agents)
        return (self._guard("agent_selection", lambda: self._env.agent_selection),)

    def observe(self, seat: str) -> str:
        if self.parallel:
            return str(self._guard("observations", lambda: self._observations.get(seat, "")))
        return str(self._guard("observe", self._env.observe, seat))

    def info(self, seat: str) -> Mapping[str, Any]:
        infos = self._infos if self.parallel else self._env.infos
        info = self._guard("infos", lambda: infos.get(seat, {}))
        if not isinstance(info, Mapping):
            raise EnvironmentFault(f"{self.name}.infos[{seat!r}] is {info!r}, not a mapping")
        return info

    def legal_actions(self, seat: str) -> tuple[str, ...] | None:
        """The actions that the env lists for `seat`; None if any text is one."""
        legal = self.info(seat).get("legal_actions")
        if legal is None:
            return None
        if not isinstance(legal, list | tuple) or not all(isinstance(a, str) for a in legal):
            raise EnvironmentFault(
                f"{self.name} lists {legal!r} as the legal actions of {seat!r}; they are texts"
            )
        return tuple(legal)

    def step(self, answers: Mapping[str, str]) -> Mapping[str, Any]:
        """Make the moves and return what each seat was paid for them."""
        return self._guard("step", self._step, answers)

    def remove_finished(self) -> None:
        """Take the dead steps that the AEC API asks for."""
        if not self.parallel:
            self._guard("step", self._remove_finished)

    def _reset(self, seed: int, options: dict[str, Any] | None) -> None:
        result = self._env.reset(seed=seed, options=options)
        if self.parallel:
            self._observations, self._infos = result

    def _step(self, answers: Mapping[str, str]) -> Mapping[str, Any]:
        if self.parallel:
            moves = {seat: answers.get(seat, "") for seat in self._env.agents}
            self._observations, rewards, ended, cut, self._infos = self._env.step(moves)
        else:
            [(_, answer)] = answers.items()
            self._env.step(answer)
            rewards = self._env.rewards
            ended, cut = self._env.terminations, self._env.truncations
        self.ended |= {seat for seat, over in ended.items() if over}
        self.cut |= {seat for seat, over in cut.items() if over}
        return dict(rewards)

    def _remove_finished(self) -> None:
        env = self._env
        while env.agents:
            seat, count = env.agent_selection, len(env.agents)
            if not (env.terminations[seat] or env.truncations[seat]):
                return
            env.step(None)
            if len(env.agents) >= count:
                raise EnvironmentFault(f"{self.name} keeps {seat!r}, who is finished, in the game")

    def _guard(self, name: str, call: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        try:
            return call(*args, **kwargs)
        except EnvironmentFault:
            raise
        except Exception as error:
            raise EnvironmentFault(
                f"{self.name}.{name} raised {type(error).__name__}: {error}"
            ) from error
