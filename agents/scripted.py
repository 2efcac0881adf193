"""Says given lines, one a turn, and begins again after the last."""

from __future__ import annotations

from collections.abc import Sequence

from opentinker.agent import Agent, Answer, View
from opentinker.errors import ConfigError
from opentinker.types import Sampler


class ScriptedAgent:
    """Says `lines[k mod len(lines)]` in its turn k."""

    def __init__(self, lines: Sequence[str]) -> None:
        if isinstance(lines, str) or not lines or not all(isinstance(line, str) for line in lines):
            raise ConfigError(f"a scripted agent needs `lines`, a list of texts; given {lines!r}")
        self._lines = tuple(lines)
        self._turns = 0

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        line = self._lines[self._turns % len(self._lines)]
        self._turns += 1
        return Answer(line)


def make(*, lines: Sequence[str], seat: str, seed: int) -> Agent:
    return ScriptedAgent(lines)
