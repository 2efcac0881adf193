"""From the episodes of one step to what each policy is to learn: credit, selection, packing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opentinker.experience import credit
from opentinker.experience.packing import pack
from opentinker.experience.selection import fresh
from opentinker.experience.team import share_rewards
from opentinker.experience.trajectories import plays, trajectories
from opentinker.experiment import FrozenPolicy, RLExperiment
from opentinker.types import Episode, Play, Trajectory, UpdateReport

if TYPE_CHECKING:
    from opentinker.scheduler.fleet import Fleet


class Lessons:
    """The credit estimators of a run, one a trainable policy, and what they remember."""

    def __init__(self, experiment: RLExperiment) -> None:
        self._experiment = experiment
        train = experiment.train
        self._estimators = {
            name: credit.make(train.credit, **train.credit_options)
            for name, section in experiment.policies.items()
            if not isinstance(section, FrozenPolicy)
        }
        self.needs_values = any(each.needs_values for each in self._estimators.values())

    def of(self, episodes: Sequence[Episode]) -> StepLessons:
        """The lessons in `episodes`, of which none failed."""
        train = self._experiment.train
        shared = [share_rewards(episode, train.team, train.teams) for episode in episodes]
        return StepLessons(
            self._experiment,
            self._estimators,
            [play for episode in shared for play in plays(episode)],
            [row for episode in shared for row in trajectories(episode)],
        )

    def state(self) -> dict[str, Any]:
        return {name: estimator.state() for name, estimator in self._estimators.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        for name, estimator in self._estimators.items():
            estimator.load(state[name])


class StepLessons:
    """What the episodes of one step hold for each policy."""

    def __init__(
        self,
        experiment: RLExperiment,
        estimators: Mapping[str, credit.Estimator],
        played: Sequence[Play],
        rows: Sequence[Trajectory],
    ) -> None:
        self._experiment = experiment
        self._estimators = estimators
        self._plays = played
        self._rows = rows

    async def learn(self, policy: str, fleet: Fleet, progress: float) -> UpdateReport:
        """One update of one policy; its report, with the figures of credit and selection added."""
        train = self._experiment.train
        version = fleet.version(policy)
        rows, dropped = fresh(
            [row for row in self._rows if row.policy == policy], version, train.max_staleness
        )
        own = [play for play in self._plays if play.policy == policy]
        if self._estimators[policy].needs_values:
            own = _valued(own, rows, await fleet.values(policy, rows))
        earned = self._estimators[policy].advantages(own)
        names = [(play.episode, play.seat) for play in own]
        targets = None if earned.targets is None else dict(zip(names, earned.targets, strict=True))
        batches = pack(
            rows,
            dict(zip(names, earned.advantages, strict=True)),
            train.batch_tokens,
            targets=targets,
        )
        report = await fleet.update(policy, batches, progress)
        return replace(report, metrics={**report.metrics, **earned.metrics, **dropped})


def _valued(
    own: Sequence[Play], rows: Sequence[Trajectory], values: Sequence[NDArray[np.float64]]
) -> list[Play]:
    """The plays with a critic's values; NaN at turns of which nothing is trained."""
    found = {(play.episode, play.seat): np.full(len(play.rewards), np.nan) for play in own}
    for row, each in zip(rows, values, strict=True):
        turns = list(dict.fromkeys(row.turn[row.turn >= 0].tolist()))
        found[row.episode, row.seat][turns] = each
    return [replace(play, values=found[play.episode, play.seat]) for play in own]
