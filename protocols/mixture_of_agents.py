"""Proposers answer in layers, each hearing the last; an aggregator moves (Wang et al. 2024).

Fits envs in which one seat decides: `hidden_profile_v0` with a captain, any turn-based env with
`aggregator = "@current"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentinker.options import one_of, some_of, whole
from opentinker.options import prompts as templates
from opentinker.protocol import CURRENT, Protocol, Stage, in_order, numbered

PROMPTS = {
    "propose": "{heard}\n{observation}\nDon't decide: say what you would answer, and why.",
    "aggregate": "{heard}\n{observation}\nMake the best of what the others proposed.",
}


def build(
    seats: tuple[str, ...],
    *,
    aggregator: str | None = None,
    proposers: Sequence[str] | None = None,
    layers: int = 1,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """`layers` times all `proposers` speak at once, then `aggregator` moves; then all over again.

    The aggregator is the first seat, unless named ("@current" is whoever the env selects); the
    proposers are all others, or all seats where the aggregator is "@current" or alone.
    """
    layers = whole("mixture_of_agents", "layers", layers, 1)
    told = templates("mixture_of_agents", PROMPTS, prompts)
    aggregator = aggregator or seats[0]
    one_of("mixture_of_agents", "aggregator", aggregator, (*seats, CURRENT))
    others = [seat for seat in seats if seat != aggregator] or seats
    asked = some_of(
        "mixture_of_agents", "proposers", others if proposers is None else proposers, seats
    )
    stages = [
        Stage(name, asked, "speak", told["propose"], window, trainable)
        for name in numbered("propose", layers)
    ]
    stages.append(Stage("aggregate", (aggregator,), "move", told["aggregate"], window, trainable))
    return Protocol.of("mixture_of_agents", seats, stages, in_order(stages, stages[0].name))
