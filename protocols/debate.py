"""Openings, rebuttals, then a judge's verdict or a vote (Irving et al. 2018; Du et al. 2023).

Fits simultaneous envs in which silence is allowed (`debate_v0`, `hidden_profile_v0`); with
`speeches = "speak"` the speeches are only heard, so any env whose decision is one move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from opentinker.errors import ProtocolError
from opentinker.options import one_of, some_of, whole
from opentinker.options import prompts as templates
from opentinker.protocol import END, Protocol, Stage, StageKind, in_order, numbered

PROMPTS = {
    "opening": "{heard}\n{observation}\nOpen the debate, in one or two sentences.",
    "rebuttal": "{heard}\n{observation}\nReply to the others, in one or two sentences.",
    "verdict": "{heard}\n{observation}",
}


def build(
    seats: tuple[str, ...],
    *,
    judge: str | None = None,
    debaters: Sequence[str] | None = None,
    rounds: int = 1,
    order: str = "simultaneous",
    speeches: str | None = None,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """One opening each, `rounds` rebuttals each, then the verdict.

    `judge` is the seat that gives it; by default the seat called `judge`, and where there is none
    all debaters vote. `debaters` are all other seats, or those named. `order` is "simultaneous"
    (nobody hears the speeches of the same round) or "turns" (one after another, as listed).
    `speeches` are "move" (given to the env) or "speak" (only heard): by default "move" before a
    judge, "speak" before a vote, whose moves are the votes.
    """
    judge = "judge" if judge is None and "judge" in seats else judge
    if judge is not None:
        one_of("debate", "judge", judge, seats)
    others = [seat for seat in seats if seat != judge]
    speakers = (
        tuple(others) if debaters is None else some_of("debate", "debaters", debaters, others)
    )
    if not speakers:
        raise ProtocolError(f"protocol 'debate' has no debaters among {', '.join(seats)}")
    rounds = whole("debate", "rounds", rounds, 0)
    told = templates("debate", PROMPTS, prompts)
    kind = one_of("debate", "speeches", speeches or ("move" if judge else "speak"), _KINDS)
    at_once = one_of("debate", "order", order, ("simultaneous", "turns")) == "simultaneous"
    groups = [speakers] if at_once else [(seat,) for seat in speakers]
    stages: list[Stage] = []
    for number, name in enumerate(["opening", *numbered("rebuttal", rounds)][: rounds + 1]):
        for group in groups:
            title = name if at_once else f"{name}_{group[0]}"
            text = told["rebuttal" if number else "opening"]
            stages.append(Stage(title, group, cast(StageKind, kind), text, window, trainable))
    deciding = (judge,) if judge else speakers
    stages.append(Stage("verdict", deciding, "move", told["verdict"], window, trainable))
    return Protocol.of("debate", seats, stages, in_order(stages, END))


_KINDS = ("move", "speak")
