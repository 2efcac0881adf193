"""A team confers before its captain moves; teams do not hear each other.

Fits every env: by default all seats are one team, and whoever the env selects is the captain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import networkx as nx

from opentinker.errors import ConfigError
from opentinker.options import one_of, some_of, whole
from opentinker.options import prompts as templates
from opentinker.protocol import ALL, CURRENT, Protocol, Stage, in_order, numbered

PROMPTS = {
    "confer": "{heard}\n{observation}\nDon't decide yet: confer with your team, in one sentence.",
    "move": "{heard}\n{observation}",
}


def build(
    seats: tuple[str, ...],
    *,
    captain: str = CURRENT,
    teams: Sequence[Sequence[str]] | None = None,
    rounds: int = 1,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """Before each move all seats speak at once, `rounds` times; then `captain` moves.

    `teams` are lists of seats, each seat in one: a seat is heard in its own team only.
    """
    rounds = whole("team_talk", "rounds", rounds, 1)
    told = templates("team_talk", PROMPTS, prompts)
    one_of("team_talk", "captain", captain, (*seats, CURRENT))
    stages = [
        Stage(name, (ALL,), "speak", told["confer"], window, trainable)
        for name in numbered("confer", rounds)
    ]
    stages.append(Stage("move", (captain,), "move", told["move"], window, trainable))
    edges = in_order(stages, stages[0].name)
    audience = None if teams is None else _apart(seats, teams)
    return Protocol.of("team_talk", seats, stages, edges, audience=audience)


def _apart(seats: tuple[str, ...], teams: Sequence[Sequence[str]]) -> nx.DiGraph:
    members = [seat for team in teams for seat in some_of("team_talk", "a team", team, seats)]
    if sorted(members) != sorted(seats):
        raise ConfigError(
            f"team_talk: teams is {[list(team) for team in teams]!r}; allowed: lists in which each "
            f"of {', '.join(seats)} stands once"
        )
    audience = nx.DiGraph()
    audience.add_nodes_from(seats)
    audience.add_edges_from(pair for team in teams for pair in permutations(team, 2))
    return audience
