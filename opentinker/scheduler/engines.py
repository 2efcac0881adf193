"""Hosts of engines and of walkers: plain classes, which `cluster` makes actors.

Torch and vLLM are loaded when one is made, not when this module is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.inference import Engine, EngineFacts, make_engine
from opentinker.inference.probe import probe
from opentinker.rollout.batching import BatchingSampler
from opentinker.rollout.routing import Route, RoutingSampler
from opentinker.rollout.worker import RolloutPlan, RolloutWorker, collect_seldom
from opentinker.types import (
    Completion,
    Episode,
    EpisodeRequest,
    PolicyVersion,
    Sampler,
    SampleRequest,
    Weights,
)


class EngineHost:
    """One engine; episodes can be walked beside it, in the same process."""

    def __init__(self, kind: str, model: str, **options: Any) -> None:
        self._engine: Engine = make_engine(kind, model, **options)
        self._rollout: RolloutWorker | None = None

    def facts(self) -> EngineFacts:
        return self._engine.facts()

    def prepare(
        self, plan: RolloutPlan, others: Sequence[Any], routes: Mapping[str, Route]
    ) -> None:
        """Make a walker here, so that what it asks this engine crosses no process.

        `routes` number this engine 0, and `others`, the workers of more engines, from 1.
        """
        collect_seldom()
        engines = [BatchingSampler(self._engine.sample), *map(_remote, others)]
        self._rollout = RolloutWorker(plan, RoutingSampler(engines, routes))

    async def play(self, requests: Sequence[EpisodeRequest]) -> list[Episode]:
        assert self._rollout is not None, "prepare() comes first"
        return await self._rollout.play(requests)

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        return await self._engine.sample(requests)

    async def publish(self, version: PolicyVersion, weights: Weights) -> None:
        # Whole weights wait for the requests in flight, whose answers come through this loop.
        await asyncio.to_thread(self._engine.publish, version, weights)

    def retire(self, version: PolicyVersion) -> None:
        self._engine.retire(version)

    async def probe(
        self, versions: Sequence[PolicyVersion], prompts: Sequence[tuple[int, ...]], base: bool
    ) -> list[tuple[SampleRequest, Completion]]:
        return await probe(self._engine, versions, prompts, base=base)

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)


class RolloutHost:
    """A walker in a process of its own; what it asks crosses to the engines in batches."""

    def __init__(
        self, plan: RolloutPlan, engines: Sequence[Any], routes: Mapping[str, Route]
    ) -> None:
        collect_seldom()
        self._rollout = RolloutWorker(plan, RoutingSampler(list(map(_remote, engines)), routes))

    async def play(self, requests: Sequence[EpisodeRequest]) -> list[Episode]:
        return await self._rollout.play(requests)


def _remote(worker: Any) -> Sampler:
    async def send(requests: Sequence[SampleRequest]) -> list[Completion]:
        return await worker.call("sample", list(requests))

    return BatchingSampler(send)
