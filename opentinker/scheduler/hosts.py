"""What runs in the processes beside the one that drives a run: engine with walkers, model maker.

These are plain classes; `opentinker.scheduler.cluster` makes them actors. Torch and vLLM are loaded
when one is made, not when this module is imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opentinker.inference import Engine, EngineFacts, make_engine
from opentinker.inference.probe import probe
from opentinker.rollout.batching import BatchingSampler
from opentinker.rollout.worker import RolloutPlan, RolloutWorker
from opentinker.types import (
    AdapterWeights,
    Completion,
    Episode,
    EpisodeRequest,
    PolicyVersion,
    SampleRequest,
)

Examples = Sequence[tuple[NDArray[np.int32], NDArray[np.bool_]]]


class EngineHost:
    """One engine of one base model; episodes can be walked beside it, in the same process."""

    def __init__(self, kind: str, model: str, **options: Any) -> None:
        self._engine: Engine = make_engine(kind, model, **options)
        self._rollout: RolloutWorker | None = None

    def facts(self) -> EngineFacts:
        return self._engine.facts()

    def prepare(self, plan: RolloutPlan) -> None:
        """Make a walker here, so that its requests cross no process."""
        self._rollout = RolloutWorker(plan, BatchingSampler(self._engine.sample))

    async def play(self, requests: Sequence[EpisodeRequest]) -> list[Episode]:
        assert self._rollout is not None, "prepare() comes first"
        return await self._rollout.play(requests)

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        return await self._engine.sample(requests)

    def publish(self, version: PolicyVersion, weights: AdapterWeights) -> None:
        self._engine.publish(version, weights)

    def retire(self, version: PolicyVersion) -> None:
        self._engine.retire(version)

    async def probe(
        self, versions: Sequence[PolicyVersion], prompts: Sequence[tuple[int, ...]]
    ) -> list[tuple[SampleRequest, Completion]]:
        return await probe(self._engine, versions, prompts)

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)


class RolloutHost:
    """A walker in a process of its own; what it asks crosses to the engine in batches."""

    def __init__(self, plan: RolloutPlan, engine: Any) -> None:
        async def send(requests: Sequence[SampleRequest]) -> list[Completion]:
            return await engine.call("sample", list(requests))

        self._rollout = RolloutWorker(plan, BatchingSampler(send))

    async def play(self, requests: Sequence[EpisodeRequest]) -> list[Episode]:
        return await self._rollout.play(requests)


class TunerHost:
    """Makes the tiny model and fine-tunes a whole model, some steps a call."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._steps: Iterator[dict[str, float]] = iter(())
        self._worker: Any = None

    def make_tiny(self, folder: str, corpus: Sequence[str], options: Mapping[str, Any]) -> str:
        from opentinker.learner.tiny_model import make_tiny

        return str(make_tiny(Path(folder), corpus, **options))

    def begin(self, model: str, examples: Examples, options: Mapping[str, Any]) -> None:
        from opentinker.learner.supervised import SupervisedWorker

        self._worker = SupervisedWorker(model, threads=self._threads)
        self._steps = self._worker.fit(examples, **options)

    def advance(self, steps: int) -> list[dict[str, float]]:
        """The metrics of the next steps; fewer when the fit has ended."""
        return list(islice(self._steps, steps))

    def save(self, folder: str) -> None:
        self._worker.save(folder)
