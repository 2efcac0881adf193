"""The contract of a protocol: who is asked next, and who hears whom.

Parts: a flow of stages (`opentinker.flow`), predicates over the state of a walk
(`opentinker.walk`), and an audience graph over seats. `Protocol` answers the walker's questions
from tables that are made once, so that a turn costs no graph algorithm.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import networkx as nx

from opentinker.errors import ProtocolError
from opentinker.flow import (
    ALL,
    CURRENT,
    END,
    EnvFacts,
    Stage,
    StageKind,
    check_flow,
    check_seat,
    edges_from,
    in_order,
    make_flow,
    numbered,
    stages_of,
)
from opentinker.walk import (
    Predicate,
    WalkState,
    find_predicate,
    predicate_names,
    register_predicate,
    register_predicate_family,
)

__all__ = [
    "ALL",
    "CURRENT",
    "END",
    "EnvFacts",
    "Protocol",
    "Stage",
    "StageKind",
    "WalkState",
    "audience_over",
    "in_order",
    "numbered",
    "predicate_names",
    "register_predicate",
    "register_predicate_family",
]


@dataclass(frozen=True, slots=True)
class _Exits:
    """The edges of one stage by priority: `(holds, target, max_visits, moves)`."""

    conditional: tuple[tuple[Predicate, str, int | None, bool], ...]
    default: str
    default_limit: int | None


@dataclass(frozen=True, eq=False)
class Protocol:
    """A flow of stages from `start`, and who hears whom; neither graph may change after it is made.

    `seats` are those it was built for. An edge `a -> b` of `audience` lets seat b hear what seat a
    says; without an audience graph everybody hears everybody else.
    """

    name: str
    seats: tuple[str, ...]
    flow: nx.MultiDiGraph
    start: str
    audience: nx.DiGraph | None = None

    @classmethod
    def of(
        cls,
        name: str,
        seats: Sequence[str],
        stages: Iterable[Stage],
        edges: Iterable[Sequence[Any]],
        *,
        start: str | None = None,
        audience: nx.DiGraph | None = None,
    ) -> Protocol:
        """From stages and edges as `make_flow` takes them; starts at the first stage."""
        stages = tuple(stages)
        if not stages:
            raise ProtocolError(f"protocol {name!r} has no stages")
        first = stages[0].name if start is None else start
        return cls(name, tuple(seats), make_flow(stages, edges), first, audience)

    @cached_property
    def stages(self) -> Mapping[str, Stage]:
        """The stages by name."""
        return stages_of(self.flow)

    def stage(self, name: str) -> Stage:
        """The stage called `name`; KeyError if there is none."""
        return self.stages[name]

    def next(self, stage: str, state: WalkState) -> str:
        """The stage that follows `stage`, or `END`.

        Conditional edges are asked by priority, then the default edge is taken. An edge into a
        stage whose `max_visits` is used up is closed. Once the env is done, so are edges into
        `move` stages and default edges: only an edge that asks (`env_done`) can lead on, to words
        after the end. When everything is closed the walk ends.
        """
        exits = self._exits[stage]
        for holds, target, limit, moves in exits.conditional:
            if limit is not None and state.visits.get(target, 0) >= limit:
                continue
            if not (moves and state.env_done) and holds(state):
                return target
        limit = exits.default_limit
        closed = limit is not None and state.visits.get(exits.default, 0) >= limit
        return END if closed or state.env_done else exits.default

    def asked(
        self, stage: Stage, current: Collection[str], agents: Collection[str]
    ) -> tuple[str, ...]:
        """The seats that `stage` asks, each once, finished ones (not in `agents`) left out.

        `current` are the seats that the env selects. Raises `ProtocolError` when a `move` stage
        asks a living seat that the env does not select.
        """
        named: dict[str, None] = {}
        for seat in stage.seats:
            named.update(dict.fromkeys({CURRENT: current, ALL: agents}.get(seat, (seat,))))
        seats = tuple(seat for seat in named if seat in agents)
        if stage.kind == "move":
            for seat in seats:
                if seat not in current:
                    raise ProtocolError(
                        f"stage {stage.name!r} of protocol {self.name!r} asks {seat!r} to move, "
                        f"but the env selects {', '.join(map(repr, current)) or 'nobody'}"
                    )
        return seats

    def hears(self, speaker: str) -> frozenset[str]:
        """The seats that hear `speaker`, who is not one of them."""
        return self._hearers[speaker]

    def check(self, facts: EnvFacts) -> None:
        """Raise `ProtocolError` if the graphs can't be walked over an env with these `facts`."""
        check_flow(self.flow, self.start, facts)
        if self.audience is not None:
            for seat in self.audience.nodes:
                check_seat(seat, f"the audience of protocol {self.name!r}", facts)
        if set(self.seats) != set(facts.seats):
            raise ProtocolError(
                f"protocol {self.name!r} was built for seats {', '.join(self.seats)}; "
                f"the env has {', '.join(facts.seats)}"
            )

    def draw(self, format: Literal["mermaid", "dot"] = "mermaid") -> str:
        """Both graphs as text for Mermaid or Graphviz."""
        from opentinker.drawing import dot, mermaid

        if format not in ("mermaid", "dot"):
            raise ProtocolError(
                f"can't draw as {format!r}; allowed: mermaid, dot, or draw_png(path)"
            )
        return (mermaid if format == "mermaid" else dot)(self.flow, self.start, self.audience)

    def draw_png(self, path: str | Path) -> None:
        """Both graphs as an image in the file `path`."""
        from opentinker.drawing import png

        png(self.flow, self.start, self.audience, self.name, Path(path))

    def to_json(self) -> str:
        """All of the protocol as JSON; predicates by name."""
        edges = [
            [source, target, "*" if when is None else when, priority]
            for source in self.stages
            for target, when, priority in edges_from(self.flow, source)
        ]
        heard = None if self.audience is None else sorted(self.audience.edges)
        return json.dumps(
            {
                "name": self.name,
                "seats": self.seats,
                "start": self.start,
                "stages": [asdict(stage) for stage in self.stages.values()],
                "edges": edges,
                "audience": heard,
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> Protocol:
        """What `to_json` wrote; `ProtocolError` names a key that is missing or not known."""
        try:
            record = json.loads(text)
            stages = [Stage(**{**each, "seats": tuple(each["seats"])}) for each in record["stages"]]
            audience = None
            if record.get("audience") is not None:
                audience = nx.DiGraph()
                audience.add_nodes_from(record["seats"])
                audience.add_edges_from(record["audience"])
            return cls.of(
                record["name"],
                record["seats"],
                stages,
                record["edges"],
                start=record.get("start"),
                audience=audience,
            )
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ProtocolError(f"this is not a protocol's JSON: {error!r}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return Protocol, (self.name, self.seats, self.flow, self.start, self.audience)

    @cached_property
    def _exits(self) -> dict[str, _Exits]:
        table = {}
        for name in self.stages:
            edges = edges_from(self.flow, name)
            default = next((target for target, when, _ in edges if when is None), END)
            asked = tuple(
                (
                    find_predicate(when, f" on edge {name} -> {target}"),
                    target,
                    *self._target(target),
                )
                for target, when, _ in edges
                if when is not None
            )
            table[name] = _Exits(asked, default, self._target(default)[0])
        return table

    def _target(self, name: str) -> tuple[int | None, bool]:
        stage = self.stages.get(name)
        return (None, False) if stage is None else (stage.max_visits, stage.kind == "move")

    @cached_property
    def _hearers(self) -> dict[str, frozenset[str]]:
        graph = self.audience
        if graph is None:
            return {seat: frozenset(self.seats) - {seat} for seat in self.seats}
        return {
            seat: frozenset(graph.successors(seat) if seat in graph else ()) - {seat}
            for seat in self.seats
        }


def audience_over(seats: Sequence[str], graph: nx.Graph) -> nx.DiGraph:
    """The audience in which node i of any networkx generator's `graph` is the i-th seat.

    An undirected edge lets both hear each other; a directed one goes from speaker to hearer.
    """
    if graph.number_of_nodes() != len(seats):
        raise ProtocolError(
            f"the audience graph has {graph.number_of_nodes()} nodes for {len(seats)} seats: "
            f"{', '.join(seats)}"
        )
    return nx.relabel_nodes(nx.DiGraph(graph), dict(zip(graph.nodes, seats, strict=True)))
