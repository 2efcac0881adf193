"""A person in a seat: asked until the answer can be read, so that a slip costs nothing."""

from __future__ import annotations

from collections.abc import Callable

from opentinker.agent import Answer, View
from opentinker.answer import parse_answer
from opentinker.types import Sampler


class HumanAgent:
    """Answers with what `ask` returns; `ask` gets the view and, after a slip, what was wrong.

    What `ask` raises where nobody is there any more (EOFError, KeyboardInterrupt) ends the episode.
    """

    def __init__(self, ask: Callable[[View, str], str]) -> None:
        self._ask = ask

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        complaint = ""
        while True:
            text = self._ask(view, complaint)
            reading = parse_answer(text, view.legal_actions)
            if reading.action is not None:
                return Answer(text)
            complaint = reading.reason
