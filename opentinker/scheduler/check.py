"""Everything that can be known to be wrong before Ray or an engine starts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentinker.config import Experiment, load_experiment
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.experience import credit
from opentinker.experience.team import check_teams
from opentinker.experiment import AgentSection, EnvSection, FrozenPolicy, RLExperiment
from opentinker.game import Node
from opentinker.learner import losses
from opentinker.protocol import EnvFacts
from opentinker.registry import agent_factory, agent_ids, env_module, make_env, make_protocol
from opentinker.rollout.walker import Limits
from opentinker.rollout.worker import AgentSpec, RolloutPlan
from opentinker.scheduler.sources import policy_settings
from opentinker.types import SamplingParams

EQUILIBRIUM = "equilibrium"


@dataclass(frozen=True, slots=True)
class Checked:
    """An experiment that fits its env: who sits where, how to play; `plan.model` is open.

    A fit on what is written down already has no env: no seats, and nothing to be played.
    """

    experiment: Experiment
    source: Path
    seats: tuple[str, ...]
    cast: Mapping[str, str]
    plan: RolloutPlan
    tree: Node | None
    """the env's exact game tree, where it gives one"""
    after: Checked | None

    def policy_seats(self, policy: str) -> list[str]:
        return [seat for seat, name in self.cast.items() if name == policy]


def check(source: Path, experiment: Experiment) -> Checked:
    """Look every name up, make the env and the protocol once, and fit them together.

    Raises `ConfigError` in one line that names the file, the thing, and what is allowed.
    """
    return _checked(source, experiment, ())


def _checked(source: Path, experiment: Experiment, later: tuple[Path, ...]) -> Checked:
    """`later` are the files whose `after` led here."""
    try:
        return _check(source, experiment, (*later, source.resolve()))
    except ConfigError as error:
        if str(error).startswith(str(source.parent)):
            raise
        raise ConfigError(f"{source}: {error}") from error


def _check(source: Path, experiment: Experiment, files: tuple[Path, ...]) -> Checked:
    beside = source.resolve().parent  # modules beside the experiment's file are part of it
    for each in reversed(["", *experiment.paths]):
        folder = (beside / each).resolve()
        if not folder.is_dir():
            raise ConfigError(f"paths: {each!r} is no folder; it would be {folder}")
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    for module in experiment.modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ConfigError(f"modules: importing {module!r} failed: {error}") from error
    after = _after(source, experiment, files)
    if experiment.env is None:
        return Checked(experiment, source, (), {}, RolloutPlan(env=""), None, after)
    env = make_env(experiment.env.id, **experiment.env.options)
    facts = EnvFacts.of(env)
    protocol = make_protocol(experiment.protocol.id, facts.seats, **experiment.protocol.options)
    protocol.check(facts)
    cast, agents = _cast(experiment, experiment.env, facts.seats)
    tree = _part(experiment.env.id, "game_tree")
    policies: dict[str, SamplingParams] = {}
    if isinstance(experiment, RLExperiment):
        sampling = experiment.sampling
        params = SamplingParams(sampling.max_tokens, sampling.temperature)
        policies = dict.fromkeys(experiment.policies, params)
        agents |= _opponents(experiment)
        if experiment.evaluate.exploitability and tree is None:
            raise ConfigError(
                f"evaluate.exploitability: env {experiment.env.id!r} has no game_tree(); "
                "set it to false"
            )
        _training(experiment, facts.seats)
    for name, spec in agents.items():
        _try_agent(name, spec)
    limits = experiment.limits
    plan = RolloutPlan(
        env=experiment.env.id,
        protocol=experiment.protocol.id,
        env_options=experiment.env.options,
        protocol_options=experiment.protocol.options,
        policies=policies,
        agents=agents,
        seed=experiment.seed,
        limits=Limits(limits.turns, limits.turn_seconds, limits.episode_seconds),
        modules=tuple(experiment.modules),
    )
    return Checked(experiment, source, facts.seats, cast, plan, tree, after)


def _training(experiment: RLExperiment, seats: tuple[str, ...]) -> None:
    """What of the training can be wrong for this cast."""
    train, policies = experiment.train, experiment.policies
    for what, made in (("credit", credit), ("loss", losses)):
        if getattr(train, what) not in made.names():
            raise UnknownNameError(f"train.{what}", getattr(train, what), made.names())
    check_teams(seats, train.teams)
    frozen = [name for name, each in policies.items() if isinstance(each, FrozenPolicy)]
    if len(frozen) == len(policies):
        raise ConfigError(
            f"policies {', '.join(frozen)} are all frozen: nothing would learn; give one the kind "
            "'lora' or 'full'"
        )
    for name, section in policies.items():
        if isinstance(section, FrozenPolicy) or section.reference in ("copy", "base", *frozen):
            continue
        known = ["copy", "base", *frozen]
        raise UnknownNameError(f"reference of policy {name!r}", section.reference, known)
    _options(experiment)


