"""Plays uniformly among the legal actions."""

from __future__ import annotations

import random

from opentinker.agent import Agent, Answer, View
from opentinker.types import Sampler


class RandomAgent:
    """Names a legal action drawn uniformly, in brackets; says `...` where any text will do."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        if not view.legal_actions:
            return Answer("...")
        return Answer(f"[{self._generator.choice(view.legal_actions)}]")


def make(*, seat: str, seed: int) -> Agent:
    return RandomAgent(seed)
