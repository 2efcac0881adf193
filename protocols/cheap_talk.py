"""Words that bind nobody, before the moves: cheap talk (Crawford and Sobel 1982).

Fits every env; made for games such as `negotiation_v0`, `public_goods_v0` or a dilemma.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentinker.options import one_of, whole
from opentinker.options import prompts as templates
from opentinker.protocol import ALL, CURRENT, Protocol, Stage, in_order, numbered

PROMPTS = {
    "talk": "{heard}\n{observation}\nDon't move yet: say something to the others, in one sentence.",
    "move": "{heard}\n{observation}",
}


def build(
    seats: tuple[str, ...],
    *,
    rounds: int = 1,
    order: str = "simultaneous",
    every: str = "move",
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """`rounds` rounds of talk before each move, or with `every = "game"` before the first only.

    `order` is "simultaneous" (nobody hears the words of the same round) or "turns".
    """
    rounds = whole("cheap_talk", "rounds", rounds, 1)
    told = templates("cheap_talk", PROMPTS, prompts)
    once = one_of("cheap_talk", "every", every, ("move", "game")) == "game"
    turns = one_of("cheap_talk", "order", order, ("simultaneous", "turns")) == "turns"
    groups = [(f"_{seat}", seat) for seat in seats] if turns else [("", ALL)]
    stages = [
        Stage(f"{name}{tail}", (seat,), "speak", told["talk"], window, trainable)
        for name in numbered("talk", rounds)
        for tail, seat in groups
    ]
    stages.append(Stage("move", (CURRENT,), "move", told["move"], window, trainable))
    edges = in_order(stages, "move" if once else stages[0].name)
    return Protocol.of("cheap_talk", seats, stages, edges)