def _options(experiment: RLExperiment) -> None:
    """Make the credit estimator and each policy's loss once, so that wrong options are found."""
    train = experiment.train
    try:
        critic = credit.make(train.credit, **train.credit_options).needs_values
    except ConfigError as error:
        raise ConfigError(f"train.credit_options: {error}") from error
    for name, section in experiment.policies.items():
        if not isinstance(section, FrozenPolicy):
            settings = policy_settings(experiment, name, critic=critic)
            try:
                losses.of(settings)
            except ConfigError as error:
                raise ConfigError(f"train.loss_options: {error}") from error


def _cast(
    experiment: Experiment, env: EnvSection, seats: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, AgentSpec]]:
    """Seat -> name, and the agents behind the names that are no policies."""
    for seat in experiment.cast:
        if seat not in seats:
            raise UnknownNameError("seat in [cast]", seat, seats)
    for seat in seats:
        if seat not in experiment.cast:
            raise ConfigError(
                f"seat {seat!r} of env {env.id!r} has no agent; add it to [cast] "
                f"(given: {', '.join(experiment.cast)})"
            )
    policies = experiment.policies if isinstance(experiment, RLExperiment) else {}
    cast: dict[str, str] = {}
    agents: dict[str, AgentSpec] = {}
    for seat, who in experiment.cast.items():
        if isinstance(who, AgentSection):
            cast[seat] = f"{who.kind}@{seat}"
            agents[cast[seat]] = AgentSpec(who.kind, who.options())
            continue
        cast[seat] = who
        if who not in policies:
            agents[who] = _named(experiment, who, list(policies), f"agent of seat {seat!r}")
    met = experiment.evaluate.against if isinstance(experiment, RLExperiment) else ()
    for policy, section in policies.items():
        idle = not (isinstance(section, FrozenPolicy) and policy in met)
        if idle and policy not in cast.values():
            raise ConfigError(
                f"policy {policy!r} has no seat; the cast is "
                + ", ".join(f"{seat} = {name}" for seat, name in cast.items())
            )
    return cast, agents


def _named(experiment: Experiment, name: str, policies: list[str], what: str) -> AgentSpec:
    section = experiment.agents.get(name)
    if section is not None:
        return AgentSpec(section.kind, section.options())
    try:
        agent_factory(name)
    except UnknownNameError:
        known = {*policies, *experiment.agents, *agent_ids()}
        raise UnknownNameError(what, name, known) from None
    return AgentSpec(name)


def _opponents(experiment: RLExperiment) -> dict[str, AgentSpec]:
    found = {}
    for name in experiment.evaluate.against:
        if name == EQUILIBRIUM:
            table = _part(experiment.env.id, "equilibrium")
            if table is None:
                raise ConfigError(
                    f"evaluate.against: env {experiment.env.id!r} has no equilibrium(); "
                    "name another agent"
                )
            found[name] = AgentSpec("tabular", {"table": table})
        elif not isinstance(experiment.policies.get(name), FrozenPolicy):
            found[name] = _named(experiment, name, [], "agent in evaluate.against")
    return found


def _try_agent(name: str, spec: AgentSpec) -> None:
    """Make the agent once, so that wrong options are found now."""
    try:
        agent_factory(spec.kind)(**spec.options, seat="", seed=0)
    except TypeError as error:
        raise ConfigError(f"agent {name!r} of kind {spec.kind!r}: {error}") from error


def _part(env: str, name: str) -> Any:
    """What the env's module says about the whole game, called; None if nothing."""
    part = getattr(env_module(env), name, None)
    return None if part is None else part()


def _after(source: Path, experiment: Experiment, files: tuple[Path, ...]) -> Checked | None:
    if experiment.after is None:
        return None
    path = source.parent / experiment.after
    if not path.is_file():
        raise ConfigError(f"after: no experiment file {str(path)!r}")
    if path.resolve() in files:
        raise ConfigError(f"after: {experiment.after!r} comes after this experiment itself")
    return _checked(path, load_experiment(path), files)
