"""`opentinker check`: what is wrong with a user's env, agent or protocol, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opentinker.commands.parts import Broken, Part, find_part, find_parts
from opentinker.registry import make_env
from opentinker.testing import check_agent, check_protocol, env_faults
from opentinker.testing.envs import faults

TRIED = ("kuhn_poker_v0", "rps_v2", "bandit_v0", "debate_v0")
"""The envs that a protocol is tried over unless one is named: turn-based, simultaneous, one seat,
a conversation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A part, or a name that is none; what is wrong with it, and what else is worth knowing."""

    what: str
    faults: tuple[str, ...]
    note: str = ""


def verdicts(name: str, env: str | None, options: Mapping[str, Any]) -> Iterator[Verdict]:
    """One a part that `name` is; `env` is what agents and protocols are tried in."""
    try:
        found = find_parts(name)
        env = None if env is None else find_part("env", env)
    except Broken as broken:
        yield Verdict(name, (str(broken),))
        return
    for part in found:
        yield _CHECKS[part.kind](part, env, options)


def _env(part: Part, env: str | None, options: Mapping[str, Any]) -> Verdict:
    found = env_faults(lambda: make_env(part.id, **options))
    return Verdict(f"env {part.id}", tuple(map(str, found)))


def _agent(part: Part, env: str | None, options: Mapping[str, Any]) -> Verdict:
    found = faults(lambda: check_agent(part.id, env=env, **options))
    note = f"in {env}" if env else "asked for [yes] or [no]; --env ENV tries it in a game"
    return Verdict(f"agent {part.id}", tuple(map(str, found)), note)


def _protocol(part: Part, env: str | None, options: Mapping[str, Any]) -> Verdict:
    what = f"protocol {part.id}"
    if env is not None:
        found = faults(lambda: check_protocol(part.id, env, **options))
        return Verdict(what, tuple(map(str, found)), f"over {env}")
    fits, wrong = [], []
    for tried in TRIED:
        [*found] = faults(lambda tried=tried: check_protocol(part.id, tried, **options))
        wrong += [f"over {tried}: {fault}" for fault in found]
        fits += [] if found else [tried]
    if fits:
        return Verdict(what, (), f"over {', '.join(fits)}")
    if len({fault.partition(": ")[2] for fault in wrong}) == 1:  # no matter of the env
        wrong = [wrong[0].partition(": ")[2]]
    return Verdict(what, tuple(wrong), "--env ENV tries it over that env alone")


_CHECKS = {"env": _env, "agent": _agent, "protocol": _protocol}
