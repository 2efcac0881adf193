"""Policies of earlier runs to play against: found, and served by the reference engine here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opentinker.agents.policy import PolicyAgent, turn_seed
from opentinker.config import load_experiment
from opentinker.errors import CheckpointError, ConfigError
from opentinker.experiment import RLExperiment
from opentinker.inference import Engine, make_engine
from opentinker.learner.peft_folder import is_adapter, read_spec, read_tensors
from opentinker.recorder import Run
from opentinker.rendering import Renderer
from opentinker.rollout.routing import Route, RoutingSampler
from opentinker.scheduler.checkpoints import newest_checkpoint, noted_base, policy_folder
from opentinker.types import BASE, AdapterWeights, PolicyVersion, SamplingParams


@dataclass(frozen=True, slots=True)
class Trained:
    """A policy of a run's newest checkpoint."""

    name: str
    """`RUN:POLICY`, as it was asked for"""
    step: int
    """the update that the checkpoint was written after"""
    folder: Path
    """a PEFT adapter, or a whole model"""
    base: Path
    """the model that an adapter lies over; for a whole model its own folder"""
    experiment: RLExperiment
    """what it was trained by"""


def find_trained(runs: Path, name: str) -> Trained:
    """The policy `RUN:POLICY` of a run under `runs`, or in the folder RUN.

    ConfigError: no such run or policy, a run without a checkpoint or of another job.
    """
    place, _, policy = name.rpartition(":")
    run = Run.open(runs, place)
    experiment = load_experiment(run.folder / "experiment.toml")
    if not isinstance(experiment, RLExperiment):
        raise ConfigError(
            f"the run {run.folder} is of the job {experiment.job!r}, which has no policies; name "
            "one of the job 'rl'"
        )
    checkpoint = newest_checkpoint(run)
    folder = policy_folder(run, checkpoint, policy)
    base = noted_base(run) if is_adapter(folder) else folder
    if base is None:
        raise CheckpointError(f"the run {run.folder} does not say where its base model is")
    step = int(checkpoint.name.removeprefix("step-"))
    return Trained(name, step, folder, base, experiment)


class Opponents:
    """Trained policies with an engine in this process for each base model; `close` ends them.

    EngineError: a model that does not load, an adapter that does not fit its base.
    """

    def __init__(self, policies: Iterable[Trained]) -> None:
        self._policies = {each.name: each for each in policies}
        bases = list(dict.fromkeys(each.base for each in self._policies.values()))
        self._engines: list[Engine] = []
        routes: dict[str, Route] = {}
        try:
            for number, base in enumerate(bases):
                own = [each for each in self._policies.values() if each.base == base]
                self._engines.append(_engine(base, own))
                for each in own:
                    routes[each.name] = Route(number, BASE if each.folder == base else each.name)
        except BaseException:
            self.close()
            raise
        self._renderers = {base: Renderer.load(base) for base in bases}
        self._contexts = {
            base: engine.facts().max_model_len
            for base, engine in zip(bases, self._engines, strict=True)
        }
        self.sampler = RoutingSampler(self._engines, routes)
        """what answers for them"""

    def agent(self, name: str, seat: str, seed: int) -> PolicyAgent:
        """The agent that has policy `name` answer, sampled as it was in its training."""
        policy = self._policies[name]
        sampling = policy.experiment.sampling
        return PolicyAgent(
            name,
            self._renderers[policy.base],
            SamplingParams(sampling.max_tokens, sampling.temperature),
            seed=turn_seed(seed, seat),
            context=self._contexts[policy.base],
        )

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


def _engine(base: Path, policies: list[Trained]) -> Engine:
    """An engine on `base` that serves those of `policies` that are adapters."""
    adapters = {each.name: each for each in policies if each.folder != base}
    specs = {name: read_spec(each.folder) for name, each in adapters.items()}
    engine = make_engine(
        "torch",
        str(base),
        max_adapters=max(1, len(specs)),
        max_rank=max([spec.rank for spec in specs.values()], default=1),
        threads=max(each.experiment.resources.engine_threads for each in policies),
    )
    try:
        for name, each in adapters.items():
            weights = AdapterWeights(specs[name], read_tensors(each.folder))
            engine.publish(PolicyVersion(name, 0), weights)
    except BaseException:
        engine.close()
        raise
    return engine
