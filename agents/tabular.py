"""Plays from a table: information state -> action -> probability, a solver's or a teacher's."""

from __future__ import annotations

import random
from collections.abc import Mapping

from opentinker.agent import Agent, Answer, View
from opentinker.errors import ConfigError
from opentinker.registry import load_object
from opentinker.types import Sampler

Table = Mapping[str, Mapping[str, float]]


class TabularAgent:
    """Draws a legal action from the row of the state that it is in.

    Raises `ConfigError` where the env names no information state, or the table lacks it.
    """

    def __init__(self, table: Table, seed: int) -> None:
        self._table = table
        self._generator = random.Random(seed)

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        row = self._table.get(view.infostate or "")
        if row is None:
            raise ConfigError(
                f"the table of seat {view.seat!r} has no row for the state {view.infostate!r}; "
                f"it has {', '.join(sorted(self._table))}"
            )
        actions = list(row)
        [action] = self._generator.choices(actions, weights=[row[a] for a in actions])
        return Answer(f"[{action}]")


def make(*, table: Table | str, seat: str, seed: int) -> Agent:
    """`table` is the mapping itself, or `"package.module:function"` that returns it."""
    rows = load_object(table)() if isinstance(table, str) else table
    if not isinstance(rows, Mapping):
        raise ConfigError(
            f"table {table!r} is a {type(rows).__name__}, not a mapping of states to rows"
        )
    return TabularAgent(rows, seed)
