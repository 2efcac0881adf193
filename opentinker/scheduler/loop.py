"""Co-training: match, roll out, credit, update, publish, prove, evaluate, checkpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from opentinker.analysis.infostates import state_prompts
from opentinker.errors import EnvironmentFault
from opentinker.experience.selection import usable
from opentinker.experiment import FrozenPolicy, RLExperiment
from opentinker.learner.settings import Source
from opentinker.recorder import Run
from opentinker.rendering import Renderer
from opentinker.rollout.worker import AgentSpec
from opentinker.scheduler.check import Checked
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.evaluate import ExactScore, Match, play_matches
from opentinker.scheduler.figures import step_metrics
from opentinker.scheduler.finetune import demonstrate
from opentinker.scheduler.fleet import Fleet
from opentinker.scheduler.lessons import Lessons
from opentinker.scheduler.schedule import due
from opentinker.scheduler.supply import Supply
from opentinker.scheduler.watcher import Watcher
from opentinker.types import Episode, EpisodeRequest

log = logging.getLogger(__name__)

STATE = "loop.json"


class CoTraining:
    """The `rl` job: every trainable policy of a cast learns from what its own seats did."""

    def __init__(
        self,
        checked: Checked,
        sources: Mapping[str, Source],
        model: Path,
        run: Run,
        cluster: Cluster,
        watcher: Watcher,
    ) -> None:
        assert isinstance(checked.experiment, RLExperiment)
        self._checked = checked
        self._experiment = checked.experiment
        self._plan = replace(checked.plan, model=str(model))
        self._run = run
        self._watcher = watcher
        self._renderer = Renderer.load(model)
        self._policies = list(self._experiment.policies)
        self._lessons = Lessons(self._experiment)
        self._fleet = Fleet(
            self._experiment, sources, str(model), cluster, self._lessons.needs_values
        )
        self._exact: ExactScore | None = None
        self._first: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._matches: list[list[Match]] = []
        self.step = 0

    async def run(self, *, resume: bool = False) -> None:
        """Train to the end; what was learned is in the run's folder.

        With `resume` it goes on from the newest whole checkpoint, or from the start without one.
        """
        updates = self._experiment.train.updates
        await self._start()
        if not (resume and await self._restore()):
            await self._begin()
        supply = Supply(
            self._fleet.play,
            self._requests,
            self._experiment.train.max_staleness,
            first=self.step + 1,
            last=updates,
        )
        try:
            while self.step < updates:
                self.step += 1
                await self._one_step(supply)
        finally:
            supply.close()
        await self._prove_saved()
        self._close()

    async def _start(self) -> None:
        self._watcher.phase("starting engines and learner")
        tree = self._checked.tree
        await self._fleet.start(self._renderer)
        if tree is not None and self._experiment.evaluate.exploitability:
            prompts = await state_prompts(self._plan, self._renderer, tree)
            self._exact = ExactScore(tree, prompts, self._checked.cast)
            self._run.write_json("reference.json", self._exact.reference())
        await self._fleet.walk_with(self._plan)
        names = ", ".join(self._policies)
        self._watcher.phase(f"{self._fleet.described}; {names} on {self._plan.model}")
        self._probes = [self._renderer.opening(text) for text in await self._texts()]

    async def _texts(self) -> list[str]:
        """What a seat is first shown in two different starts: the prompts of the probe."""
        agents = {"random": AgentSpec("random")}
        plan = replace(self._plan, agents=agents)
        played = await demonstrate(plan, dict.fromkeys(self._checked.seats, "random"), 2)
        return [episode.turns[0].observation for episode in played]

    async def _begin(self) -> None:
        """The state before the first update: published, proved, measured."""
        self._run.rewind(-1)
        await self._fleet.publish_all()
        gap = await self._fleet.prove(self._probes)
        row = {"step": 0, "episodes_total": 0, "probe_gap": gap, **await self._solve(count=False)}
        self._first = row
        self._note(row)
        await self._evaluate()

    async def _restore(self) -> bool:
        """Go back to the newest whole checkpoint; False where there is none."""
        if not self._run.checkpoints():
            return False
        folder = self._run.latest_checkpoint()
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        self.step = state["step"]
        self._run.rewind(self.step)
        await self._fleet.load(folder / "policies")
        self._lessons.load(state["credit"])
        if self._exact is not None:
            self._exact.load(state["average"])
        rows = self._run.lines("metrics.jsonl")
        self._first, self._last = rows[0], rows[-1]
        matches = self._run.lines("evaluations.jsonl")
        for step in dict.fromkeys(row["step"] for row in matches):
            own = [{k: v for k, v in row.items() if k != "step"} for row in matches]
            picked = [m for m, row in zip(own, matches, strict=True) if row["step"] == step]
            self._matches.append([Match(**match) for match in picked])
        await self._fleet.publish_all()
        await self._fleet.prove(self._probes)
        self._watcher.phase(f"going on after step {self.step}")
        return True

    async def _one_step(self, supply: Supply) -> None:
        """Play or wait for a batch, update whose turn it is, publish, prove, note, checkpoint."""
        train, began = self._experiment.train, perf_counter()
        episodes = await supply.take(self.step)
        waited = perf_counter()
        kept, counts = usable(episodes)
        self._judge(episodes, counts["failed_episodes"])
        progress = (self.step - 1) / max(1, train.updates - 1)
        lessons = self._lessons.of(kept)
        reports = [
            await lessons.learn(policy, self._fleet, progress) for policy in self._due(self.step)
        ]
        updated = perf_counter()
        for report in reports:
            if report.skipped:
                log.warning(
                    "step %d: update of %r skipped: %s", self.step, report.policy, report.skipped
                )
            await self._fleet.publish(report.policy, report.version)
        supply.published(self.step)
        published = perf_counter()
        gap = await self._fleet.prove(self._probes)
        exact = await self._solve(count=True)
        done = perf_counter()
        self._run.write_episodes(self.step, episodes[: self._experiment.checkpoint.transcripts])
        row = {
            "step": self.step,
            "episodes_total": self.step * train.episodes_per_update,
            **counts,
            **step_metrics(kept, reports, supply.seconds),
            "probe_gap": gap,
            **exact,
            "seconds": done - began,
            "seconds/rollout": waited - began,
            "seconds/update": updated - waited,
            "seconds/publish": published - updated,
            "seconds/prove": done - published,
        }
        self._last = row
        self._note(row)
        last = self.step == train.updates
        if self.step % self._experiment.evaluate.every == 0 or last:
            await self._evaluate()
        if self.step % self._experiment.checkpoint.every == 0 or last:
            await self._checkpoint()

    def _due(self, step: int) -> Sequence[str]:
        train = self._experiment.train
        every = {
            name: section.every
            for name, section in self._experiment.policies.items()
            if not isinstance(section, FrozenPolicy)
        }
        turns = train.alternate_every if train.update == "alternating" else None
        return due(step, every, turns)

    def _note(self, row: Mapping[str, Any]) -> None:
        self._run.append("metrics.jsonl", row)
        self._run.set_status("running", self.step)
        self._watcher.step(row, self.step, self._experiment.train.updates)

    def _requests(self, step: int) -> list[EpisodeRequest]:
        """The episodes of a step; those of one group start from the same seed."""
        train = self._experiment.train
        first = (step - 1) * train.episodes_per_update
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

    def _judge(self, episodes: Sequence[Episode], failed: float) -> None:
        if failed > self._experiment.train.max_failed * len(episodes):
            reason = next(e.reason for e in episodes if e.outcome == "failed")
            raise EnvironmentFault(
                f"{failed:.0f} of {len(episodes)} episodes of step {self.step} failed; the first: "
                f"{reason}"
            )

    async def _solve(self, *, count: bool) -> dict[str, float]:
        if self._exact is None:
            return {}
        scores: dict[tuple[str, str], Sequence[float]] = {}
        temperature = self._experiment.sampling.temperature
        for policy in self._policies:
            names, sequences = self._exact.sequences(policy)
            if not names:
                continue
            found = await self._fleet.score(policy, sequences, temperature)
            scores.update(zip(names, found, strict=True))
        metrics, table = self._exact.measure(scores, count=count)
        self._run.append("strategies.jsonl", {"step": self.step, "table": table})
        return metrics

    async def _evaluate(self) -> None:
        evaluate = self._experiment.evaluate
        if not evaluate.against:
            return
        matches = await play_matches(
            self._fleet.play,
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
        keep = self._experiment.checkpoint
        pending = self._run.folder / "checkpoints" / "learner.part"
        await self._fleet.save(pending)
        state = {
            "step": self.step,
            "credit": self._lessons.state(),
            "average": None if self._exact is None else self._exact.state(),
        }

        def write(folder: Path) -> None:
            pending.rename(folder / "policies")
            (folder / STATE).write_text(json.dumps(state) + "\n", encoding="utf-8")

        score = self._last.get(keep.metric)
        if score is not None and keep.goal == "min":
            score = -score
        self._run.checkpoint(
            self.step, write, keep.keep_last, keep_best=keep.keep_best, score=score
        )

    async def _prove_saved(self) -> None:
        """What was saved is what is served: load it back and ask the same probe again."""
        await self._fleet.load(self._run.latest_checkpoint() / "policies")
        await self._fleet.prove(self._probes)

    def _close(self) -> None:
        rows = [
            (key.replace("_", " "), f"{self._first[key]:.4f}", f"{self._last[key]:.4f}")
            for key in ("exploitability", "exploitability_average", "illegal_mass")
            if key in self._last
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
        if rows:
            self._watcher.closing(f"{self._experiment.name}: first step beside last", rows)


def _start_seed(seed: int, group: int) -> int:
    """The env seed of a group, below 2**31; evaluations have group -1."""
    return (seed * 1_000_003 + group * 7_919 + 104_729) % 2**31
