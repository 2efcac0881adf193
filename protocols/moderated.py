"""A moderator picks who speaks next, by a seat's name as a tag, `[player_1]`, until it has done.

Fits every env; with `speeches = "move"` speeches are given to the env, as `debate_v0` wants them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from opentinker.errors import ProtocolError
from opentinker.options import one_of, whole
from opentinker.options import prompts as templates
from opentinker.protocol import CURRENT, Protocol, Stage, StageKind

PROMPTS = {
    "moderate": "{heard}\n{observation}\nYou lead the talk; don't decide yet. Who speaks next? ",
    "speak": "{heard}\n{observation}\nYou were given the floor: speak, in one or two sentences.",
    "move": "{heard}\n{observation}",
}


def build(
    seats: tuple[str, ...],
    *,
    moderator: str | None = None,
    turns: int = 4,
    speeches: str = "speak",
    mover: str = CURRENT,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """The moderator picks at most `turns` speakers in all; then `mover` moves until the env ends.

    The moderator is the seat named, else one called `moderator` or `judge`, else the first; it
    does not pick itself. The built-in prompt ends with the names to choose from.
    """
    turns = whole("moderated", "turns", turns, 1)
    kind = one_of("moderated", "speeches", speeches, ("speak", "move"))
    one_of("moderated", "mover", mover, (*seats, CURRENT))
    usual = [seat for seat in ("moderator", "judge", seats[0]) if seat in seats]
    chair = one_of("moderated", "moderator", moderator or usual[0], seats)
    speakers = [seat for seat in seats if seat != chair]
    if not speakers:
        raise ProtocolError(f"protocol 'moderated' needs two seats; the env has {', '.join(seats)}")
    names = f"{' '.join(f'[{seat}]' for seat in speakers)}, or [nobody]."
    told = templates("moderated", PROMPTS | {"moderate": PROMPTS["moderate"] + names}, prompts)
    stages = [
        Stage("moderate", (chair,), "speak", told["moderate"], window, trainable, max_visits=turns),
        Stage("move", (mover,), "move", told["move"], window, trainable),
    ]
    edges = [("moderate", "move", "*"), ("move", "move", "*")]
    for seat in speakers:
        name = f"speak_{seat}"
        stages.append(Stage(name, (seat,), cast(StageKind, kind), told["speak"], window, trainable))
        edges.append(("moderate", name, f"named({seat})"))
        edges += [(name, "moderate", "always"), (name, "move", "*")]
    return Protocol.of("moderated", seats, stages, edges)
