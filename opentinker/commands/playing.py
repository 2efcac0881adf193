"""`opentinker play`: a person in one seat of an env, agents and trained policies in the others."""

from __future__ import annotations

import asyncio
import importlib.util
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from opentinker.agent import Agent, View
from opentinker.agents.human import HumanAgent
from opentinker.commands.parts import find_part
from opentinker.errors import ConfigError, EnvironmentFault, UnknownNameError
from opentinker.recorder import Run
from opentinker.registry import agent_factory, call_factory, env_module, make_env, make_protocol
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import Limits, walk
from opentinker.rollout.worker import NoSampler
from opentinker.types import Episode, EpisodeRequest, Sampler

if TYPE_CHECKING:
    from opentinker.scheduler.opponents import Opponents, Trained

EQUILIBRIUM = "equilibrium"
PATIENCE = Limits(turns=10_000, turn_seconds=1e8, episode_seconds=1e8)
"""A person takes the time that it takes."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """Under what rules a game is played."""

    env_options: Mapping[str, Any]
    protocol: str
    protocol_options: Mapping[str, Any]


def play(
    console: Console,
    env: str,
    seat: str | None,
    against: Sequence[str],
    *,
    seed: int,
    protocol: str | None,
    options: Mapping[str, Any],
    runs: Path,
) -> Episode:
    """Play one episode and show how it ended; `runs` is where the runs of `RUN:POLICY` lie.

    Raises EOFError or KeyboardInterrupt when the person leaves, ConfigError for what can't be
    played.
    """
    id = find_part("env", env)
    whom = [_who(text)[1] for text in against]
    trained = {who: found for who in whom if (found := _trained(who, runs)) is not None}
    setting, notes = _setting(id, trained.values(), protocol, options)
    table = Table(make_env(id, **setting.env_options))
    seat = table.seats[0] if seat is None else seat
    if seat not in table.seats:
        raise UnknownNameError(f"seat of {env}:", seat, table.seats)
    graph = make_protocol(
        find_part("protocol", setting.protocol), table.seats, **setting.protocol_options
    )
    others = _others(table.seats, seat, against)
    request = EpisodeRequest("0", "0", seed, {seat: "you", **others})
    agents: dict[str, Agent] = {
        other: _agent(id, other, who, seed) for other, who in others.items() if who not in trained
    }
    agents[seat] = HumanAgent(lambda view, complaint: _ask(console, view, complaint))
    told = "; ".join(f"{other} is {who}" for other, who in others.items())
    for note in notes:
        _say(console, note, "yellow")
    _say(console, f"{env}, seed {seed}. You are {seat}{'; ' if told else ''}{told}. Ctrl-D leaves.")

    def walked(sampler: Sampler) -> Episode:
        # No asyncio.run: it would keep a Ctrl-C waiting for the line that is being read.
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(walk(table, graph, agents, request, sampler, PATIENCE))
        finally:
            loop.close()

    met = [trained[who] for who in dict.fromkeys(others.values()) if who in trained]
    if met:
        with closing(_opponents(console, met)) as opponents:
            for other, who in others.items():
                if who in trained:
                    agents[other] = opponents.agent(who, other, seed)
            episode = walked(opponents.sampler)
    else:
        episode = walked(NoSampler())
    if episode.outcome == "failed":
        raise EnvironmentFault(episode.reason)
    _show_end(console, table, seat, episode)
    return episode


def _who(text: str) -> tuple[str | None, str]:
    """The seat that `--against` names, None for the rest, and who is to sit there."""
    seat, equals, agent = text.partition("=")
    if not equals or seat.lstrip().startswith("{"):
        return None, text
    return seat, agent


def _others(seats: Sequence[str], own: str, against: Sequence[str]) -> dict[str, str]:
    """Who sits in the other seats: `SEAT=AGENT` in one, `AGENT` in those that are not named."""
    rest = "random"
    named: dict[str, str] = {}
    for seat, who in map(_who, against):
        if seat is None:
            rest = who
        elif seat not in seats or seat == own:
            others = [each for each in seats if each != own]
            raise UnknownNameError("seat in --against:", seat, others)
        else:
            named[seat] = who
    return {seat: named.get(seat, rest) for seat in seats if seat != own}


def _trained(who: str, runs: Path) -> Trained | None:
    """The policy that `RUN:POLICY` names; None for any other agent, such as `module:factory`."""
    place, colon, _ = who.rpartition(":")
    if not colon or who.lstrip().startswith("{"):
        return None
    try:
        Run.open(runs, place)
    except UnknownNameError:
        if _is_module(place):
            return None
        raise
    from opentinker.scheduler.opponents import find_trained

    return find_trained(runs, who)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _opponents(console: Console, policies: Sequence[Trained]) -> Opponents:
    for each in policies:
        _say(console, f"loading {each.name}, of step {each.step}", "dim")
    from transformers.utils.logging import disable_progress_bar

    from opentinker.scheduler.opponents import Opponents

    disable_progress_bar()
    return Opponents(policies)


def _setting(
    env: str, policies: Iterable[Trained], protocol: str | None, options: Mapping[str, Any]
) -> tuple[_Setting, list[str]]:
    """What is played under, and what there is to say about it.

    A policy reads what it was trained on: where it was trained on `env`, its run's protocol and env
    options hold, but for what is given here. Of several runs it is the first.
    """
    policies = list(policies)
    own = [each for each in policies if each.experiment.env.id == env]
    notes = [
        f"{each.name} was trained on {each.experiment.env.id}, not on {env}: it may not know what "
        "to say here"
        for each in policies
        if each not in own
    ]
    setting = _Setting(dict(options), protocol or "follow_env", {})
    if own:
        first = _trained_under(own[0])
        kept = first if protocol is None else setting
        merged = {**first.env_options, **options}
        setting = _Setting(merged, kept.protocol, kept.protocol_options)
        notes.append(f"as {own[0].name} was trained, but for what you gave: {_words(setting)}")
        notes += [
            f"{each.name} was trained otherwise: {_words(_trained_under(each))}"
            for each in own
            if _trained_under(each) != setting
        ]
    return setting, notes


def _trained_under(policy: Trained) -> _Setting:
    env, protocol = policy.experiment.env, policy.experiment.protocol
    return _Setting(env.options, protocol.id, protocol.options)


def _words(setting: _Setting) -> str:
    under = f"protocol {setting.protocol}{_listed(setting.protocol_options)}"
    return f"{under}, env options{_listed(setting.env_options) or ' none'}"


def _listed(options: Mapping[str, Any]) -> str:
    return "".join(f" {key}={value!r}" for key, value in options.items())


def _agent(env: str, seat: str, who: str, seed: int) -> Agent:
    """The agent that `who` says: a name, a place, a file, `equilibrium`, or a table of TOML."""
    options: dict[str, Any] = {}
    kind = who
    if who.lstrip().startswith("{"):
        try:
            options = tomllib.loads(f"agent = {who}")["agent"]
            kind = options.pop("kind")
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise ConfigError(
                f"--against {who!r} is no agent ({error}); write a name, or "
                f"{{kind = 'scripted', lines = ['[a]']}}"
            ) from error
    elif who == EQUILIBRIUM:
        solve = getattr(env_module(env), EQUILIBRIUM, None)
        if solve is None:
            raise ConfigError(f"env {env!r} has no equilibrium(); name another agent")
        kind, options = "tabular", {"table": solve()}
    factory = agent_factory(find_part("agent", kind))
    return call_factory("agent", kind, factory, **options, seat=seat, seed=seed)


def _ask(console: Console, view: View, complaint: str) -> str:
    if complaint:
        _say(console, complaint, "red")
    else:
        title = "" if view.stage == "move" else view.stage
        console.print(Panel(Text(view.prompt), title=title, title_align="left"))
        if view.legal_actions is not None:
            _say(console, f"legal: {' '.join(f'[{each}]' for each in view.legal_actions)}", "dim")
    return console.input(f"{view.seat}> ", markup=False)


def _show_end(console: Console, table: Table, seat: str, episode: Episode) -> None:
    try:
        seen = table.observe(seat)
    except EnvironmentFault:  # an env need not show anything after the end
        seen = ""
    if seen:
        console.print(Panel(Text(seen)))
    for turn in episode.turns:
        if not turn.legal:
            _say(console, f"{turn.seat} answered {turn.text!r}: {turn.reason}", "red")
    why = f" ({episode.reason})" if episode.reason else ""
    paid = ", ".join(f"{each} {amount:+g}" for each, amount in episode.returns.items())
    _say(console, f"{episode.outcome}{why}; returns: {paid}")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
