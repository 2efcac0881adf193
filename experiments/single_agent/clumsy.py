"""A teacher that uses a calculator half-heartedly: it shows what can be said, not what pays.

Half of the time it works the sum out with the tool, and half of the time it answers what the tool
said; else it answers any number.
"""

from __future__ import annotations

import random

from opentinker.agent import Agent, Answer, View
from opentinker.types import Sampler


class Clumsy:
    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        lines = view.observation.splitlines()
        told = [line.rpartition(" -> ")[2] for line in lines if " -> " in line]
        if self._generator.random() < 0.5:
            if told:
                return Answer(f"[{told[-1]}]")
            asked = lines[0].removeprefix("What is ").removesuffix("?")
            return Answer(f"<calculator>{asked}</calculator>")
        return Answer(f"[{self._generator.randint(0, 18)}]")


def make(*, seat: str, seed: int) -> Agent:
    return Clumsy(seed)
