"""Tells its own fact, and votes at random: what the base of the group is taught from."""

from __future__ import annotations

import random
import re

from opentinker.agent import Agent, Answer, View
from opentinker.types import Sampler


class Honest:
    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        told = re.findall(r"is (red|blue)", view.observation)
        colours = ["red", "blue"] if view.stage == "move" else told
        return Answer(f"[{self._generator.choice(colours)}]")


def make(*, seat: str, seed: int) -> Agent:
    return Honest(seed)
