"""The engines and the learner of one run: started, asked, and proved to serve what was learned."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentinker.errors import ConfigError
from opentinker.experiment import FrozenPolicy, FullPolicy, RLExperiment
from opentinker.inference.probe import compare
from opentinker.learner.settings import FrozenSource, FullSource, PolicySettings, Source
from opentinker.rendering import Renderer
from opentinker.rollout.routing import Route
from opentinker.rollout.worker import RolloutPlan
from opentinker.scheduler.cluster import Cluster, Worker
from opentinker.scheduler.sources import adapter_spec, policy_settings, served_alone
from opentinker.types import (
    BASE,
    Episode,
    EpisodeRequest,
    PolicyVersion,
    TrainBatch,
    Trajectory,
    UpdateReport,
)

TOLERANCE = {"float32": 1e-3}
"""Largest difference of a logprob between engine and learner, by dtype of the engine."""
LOOSE = 0.5
"""The same for half precision, where single tokens differ by up to 0.3 with the right weights."""

Sequences = Sequence[tuple[Sequence[int], Sequence[int]]]


class Fleet:
    """One engine for the base and all its adapters, one for each whole model, and one learner."""

    def __init__(
        self,
        experiment: RLExperiment,
        sources: Mapping[str, Source],
        model: str,
        cluster: Cluster,
        needs_values: bool,
    ) -> None:
        self._experiment = experiment
        self._sources = sources
        self._model = model
        self._cluster = cluster
        self._needs_values = needs_values
        self._versions: dict[str, int] = {}
        self._engines: list[Worker] = []
        self._tolerances: list[float] = []
        self._routes: dict[str, Route] = {}
        self.described = ""
        """what serves the policies, in words"""

    async def start(self, renderer: Renderer) -> None:
        """Start learner and engines, side by side, and give the learner its policies."""
        self._start_engines()
        learner = self._experiment.resources.learner_threads
        self._learner = self._cluster.worker(
            "opentinker.learner.worker:LearnerWorker",
            {"model": self._model, "threads": learner, "seed": self._experiment.seed},
            threads=learner,
        )
        for source in self._sources.values():
            _same_words(source, renderer)
        await self._learner.ready()
        for name in sorted(self._sources, key=self._trainable):  # references come first
            settings = self._settings(name)
            await self._learner.call("add_policy", name, self._sources[name], settings)
        await asyncio.gather(*(engine.ready() for engine in self._engines))
        facts = [await engine.call("facts") for engine in self._engines]
        self._tolerances = [TOLERANCE.get(each.dtype, LOOSE) for each in facts]
        self.context = min(each.max_model_len for each in facts)
        kinds = [each.kind for each in facts]
        self.described = f"engine{'s' if len(kinds) > 1 else ''} {', '.join(kinds)}"

    async def walk_with(self, plan: RolloutPlan) -> None:
        """Make the walker that plays the episodes of `plan`."""
        plan = replace(plan, context=self.context)
        self._walker = self._engines[0]
        if self._experiment.resources.rollout == "engine":
            await self._walker.call("prepare", plan, self._engines[1:], self._routes)
            return
        self._walker = self._cluster.worker(
            "opentinker.scheduler.engines:RolloutHost",
            {"plan": plan, "engines": self._engines, "routes": self._routes},
        )
        await self._walker.ready()

    async def play(self, requests: Sequence[EpisodeRequest]) -> list[Episode]:
        return await self._walker.call("play", list(requests))

    def version(self, policy: str) -> int:
        """The version of a policy that is served."""
        return self._versions[policy]

    async def update(
        self, policy: str, batches: Sequence[TrainBatch], progress: float
    ) -> UpdateReport:
        return await self._learner.call("update", policy, batches, progress)

    async def values(self, policy: str, rows: Sequence[Trajectory]) -> list[Any]:
        """A critic's values of the turns of each row."""
        return await self._learner.call("values", policy, rows)

    async def score(self, policy: str, sequences: Sequences, temperature: float = 1.0) -> list[Any]:
        """The learner's logprobs of each (prompt, tokens)."""
        return await self._learner.call("score", policy, sequences, temperature)

    async def publish_all(self) -> None:
        """Serve every policy at the version that the learner has it at."""
        for name, source in self._sources.items():
            if self._trainable(name):
                await self.publish(name, await self._learner.call("version", name))
            elif isinstance(source, FrozenSource) and adapter_spec(source) is not None:
                await self.publish(name, 0)

    async def publish(self, policy: str, version: int) -> None:
        """Serve a version: its weights go from learner to engine, then the old one is retired."""
        engine = self._engines[self._routes[policy].engine]
        weights = self._learner.start("export", policy)
        await engine.call("publish", PolicyVersion(policy, version), weights)
        old = self._versions.get(policy)
        self._versions[policy] = version
        if old is not None and old != version:
            await engine.call("retire", PolicyVersion(policy, old))

    async def prove(self, prompts: Sequence[tuple[int, ...]]) -> float:
        """The largest gap of a logprob between engine and learner; PublishError above the bound.

        Each engine is asked for all that it serves in one batch: adapters and base mixed.
        """
        return max(
            [await self._prove(number, prompts) for number in range(len(self._engines))],
            default=0.0,
        )

    async def _prove(self, number: int, prompts: Sequence[tuple[int, ...]]) -> float:
        names = [name for name, route in self._routes.items() if route.engine == number]
        versions = [PolicyVersion(n, self._versions[n]) for n in names if n in self._versions]
        aliases = [name for name in names if name not in self._versions]
        whole = any(isinstance(self._sources[name], FullSource) for name in names)
        engine = self._engines[number]
        probed = await engine.call("probe", versions, prompts, not whole)
        base = aliases[0] if aliases else BASE  # a frozen whole model is its engine's base
        scores: list[Any] = [None] * len(probed)
        for policy in {request.policy for request, _ in probed}:
            places = [i for i, (request, _) in enumerate(probed) if request.policy == policy]
            sequences = [(probed[i][0].prompt_ids, probed[i][1].tokens) for i in places]
            found = await self.score(base if policy == BASE else policy, sequences)
            for place, score in zip(places, found, strict=True):
                scores[place] = score
        return compare(probed, scores, self._tolerances[number])

    async def save(self, folder: Path) -> None:
        await self._learner.call("save", str(folder.resolve()))

    async def load(self, folder: Path) -> None:
        await self._learner.call("load", str(folder.resolve()))

    def _settings(self, name: str) -> PolicySettings | None:
        """How a policy learns; None for a frozen one."""
        if not self._trainable(name):
            return None
        return policy_settings(self._experiment, name, critic=self._needs_values)

    def _trainable(self, name: str) -> bool:
        return not isinstance(self._experiment.policies[name], FrozenPolicy)

    def _start_engines(self) -> None:
        """The shared engine is the first, where there is anything to share."""
        specs = [adapter_spec(source) for source in self._sources.values()]
        shared = [name for name, source in self._sources.items() if not served_alone(source)]
        if shared:
            adapters = [spec for spec in specs if spec is not None]
            ranks = [spec.rank for spec in adapters]
            sizes = {"max_adapters": max(1, len(ranks)), "max_rank": max(ranks, default=1)}
            self._engine(self._experiment.engine, self._model, sizes)
        for name in shared:
            base = self._sources[name] == FrozenSource()
            self._routes[name] = Route(0, BASE if base else name)
        for name, source in self._sources.items():
            if not served_alone(source):
                continue
            section = self._experiment.policies[name]
            options: dict[str, Any] = {"max_adapters": 1, "max_rank": 1}
            kind = self._experiment.engine
            served = BASE
            if isinstance(section, FullPolicy):
                kind = kind if section.engine == "auto" else section.engine
                options["full"] = served = name
            self._routes[name] = Route(len(self._engines), served)
            assert isinstance(source, FullSource | FrozenSource)
            folder = source.model if isinstance(source, FullSource) else source.folder
            self._engine(kind, folder or self._model, options)

    def _engine(self, kind: str, model: str, options: Mapping[str, Any]) -> None:
        threads = self._experiment.resources.engine_threads
        common = {"kind": kind, "model": model, "seed": self._experiment.seed, "threads": threads}
        path = "opentinker.scheduler.engines:EngineHost"
        self._engines.append(self._cluster.worker(path, {**common, **options}, threads=threads))


def _same_words(source: Source, renderer: Renderer) -> None:
    """ConfigError where a whole model reads other ids than the experiment's model does."""
    folder = source.model if isinstance(source, FullSource) else None
    if isinstance(source, FrozenSource) and served_alone(source):
        folder = source.folder
    if folder is not None and not Renderer.load(folder).reads_like(renderer):
        raise ConfigError(
            f"the model {folder!r} has another tokenizer or chat template than the experiment's "
            "model; all policies of one run must read the same ids"
        )
