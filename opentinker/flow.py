"""The flow graph of a protocol: stages, edges, and checks that a walk moves and can end.

A flow is a `networkx.MultiDiGraph` whose nodes carry `stage: Stage` and whose edges carry `when`
(the name of a predicate, None on the default edge) and `priority` (the lowest is asked first).
`END` is a node without a stage.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import networkx as nx
from pettingzoo import AECEnv, ParallelEnv

from opentinker.errors import ConfigError, ProtocolError
from opentinker.walk import find_predicate

END = "END"
CURRENT = "@current"
ALL = "@all"

StageKind = Literal["move", "speak"]
EnvKind = Literal["game", "conversation"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A node of the flow: the seats that are asked at once, and what their answers are.

    `seats` are names, `@current` (whoever the env selects) or `@all`. The answer to a `move` is the
    seat's action in the env; words of a `speak` stage are only heard. `prompt` is a template that
    the walker fills in before the observation; `window` is how many past turns of its own a seat
    sees (None is all). Answers given in a stage that is not `trainable` are context, never trained
    on. Once the stage was entered `max_visits` times, edges into it are closed.
    """

    name: str
    seats: tuple[str, ...]
    kind: StageKind
    prompt: str | None = None
    window: int | None = None
    trainable: bool = True
    max_visits: int | None = None


@dataclass(frozen=True, slots=True)
class EnvFacts:
    """What a protocol must know of an env to say whether it fits."""

    seats: tuple[str, ...]
    turn_based: bool
    kind: EnvKind = "game"

    @classmethod
    def of(cls, env: AECEnv | ParallelEnv) -> EnvFacts:
        """Read from the env itself; `metadata["kind"]` is "game" unless the env says otherwise."""
        if not isinstance(env, AECEnv | ParallelEnv):
            raise ConfigError(f"{env!r} is neither a PettingZoo AECEnv nor a ParallelEnv")
        kind = (env.metadata or {}).get("kind", "game")
        if kind not in get_args(EnvKind):
            allowed = ", ".join(get_args(EnvKind))
            raise ConfigError(f"metadata['kind'] of {env} is {kind!r}; allowed: {allowed}")
        return cls(tuple(env.possible_agents), isinstance(env, AECEnv), kind)


def make_flow(stages: Iterable[Stage], edges: Iterable[Sequence[Any]]) -> nx.MultiDiGraph:
    """The graph of `stages` and `edges`: `(source, target, "*")` or `(source, target, predicate)`.

    A predicate may be written `when:name`. Edges of a stage are asked in the order given, unless a
    fourth item is the priority (lower first).
    """
    flow = nx.MultiDiGraph()
    for stage in stages:
        if stage.name in flow:
            raise ProtocolError(f"two stages are named {stage.name!r}")
        flow.add_node(stage.name, stage=stage)
    for position, edge in enumerate(edges):
        if len(edge) not in (3, 4):
            raise ProtocolError(
                f"edge {edge!r} is not (source, target, '*' or predicate[, priority])"
            )
        source, target, when, *rest = edge
        name = None if when == "*" else str(when).removeprefix("when:")
        flow.add_edge(source, target, when=name, priority=rest[0] if rest else position)
    return flow


def in_order(stages: Sequence[Stage], then: str) -> list[tuple[str, str, str]]:
    """Default edges from each of `stages` to the next one, and from the last to `then`."""
    names = [stage.name for stage in stages]
    return [(one, two, "*") for one, two in zip(names, [*names[1:], then], strict=True)]


def numbered(name: str, count: int) -> list[str]:
    """Names of `count` stages alike: `name`, or `name_1` and so on if there are several."""
    return [name] if count == 1 else [f"{name}_{number}" for number in range(1, count + 1)]


def stages_of(flow: nx.MultiDiGraph) -> dict[str, Stage]:
    """The stages by name, in the order in which they were added."""
    return {str(name): data["stage"] for name, data in flow.nodes(data=True) if "stage" in data}


def edges_from(flow: nx.MultiDiGraph, stage: str) -> list[tuple[str, str | None, int]]:
    """The `(target, predicate or None, priority)` of a stage's edges, first to be asked first."""
    found = [
        (to, data["when"], data["priority"]) for _, to, data in flow.out_edges(stage, data=True)
    ]
    return sorted(found, key=lambda edge: edge[2])


