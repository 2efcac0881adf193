"""Work with tools for some turns, then answer: the turn loop of a seat that may call tools.

Fits every env; made for those with tools (`arithmetic_v0`, `tasks_v0`), which hear the calls, show
the results, and end with the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentinker.options import prompts as templates
from opentinker.options import whole
from opentinker.protocol import CURRENT, Protocol, Stage

PROMPTS = {
    "work": "{observation}",
    "answer": "{observation}\nNo more tools now: give your answer.",
}


def build(
    seats: tuple[str, ...],
    *,
    turns: int = 4,
    prompts: Mapping[str, str] | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """At most `turns` turns of work, then turns that ask for an answer, until the env ends."""
    turns = whole("tool_loop", "turns", turns, 1)
    told = templates("tool_loop", PROMPTS, prompts)
    stages = [
        Stage("work", (CURRENT,), "move", told["work"], window, trainable, max_visits=turns),
        Stage("answer", (CURRENT,), "move", told["answer"], window, trainable),
    ]
    edges = [("work", "work", "always"), ("work", "answer", "*"), ("answer", "answer", "*")]
    return Protocol.of("tool_loop", seats, stages, edges)
