"""Propose, criticize, revise: the last revision is the move (Madaan et al. 2023).

Fits envs in which one seat decides: of one seat, who then criticizes itself, or `hidden_profile_v0`
with a captain.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentinker.options import one_of, whole
from opentinker.options import prompts as templates
from opentinker.protocol import CURRENT, Protocol, Stage, in_order, numbered

PROMPTS = {
    "propose": "{heard}\n{observation}\nDon't decide yet: propose what to answer, and why.",
    "critique": "{heard}\n{observation}\nDon't decide yet: what is wrong with the last proposal?",
    "revise": "{heard}\n{observation}\nDon't decide yet: mend the proposal.",
    "move": "{heard}\n{observation}\nNow decide.",
}


def build(
    seats: tuple[str, ...],
    *,
    proposer: str | None = None,
    critic: str | None = None,
    reviser: str | None = None,
    rounds: int = 1,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """A proposal, then `rounds` times a critique and a revision, of which the last is the move.

    By default proposer, critic and reviser are the first three seats; of two, the first proposes
    and revises; one does all. `reviser` may be "@current". After the move all begins again, until
    the env ends.
    """
    rounds = whole("chain", "rounds", rounds, 1)
    told = templates("chain", PROMPTS, prompts)
    first, second, third = [*seats, *seats, *seats][:3]
    proposer = one_of("chain", "proposer", proposer or first, seats)
    critic = one_of("chain", "critic", critic or second, seats)
    reviser = one_of("chain", "reviser", reviser or third, (*seats, CURRENT))
    stages = [Stage("propose", (proposer,), "speak", told["propose"], window, trainable)]
    for number in range(rounds):
        name = numbered("critique", rounds)[number]
        stages.append(Stage(name, (critic,), "speak", told["critique"], window, trainable))
        name = numbered("revise", rounds)[number]
        stages.append(Stage(name, (reviser,), "speak", told["revise"], window, trainable))
    last = stages.pop().name
    stages.append(Stage(last, (reviser,), "move", told["move"], window, trainable))
    return Protocol.of("chain", seats, stages, in_order(stages, "propose"))