def check_flow(flow: nx.MultiDiGraph, start: str, facts: EnvFacts) -> None:
    """Raise `ProtocolError` unless every walk from `start` over such an env moves and can end."""
    stages = stages_of(flow)
    for stage in stages.values():
        _check_stage(stage, facts)
    if start not in stages:
        raise ProtocolError(f"unknown start stage {start!r}; {_stages_are(stages)}")
    for source, target in flow.edges():
        if source == END:
            raise ProtocolError(f"edge {source} -> {target} leaves {END}, which is the end")
        for name in (source, target):
            if name != END and name not in stages:
                raise ProtocolError(
                    f"edge {source} -> {target} names an unknown stage {name!r}; "
                    + _stages_are(stages)
                )
    for name in stages:
        _check_edges(flow, name)
    reachable = {start} | nx.descendants(flow, start)
    for name in stages:
        if name not in reachable:
            raise ProtocolError(f"stage {name!r} cannot be reached from {start!r}")
    _check_ending(flow, stages)
    if facts.kind == "game" and all(stage.kind != "move" for stage in stages.values()):
        raise ProtocolError(
            "no stage of kind 'move' can be reached: a game in which nobody moves never ends"
        )


def _check_stage(stage: Stage, facts: EnvFacts) -> None:
    where = f"stage {stage.name!r}"
    if stage.name == END:
        raise ProtocolError(f"a stage can't be named {END}: that is the end")
    if stage.kind not in get_args(StageKind):
        raise ProtocolError(f"{where} has kind {stage.kind!r}; allowed: move, speak")
    if not stage.seats:
        raise ProtocolError(f"{where} asks no seats; name some, or use {CURRENT} or {ALL}")
    for seat in stage.seats:
        if seat not in (CURRENT, ALL):
            check_seat(seat, where, facts)
    if stage.max_visits is not None and stage.max_visits < 1:
        raise ProtocolError(f"{where} has max_visits {stage.max_visits}; it must be 1 or more")
    if stage.window is not None and stage.window < 0:
        raise ProtocolError(f"{where} has window {stage.window}; it must be 0 or more, or None")
    asked = set(facts.seats) if ALL in stage.seats else set(stage.seats)
    if facts.turn_based and stage.kind == "move" and len(asked) > 1:
        raise ProtocolError(
            f"{where} asks {', '.join(stage.seats)} to move at once, but the env is turn-based and "
            f"selects one seat at a time; use follow_env, or a stage whose only seat is {CURRENT}"
        )


def check_seat(seat: str, where: str, facts: EnvFacts) -> None:
    """Raise `ProtocolError` if the env has no such seat."""
    if seat not in facts.seats:
        near = difflib.get_close_matches(seat, facts.seats, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ProtocolError(
            f"unknown seat {seat!r} in {where}; the env has {', '.join(facts.seats)}{hint}"
        )


def _check_edges(flow: nx.MultiDiGraph, name: str) -> None:
    edges = edges_from(flow, name)
    for target, when, _ in edges:
        if when is not None:
            find_predicate(when, f" on edge {name} -> {target}")
    defaults = sum(when is None for _, when, _ in edges)
    if defaults == 0:
        raise ProtocolError(f"stage {name!r} has no default edge; give it one, marked '*'")
    if defaults > 1:
        count = "two" if defaults == 2 else str(defaults)
        raise ProtocolError(f"stage {name!r} has {count} default edges; it can have only one")


def _check_ending(flow: nx.MultiDiGraph, stages: Mapping[str, Stage]) -> None:
    """Refuse talk that, with all budgets used up, can neither end nor come to a move.

    Stages with a budget are then closed: a default edge into one is the end, a conditional one is
    gone. `env_done` leads nowhere from mere talk, because talk does not change the env.
    """
    lasting = {name for name, stage in stages.items() if stage.max_visits is None}
    ways = nx.DiGraph()
    for name in lasting:
        if stages[name].kind == "move":
            ways.add_edge(name, END)
        for target, when, _ in edges_from(flow, name):
            if when is None and target not in lasting:
                ways.add_edge(name, END)
            elif when != "env_done" and (target in lasting or target == END):
                ways.add_edge(name, target)
    ways.add_node(END)
    trapped = lasting - nx.ancestors(ways, END)
    if not trapped:
        return
    path = [next(name for name in stages if name in trapped)]
    while path[-1] not in path[:-1]:
        path.append(next(to for to, when, _ in edges_from(flow, path[-1]) if when is None))
    cycle = " -> ".join(path[path.index(path[-1]) :])
    raise ProtocolError(
        f"the cycle {cycle} never moves and has no exit or budget; "
        "give one of its stages max_visits, or an edge that leads out"
    )


def _stages_are(stages: Mapping[str, Stage]) -> str:
    return f"the stages are {', '.join(stages)}"
