"""Talk over a network: each seat is heard by its neighbours only, then all decide.

Fits envs whose seats decide at once (`debate_v0` without a judge, `hidden_profile_v0`,
`public_goods_v0`), and turn-based ones, where whoever is selected moves after the talk.
"""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx

from opentinker.errors import ConfigError
from opentinker.options import number, one_of, whole
from opentinker.options import prompts as templates
from opentinker.protocol import ALL, CURRENT, Protocol, Stage, audience_over, in_order, numbered

PROMPTS = {
    "talk": "{heard}\n{observation}\nDon't decide yet: tell your neighbours what you know.",
    "move": "{heard}\n{observation}",
}
TOPOLOGIES = ("complete", "ring", "star", "tree", "small_world", "random", "none")


def build(
    seats: tuple[str, ...],
    *,
    topology: str = "complete",
    rounds: int = 2,
    degree: int = 4,
    probability: float = 0.2,
    seed: int = 0,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """Before each move all seats speak at once, `rounds` times. See `network` for the others."""
    rounds = whole("gossip", "rounds", rounds, 1)
    told = templates("gossip", PROMPTS, prompts)
    stages = [
        Stage(name, (ALL,), "speak", told["talk"], window, trainable)
        for name in numbered("talk", rounds)
    ]
    stages.append(Stage("move", (CURRENT,), "move", told["move"], window, trainable))
    graph = network(topology, len(seats), degree=degree, probability=probability, seed=seed)
    edges = in_order(stages, stages[0].name)
    return Protocol.of("gossip", seats, stages, edges, audience=audience_over(seats, graph))


def network(
    topology: str, count: int, *, degree: int = 4, probability: float = 0.2, seed: int = 0
) -> nx.Graph:
    """A connected graph of `count` nodes, or with `none` one without edges: a control.

    `star` has the first seat in its middle; `tree` is binary, with the first seat as its root.
    `small_world` joins each seat to its `degree` nearest and moves each edge with `probability`
    (Watts and Strogatz 1998); `random` has each edge with `probability`. These two are drawn from
    `seed`, again until all are connected.
    """
    one_of("gossip", "topology", topology, TOPOLOGIES)
    chance = number("gossip", "probability", probability, 0.0, 1.0)
    whole("gossip", "seed", seed, 0)
    if topology == "none":
        return nx.empty_graph(count)
    if topology == "complete":
        return nx.complete_graph(count)
    if topology == "ring":
        return nx.cycle_graph(count)
    if topology == "star":
        return nx.star_graph(count - 1)
    if topology == "tree":
        return nx.full_rary_tree(2, count)
    if topology == "small_world":
        whole("gossip", "degree", degree, 2, count)
    for again in range(100):
        if topology == "small_world":
            graph = nx.watts_strogatz_graph(count, degree, chance, seed + again)
        else:
            graph = nx.gnp_random_graph(count, chance, seed + again)
        if nx.is_connected(graph):
            return graph
    raise ConfigError(
        f"gossip: no connected {topology} network of {count} seats was found in 100 tries; give a "
        f"larger probability than {probability:g}, or another topology"
    )
