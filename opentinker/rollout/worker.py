"""Plays many episodes at once: a pool of envs, one event loop, one sampler for all of them."""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentinker.agent import Agent
from opentinker.agents.policy import PolicyAgent, turn_seed
from opentinker.protocol import Protocol
from opentinker.registry import agent_factory, make_env, make_protocol
from opentinker.rendering import Renderer
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import Limits, walk
from opentinker.types import Episode, EpisodeRequest, Sampler, SamplingParams


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """A registered agent and the options that its factory takes."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """All that a worker needs to play: names and plain values, so that it can cross processes.

    `policies` gives each policy its sampling parameters, `agents` the others that a cast may name.
    `modules` are imported first: where a user registers envs, agents, protocols and predicates.
    """

    env: str
    protocol: str = "follow_env"
    env_options: Mapping[str, Any] = field(default_factory=dict)
    protocol_options: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, SamplingParams] = field(default_factory=dict)
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    model: str = ""
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    in_flight: int = 1024
    context: int | None = None
    """ids that the model takes, prompt and answer together; an episode that needs more is cut"""
    modules: tuple[str, ...] = ()


class RolloutWorker:
    """Plays requests with `sampler`; envs are made once and used again."""

    def __init__(self, plan: RolloutPlan, sampler: Sampler) -> None:
        for module in plan.modules:
            importlib.import_module(module)
        self._plan = plan
        self._sampler = sampler
        self._renderer = Renderer.load(plan.model) if plan.policies else None
        self._factories = {name: agent_factory(spec.kind) for name, spec in plan.agents.items()}
        self._idle: list[Table] = []
        first = self._take()
        self._protocol: Protocol = make_protocol(
            plan.protocol, first.seats, **plan.protocol_options
        )
        self._idle.append(first)

    async def play(self, requests: Sequence[EpisodeRequest]) -> list[Episode]:
        """The episodes of `requests`, in their order; failed ones among them."""
        places = asyncio.Semaphore(self._plan.in_flight)

        async def one(request: EpisodeRequest) -> Episode:
            async with places:
                return await self._one(request)

        tasks = [asyncio.create_task(one(request)) for request in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _one(self, request: EpisodeRequest) -> Episode:
        table = self._take()
        agents = {seat: self.seat_agent(request, seat) for seat in table.seats}
        episode = await walk(
            table, self._protocol, agents, request, self._sampler, self._plan.limits
        )
        if episode.outcome != "failed":
            self._idle.append(table)
        return episode

    def seat_agent(self, request: EpisodeRequest, seat: str) -> Agent:
        """The agent that `request` casts in `seat`, with a seed of its own."""
        name = request.cast[seat]
        seed = turn_seed(self._plan.seed, request.id, seat)
        params = self._plan.policies.get(name)
        if params is not None:
            assert self._renderer is not None
            return PolicyAgent(name, self._renderer, params, seed=seed, context=self._plan.context)
        return self._factories[name](**self._plan.agents[name].options, seat=seat, seed=seed)

    def _take(self) -> Table:
        if self._idle:
            return self._idle.pop()
        return Table(make_env(self._plan.env, **self._plan.env_options))


def collect_seldom() -> None:
    """Have Python look for unreachable cycles less often in this process, which walks episodes.

    All that thousands of episodes in flight keep alive is otherwise looked through again and again,
    which costs more than the walking (`experiments/benchmarks/walker_overhead.py`).
    """
    gc.set_threshold(50_000, 20, 100)


class NoSampler:
    """The sampler of a cast without policies: asking it is a fault of the cast."""

    async def sample(self, requests: Sequence[Any]) -> list[Any]:
        raise RuntimeError("this cast has no policy, so nothing can be sampled")
