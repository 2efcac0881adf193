"""`check_protocol`: a graph that fits the env, that can be written down, and that can be walked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from opentinker.agent import Agent
from opentinker.agents.random import RandomAgent
from opentinker.errors import ConfigError
from opentinker.flow import EnvFacts
from opentinker.protocol import Protocol
from opentinker.registry import call_factory, protocol_builder
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import walk
from opentinker.rollout.worker import NoSampler
from opentinker.testing.envs import Env, maker
from opentinker.testing.words import told
from opentinker.types import EpisodeRequest


def check_protocol(
    protocol: str | Protocol | Callable[..., Any],
    env: str | Env | Callable[[], Env],
    **options: Any,
) -> None:
    """Check that a protocol, its builder or the one of that name with `options`, fits `env`.

    Its JSON must give it back, and a game of random answers is walked. Raises ConfigError in words;
    a ProtocolError, which is one, names the stage or edge.
    """
    make = maker(env)
    facts = EnvFacts.of(make())
    if not isinstance(protocol, Protocol):
        protocol = _build(protocol, facts.seats, options)
    protocol.check(facts)
    written = protocol.to_json()
    back = Protocol.from_json(written)
    back.check(facts)
    if back.to_json() != written:
        raise ConfigError(
            f"protocol {protocol.name!r} read back from its JSON is another: {back.to_json()} "
            f"instead of {written}"
        )
    table = Table(make())
    agents: dict[str, Agent] = {seat: RandomAgent(0) for seat in facts.seats}
    request = EpisodeRequest("0", "0", 0, dict.fromkeys(facts.seats, ""))
    with told(f"protocol {protocol.name!r}"):
        episode = asyncio.run(walk(table, protocol, agents, request, NoSampler()))
    if episode.outcome == "failed":
        raise ConfigError(
            f"a game of {table.name} by protocol {protocol.name!r} failed: {episode.reason}"
        )


def _build(builder: str | Callable[..., Any], seats: tuple[str, ...], options: Any) -> Protocol:
    """The protocol that a builder makes; what it raises is told."""
    name = builder if isinstance(builder, str) else getattr(builder, "__name__", str(builder))
    build = protocol_builder(builder) if isinstance(builder, str) else builder
    with told(f"protocol {name}"):
        made = call_factory("protocol", name, build, seats, **options)
    if not isinstance(made, Protocol):
        raise ConfigError(f"protocol {name} gave a {type(made).__name__}, not a Protocol")
    return made
