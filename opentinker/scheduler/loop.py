"""Co-training: match, roll out, credit, update, publish, prove, evaluate, checkpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from opentinker.analysis.infostates import state_prompts
from opentinker.config import RLExperiment
from opentinker.errors import EnvironmentFault
from opentinker.experience import credit
from opentinker.experience.packing import pack
from opentinker.experience.selection import usable
from opentinker.experience.trajectories import plays, trajectories
from opentinker.inference.probe import compare
from opentinker.learner.settings import PolicySettings
from opentinker.recorder import Run
from opentinker.rendering import Renderer
from opentinker.rollout.worker import AgentSpec
from opentinker.scheduler.check import Checked
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.evaluate import ExactScore, Match, play_matches
from opentinker.scheduler.figures import step_metrics
from opentinker.scheduler.finetune import demonstrate
from opentinker.scheduler.watcher import Watcher
from opentinker.types import (
    AdapterSpec,
    Episode,
    EpisodeRequest,
    Play,
    PolicyVersion,
    Trajectory,
    UpdateReport,
)

log = logging.getLogger(__name__)

TOLERANCE = {"float32": 1e-3}
"""Largest difference of a logprob between engine and learner, by dtype of the engine."""
LOOSE = 0.5
"""The same for half precision, where single tokens differ by up to 0.3 with the right weights."""


class CoTraining:
    """The `rl` job: every trainable policy of a cast learns from what its own seats did."""

    def __init__(
        self, checked: Checked, model: Path, run: Run, cluster: Cluster, watcher: Watcher
    ) -> None:
        assert isinstance(checked.experiment, RLExperiment)
        self._checked = checked
        self._experiment = checked.experiment
        self._plan = replace(checked.plan, model=str(model))
        self._model = str(model)
        self._run = run
        self._cluster = cluster
        self._watcher = watcher
        self._renderer = Renderer.load(model)
        self._policies = list(self._experiment.policies)
        train = self._experiment.train
        self._credit = {
            name: credit.make(train.credit, **train.credit_options) for name in self._policies
        }
        self._versions: dict[str, int] = {}
        self._exact: ExactScore | None = None
        self._first: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._matches: list[list[Match]] = []
        self.step = 0

    async def run(self) -> None:
        """Train to the end; what was learned is in the run's folder."""
        experiment = self._experiment
        updates = experiment.train.updates
        await self._start()
        for self.step in range(1, updates + 1):
            row = self._last = await self._one_step()
            self._run.append("metrics.jsonl", row)
            self._run.set_status("running", self.step)
            self._watcher.step(row, self.step, updates)
            if self.step % experiment.evaluate.every == 0 or self.step == updates:
                await self._evaluate()
            if self.step % experiment.checkpoint.every == 0 or self.step == updates:
                await self._checkpoint()
        await self._prove_saved()
        self._close()

    async def _start(self) -> None:
        experiment, resources = self._experiment, self._experiment.resources
        self._watcher.phase("starting the engine and the learner")
        specs = {name: _spec(section) for name, section in experiment.policies.items()}
        self._engine = self._cluster.worker(
            "opentinker.scheduler.hosts:EngineHost",
            {
                "kind": experiment.engine,
                "model": self._model,
                "max_adapters": len(specs),
                "max_rank": max(spec.rank for spec in specs.values()),
                "seed": experiment.seed,
                "threads": resources.engine_threads,
            },
            threads=resources.engine_threads,
        )
        self._learner = self._cluster.worker(
            "opentinker.learner.worker:LearnerWorker",
            {
                "model": self._model,
                "threads": resources.learner_threads,
                "seed": experiment.seed,
            },
            threads=resources.learner_threads,
        )
        if self._checked.tree is not None and experiment.evaluate.exploitability:
            prompts = await state_prompts(self._plan, self._renderer, self._checked.tree)
            self._exact = ExactScore(self._checked.tree, prompts, self._checked.cast)
            self._run.write_json("reference.json", self._exact.reference())
        await self._learner.ready()
        for name, spec in specs.items():
            await self._learner.call("add_policy", name, spec, _settings(experiment, name))
        await self._engine.ready()
        facts = await self._engine.call("facts")
        self._tolerance = TOLERANCE.get(facts.dtype, LOOSE)
        self._plan = replace(self._plan, context=facts.max_model_len)
        self._walker = self._engine
        if resources.rollout == "engine":
            await self._engine.call("prepare", self._plan)
        else:
            self._walker = self._cluster.worker(
                "opentinker.scheduler.hosts:RolloutHost",
                {"plan": self._plan, "engine": self._engine},
            )
            await self._walker.ready()
        self._watcher.phase(f"engine {facts.kind}, {', '.join(self._policies)} on {self._model}")
        self._probes = [self._renderer.opening(text) for text in await self._texts()]
        for name in self._policies:
            await self._publish(name, 0)
        row = {"step": 0, "probe_gap": await self._probe(), **await self._solve(count=False)}
        self._first = row
        self._run.append("metrics.jsonl", row)
        self._run.set_status("running", 0)
        self._watcher.step(row, 0, experiment.train.updates)
        await self._evaluate()

    async def _texts(self) -> list[str]:
        """What a seat is first shown in two different starts: the prompts of the probe."""
        agents = {"random": AgentSpec("random")}
        plan = replace(self._plan, agents=agents)
        played = await demonstrate(plan, dict.fromkeys(self._checked.seats, "random"), 2)
        return [episode.turns[0].observation for episode in played]

    async def _one_step(self) -> dict[str, Any]:
        began = perf_counter()
        episodes = await self._play(self._requests())
        played = perf_counter()
        kept, counts = usable(episodes)
        self._judge(episodes, counts["failed_episodes"])
        own = [play for episode in kept for play in plays(episode)]
        rows = [row for episode in kept for row in trajectories(episode)]
        reports = [await self._update(name, own, rows) for name in self._policies]
        updated = perf_counter()
        for report in reports:
            await self._publish(report.policy, report.version)
        published = perf_counter()
        gap = await self._probe()
        exact = await self._solve(count=True)
        done = perf_counter()
        self._run.write_episodes(self.step, episodes[: self._experiment.checkpoint.transcripts])
        return {
            "step": self.step,
            "episodes_total": self.step * self._experiment.train.episodes_per_update,
            **counts,
            **step_metrics(kept, reports, played - began),
            "probe_gap": gap,
            **exact,
            "seconds": done - began,
            "seconds/rollout": played - began,
            "seconds/update": updated - played,
            "seconds/publish": published - updated,
            "seconds/prove": done - published,
        }

    def _requests(self) -> list[EpisodeRequest]:
        """This step's episodes; those of one group start from the same seed."""
        train = self._experiment.train
        first = (self.step - 1) * train.episodes_per_update
        found = []
        for index in range(first, first + train.episodes_per_update):
            group = index // train.group_size
            found.append(
                EpisodeRequest(
                    f"{index:07d}",
                    f"{group:07d}",
                    _start_seed(self._experiment.seed, group),
                    self._checked.cast,
                )
            )
        return found

    async def _play(self, requests: Sequence[EpisodeRequest]) -> list[Episode]:
        return await self._walker.call("play", list(requests))

    def _judge(self, episodes: Sequence[Episode], failed: float) -> None:
        if failed > self._experiment.train.max_failed * len(episodes):
            reason = next(e.reason for e in episodes if e.outcome == "failed")
            raise EnvironmentFault(
                f"{failed:.0f} of {len(episodes)} episodes of step {self.step} failed; the first: "
                f"{reason}"
            )

    async def _update(
        self, policy: str, played: Sequence[Play], rows: Sequence[Trajectory]
    ) -> UpdateReport:
        own = [play for play in played if play.policy == policy]
        earned = self._credit[policy].advantages(own)
        advantages = {
            (play.episode, play.seat): a for play, a in zip(own, earned.advantages, strict=True)
        }
        trained = [row for row in rows if row.policy == policy]
        batches = pack(trained, advantages, self._experiment.train.batch_tokens)
        progress = (self.step - 1) / max(1, self._experiment.train.updates - 1)
        report = await self._learner.call("update", policy, batches, progress)
        if report.skipped:
            log.warning("step %d: update of %r skipped: %s", self.step, policy, report.skipped)
        return replace(report, metrics={**report.metrics, **earned.metrics})

    async def _publish(self, policy: str, version: int) -> None:
        """Serve a version: its weights go from learner to engine, then the old one is retired."""
        weights = self._learner.start("export", policy)
        await self._engine.call("publish", PolicyVersion(policy, version), weights)
        old = self._versions.get(policy)
        self._versions[policy] = version
        if old is not None and old != version:
            await self._engine.call("retire", PolicyVersion(policy, old))

    async def _probe(self) -> float:
        """Prove that the engine answers as the learner does, all policies and the base at once."""
        versions = [PolicyVersion(name, version) for name, version in self._versions.items()]
        probed = await self._engine.call("probe", versions, self._probes)
        scores: list[Any] = [None] * len(probed)
        for policy in {request.policy for request, _ in probed}:
            places = [i for i, (request, _) in enumerate(probed) if request.policy == policy]
            sequences = [(probed[i][0].prompt_ids, probed[i][1].tokens) for i in places]
            for place, score in zip(
                places, await self._learner.call("score", policy, sequences), strict=True
            ):
                scores[place] = score
        return compare(probed, scores, self._tolerance)

    async def _solve(self, *, count: bool) -> dict[str, float]:
        if self._exact is None:
            return {}
        scores: dict[tuple[str, str], Sequence[float]] = {}
        temperature = self._experiment.sampling.temperature
        for policy in self._policies:
            names, sequences = self._exact.sequences(policy)
            found = await self._learner.call("score", policy, sequences, temperature)
            scores.update(zip(names, found, strict=True))
        metrics, table = self._exact.measure(scores, count=count)
        self._run.append("strategies.jsonl", {"step": self.step, "table": table})
        return metrics

    async def _evaluate(self) -> None:
        evaluate = self._experiment.evaluate
        if not evaluate.against:
            return
        matches = await play_matches(
            self._play,
            self._checked.cast,
            self._policies,
            evaluate.against,
            evaluate.episodes,
            _start_seed(self._experiment.seed, -1),
        )
        self._matches.append(matches)
        for match in matches:
            self._run.append("evaluations.jsonl", {"step": self.step, **asdict(match)})

    async def _checkpoint(self) -> None:
        pending = str((self._run.folder / "checkpoints" / "learner.part").resolve())
        await self._learner.call("save", pending)
        state = {name: estimator.state() for name, estimator in self._credit.items()}

        def write(folder: Path) -> None:
            Path(pending).rename(folder / "policies")
            (folder / "credit.json").write_text(json.dumps(state) + "\n", encoding="utf-8")

        self._run.checkpoint(self.step, write, self._experiment.checkpoint.keep_last)

    async def _prove_saved(self) -> None:
        """What was saved is what is served: load it back and ask the same probe again."""
        folder = self._run.latest_checkpoint() / "policies"
        await self._learner.call("load", str(folder.resolve()))
        await self._probe()

    def _close(self) -> None:
        last = self._last
        rows = [
            (key.replace("_", " "), f"{self._first[key]:.4f}", f"{last[key]:.4f}")
            for key in ("exploitability", "exploitability_average", "illegal_mass")
            if key in last
        ]
        if self._matches:
            for first, end in zip(self._matches[0], self._matches[-1], strict=True):
                rows.append(
                    (
                        f"{end.policy} ({end.seat}) against {end.against}",
                        f"{first.reward:+.3f} ± {first.stderr:.3f}",
                        f"{end.reward:+.3f} ± {end.stderr:.3f}",
                    )
                )
        self._watcher.closing(f"{self._experiment.name}: first step beside last", rows)


def _spec(section: Any) -> AdapterSpec:
    alpha = section.alpha if section.alpha is not None else 2.0 * section.rank
    return AdapterSpec(section.rank, alpha, tuple(section.targets))


def _settings(experiment: RLExperiment, policy: str) -> PolicySettings:
    section, train = experiment.policies[policy], experiment.train
    return PolicySettings(
        learning_rate=section.learning_rate,
        entropy=section.entropy,
        kl=section.kl,
        reference_every=section.reference_every,
        max_grad_norm=train.max_grad_norm,
        loss=train.loss,
        importance_cap=train.importance_cap,
        normalization=train.normalization,
        temperature=experiment.sampling.temperature,
        max_skipped=train.max_skipped,
    )


def _start_seed(seed: int, group: int) -> int:
    """The env seed of a group, below 2**31; evaluations have group -1."""
    return (seed * 1_000_003 + group * 7_919 + 104_729) % 2**31
