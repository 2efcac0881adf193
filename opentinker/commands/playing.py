"""`opentinker play`: a person in one seat of an env, agents without an engine in the others."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from opentinker.agent import Agent, View
from opentinker.agents.human import HumanAgent
from opentinker.commands.parts import find_part
from opentinker.errors import ConfigError, EnvironmentFault, UnknownNameError
from opentinker.registry import agent_factory, call_factory, env_module, make_env, make_protocol
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import Limits, walk
from opentinker.rollout.worker import NoSampler
from opentinker.types import Episode, EpisodeRequest

EQUILIBRIUM = "equilibrium"
PATIENCE = Limits(turns=10_000, turn_seconds=1e8, episode_seconds=1e8)
"""A person takes the time that it takes."""


def play(
    console: Console,
    env: str,
    seat: str | None,
    against: Sequence[str],
    *,
    seed: int,
    protocol: str,
    options: Mapping[str, Any],
) -> Episode:
    """Play one episode and show how it ended.

    Raises EOFError or KeyboardInterrupt when the person leaves, ConfigError for what can't be
    played.
    """
    id = find_part("env", env)
    table = Table(make_env(id, **options))
    seat = table.seats[0] if seat is None else seat
    if seat not in table.seats:
        raise UnknownNameError(f"seat of {env}:", seat, table.seats)
    graph = make_protocol(find_part("protocol", protocol), table.seats)
    others = _others(id, table.seats, seat, against)
    agents: dict[str, Agent] = {
        other: _agent(id, other, who, seed) for other, who in others.items()
    }
    agents[seat] = HumanAgent(lambda view, complaint: _ask(console, view, complaint))
    request = EpisodeRequest("0", "0", seed, {seat: "you", **others})
    told = "; ".join(f"{other} is {who}" for other, who in others.items())
    _say(console, f"{env}, seed {seed}. You are {seat}{'; ' if told else ''}{told}. Ctrl-D leaves.")
    # No asyncio.run: it would keep a Ctrl-C waiting for the line that is being read.
    loop = asyncio.new_event_loop()
    try:
        episode = loop.run_until_complete(
            walk(table, graph, agents, request, NoSampler(), PATIENCE)
        )
    finally:
        loop.close()
    if episode.outcome == "failed":
        raise EnvironmentFault(episode.reason)
    _show_end(console, table, seat, episode)
    return episode


def _others(env: str, seats: Sequence[str], own: str, against: Sequence[str]) -> dict[str, str]:
    """Who sits in the other seats: `SEAT=AGENT` in one, `AGENT` in those that are not named."""
    rest = "random"
    named: dict[str, str] = {}
    for text in against:
        seat, equals, agent = text.partition("=")
        if not equals or seat.lstrip().startswith("{"):
            rest = text
        elif seat not in seats or seat == own:
            raise UnknownNameError(
                f"seat in --against, of {env}:", seat, [each for each in seats if each != own]
            )
        else:
            named[seat] = agent
    return {seat: named.get(seat, rest) for seat in seats if seat != own}


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
