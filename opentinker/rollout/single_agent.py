"""Any multi-agent env as a `gymnasium.Env` of one seat, the other seats played by given agents."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded
from pettingzoo import AECEnv, ParallelEnv

from opentinker.agent import Agent, Answer, View
from opentinker.agents.policy import turn_seed
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import agent_factory, call_factory, make_env
from opentinker.rollout.seating import Table
from opentinker.rollout.worker import AgentSpec, NoSampler
from opentinker.types import Sampler

Other = str | AgentSpec | Agent
"""Who plays a seat: an agent's name, its name with options, or an agent to copy."""


class SingleAgentEnv(gymnasium.Env[str, str]):
    """`seat` of `env`, which is a name (`options` are the env's own) or an env of ours.

    `others` is one for all other seats or one for each of them. They are made anew for every
    episode, an agent object by copying it; policies among them ask `sampler`. A step gives the
    seat's answer, lets the others play until the seat is to move again, and returns all that the
    seat was paid meanwhile. An answer that is no legal action meets the env's own rule. If the game
    is over before the seat ever moved, `reset` shows the end and the first step, whatever it says,
    pays and ends. `info` is the env's of the seat: `legal_actions`, `infostate`, how the last
    answer was read. Raises EnvironmentFault where the env breaks.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        env: str | AECEnv | ParallelEnv,
        seat: str,
        *,
        others: Other | Mapping[str, Other] = "random",
        sampler: Sampler | None = None,
        **options: Any,
    ) -> None:
        if isinstance(env, str):
            env = make_env(env, **options)
        elif options:
            raise ConfigError(f"{env} is made already, so it takes no options: {options!r}")
        if seat not in env.possible_agents:
            raise UnknownNameError(f"seat of {env}:", seat, env.possible_agents)
        for name in ("observation_space", "action_space"):
            if not isinstance(getattr(env, name)(seat), gymnasium.spaces.Text):
                raise ConfigError(
                    f"{env}.{name}({seat!r}) is {getattr(env, name)(seat)}; a seat takes texts"
                )
        self.seat = seat
        self.observation_space = env.observation_space(seat)
        self.action_space = env.action_space(seat)
        self.render_mode = getattr(env, "render_mode", None)
        self._env: Any = env
        self._table = Table(env)
        self._others = _cast(others, [each for each in env.possible_agents if each != seat])
        self._sampler: Sampler = sampler or NoSampler()
        self._seat_others(0)
        self._heard: dict[str, list[str]] = {}
        self._earned = 0.0
        self._playing = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start a game: the one that the env deals for `seed`, or else a random one."""
        super().reset(seed=seed)
        game = int(self.np_random.integers(2**31)) if seed is None else seed
        self._table.reset(game, options)
        self._seat_others(game)
        self._heard = {each: [] for each in self._table.seats}
        self._earned, self._playing = 0.0, True
        self._info = dict(self._table.info(self.seat))
        self._table.remove_finished()
        _finish(self._let_others_play())
        return self._see(self.seat), self._info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise ResetNeeded(f"{self._table.name} was stepped when no game was on; call reset")
        if not self._over():
            _finish(self._play(action))
        reward, self._earned = self._earned, 0.0
        self._playing = not self._over()
        seat, table = self.seat, self._table
        return self._see(seat), reward, seat in table.ended, seat in table.cut, self._info

    def render(self) -> str | None:  # type: ignore[override]
        return self._env.render()

    def close(self) -> None:
        self._env.close()

    def _over(self) -> bool:
        return self.seat not in self._table.agents()

    def _seat_others(self, game: int) -> None:
        self._agents = {
            each: _make(other, each, turn_seed(game, each)) for each, other in self._others.items()
        }

    async def _play(self, action: str) -> None:
        """The seat's answer, and beside it those of all who move at once with it."""
        await self._move({self.seat: action})
        await self._let_others_play()

    async def _let_others_play(self) -> None:
        while not self._over() and self.seat not in self._table.current():
            await self._move({})

    async def _move(self, answers: dict[str, str]) -> None:
        table = self._table
        asked = [seat for seat in table.current() if seat != self.seat]
        given = await asyncio.gather(*(self._ask(seat) for seat in asked))
        answers |= {seat: answer.text for seat, answer in zip(asked, given, strict=True)}
        paid = table.step(answers)
        self._earned += float(paid.get(self.seat, 0.0))
        self._info = dict(table.info(self.seat))
        if table.conversation:
            for speaker, text in answers.items():
                for seat in set(self._heard) - {speaker}:
                    self._heard[seat].append(f"{speaker}: {text}")
        table.remove_finished()

    async def _ask(self, seat: str) -> Answer:
        table = self._table
        view = View(
            seat=seat,
            stage="move",
            prompt=self._see(seat),
            observation=table.observe(seat),
            legal_actions=table.legal_actions(seat),
            infostate=table.info(seat).get("infostate"),
        )
        return await self._agents[seat].answer(view, self._sampler)

    def _see(self, seat: str) -> str:
        """What the seat sees, after the words that it has heard since it last looked."""
        lines = [*self._heard[seat], self._table.observe(seat)]
        self._heard[seat].clear()
        return "\n".join(lines)


def _cast(others: Other | Mapping[str, Other], seats: list[str]) -> dict[str, Other]:
    if not isinstance(others, Mapping):
        return dict.fromkeys(seats, others)
    if set(others) != set(seats):
        raise ConfigError(
            f"others are given for {', '.join(others) or 'no seat'}; the other seats are "
            f"{', '.join(seats) or 'none'}"
        )
    return dict(others)


def _make(other: Other, seat: str, seed: int) -> Agent:
    if isinstance(other, str):
        other = AgentSpec(other)
    if isinstance(other, AgentSpec):
        factory = agent_factory(other.kind)
        return call_factory("agent", other.kind, factory, **other.options, seat=seat, seed=seed)
    return deepcopy(other)


def _finish(play: Coroutine[Any, Any, None]) -> None:
    """Run `play` to its end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(play)
        return
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, play).result()
