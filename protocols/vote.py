"""All vote at once, before anybody knows another's vote; then the mover acts on the votes told.

Fits every env. (Where the votes are themselves the moves, as in `hidden_profile_v0`, `simultaneous`
asks for them without this round.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentinker.options import one_of, some_of
from opentinker.options import prompts as templates
from opentinker.protocol import CURRENT, Protocol, Stage, in_order

PROMPTS = {
    "ballot": "{heard}\n{observation}\nThis is a vote on what to do: answer as you think best.",
    "move": "The votes are:\n{heard}\n{observation}\nDo what most voted for.",
}


def build(
    seats: tuple[str, ...],
    *,
    voters: Sequence[str] | None = None,
    mover: str = CURRENT,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """Before each move all `voters` (by default all seats) vote; then `mover` moves."""
    told = templates("vote", PROMPTS, prompts)
    asked = some_of("vote", "voters", seats if voters is None else voters, seats)
    one_of("vote", "mover", mover, (*seats, CURRENT))
    stages = [
        Stage("ballot", asked, "speak", told["ballot"], window, trainable),
        Stage("move", (mover,), "move", told["move"], window, trainable),
    ]
    return Protocol.of("vote", seats, stages, in_order(stages, "ballot"))
