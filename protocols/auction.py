"""Seats bid for the floor: whoever bids most speaks, `rounds` times; then the env moves.

A bid is a whole number as a tag, `[3]`, or alone; all bid at once and the bids are then told. Of
equal bids the seat that the env lists first wins. When nobody bids the talk is over. Bids are words
and cost nothing in the env. Fits every env.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from opentinker.options import prompts as templates
from opentinker.options import whole
from opentinker.protocol import (
    ALL,
    CURRENT,
    Protocol,
    Stage,
    WalkState,
    register_predicate_family,
)
from opentinker.walk import Predicate

PROMPTS = {
    "bid": "{heard}\n{observation}\nDon't decide yet: how much do you want to speak? "
    "Bid [0] to [9].",
    "speak": "{heard}\n{observation}\nYou have the floor: speak to all, in one or two sentences.",
    "move": "{heard}\n{observation}",
}

_TAG = re.compile(r"\[\s*(\d{1,9})\s*\]")


def build(
    seats: tuple[str, ...],
    *,
    rounds: int = 3,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """`rounds` auctions of the floor in all, then moves until the env ends."""
    rounds = whole("auction", "rounds", rounds, 1)
    told = templates("auction", PROMPTS, prompts)
    stages = [
        Stage("bid", (ALL,), "speak", told["bid"], window, trainable, max_visits=rounds),
        Stage("move", (CURRENT,), "move", told["move"], window, trainable),
    ]
    edges = [("bid", "move", "*"), ("move", "move", "*")]
    for seat in seats:
        name = f"speak_{seat}"
        stages.append(Stage(name, (seat,), "speak", told["speak"], window, trainable))
        edges.append(("bid", name, f"bids_most({seat})"))
        edges += [(name, "bid", "always"), (name, "move", "*")]
    return Protocol.of("auction", seats, stages, edges)


def bids_most(seat: str) -> Predicate:
    """The newest bid of `seat` is the highest, the first of the highest if there are several."""

    def holds(state: WalkState) -> bool:
        bids = _bids(state)
        return bool(bids) and max(bids, key=bids.__getitem__) == seat

    return holds


register_predicate_family("bids_most", bids_most)


def _bids(state: WalkState) -> dict[str, int]:
    """The bids of the auction that was just held, in the order of the seats."""
    bids: dict[str, int] = {}
    for message in reversed(state.messages):
        if message.stage != "bid" or message.speaker in bids:
            break
        bids[message.speaker] = _bid(message.text)
    return {seat: bid for seat, bid in reversed(bids.items()) if bid > 0}


def _bid(text: str) -> int:
    """The number bid, 0 if there is none: the first tag, or the whole text."""
    found = _TAG.search(text) or _TAG.fullmatch(f"[{text}]")
    return int(found[1]) if found else 0
