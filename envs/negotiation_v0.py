"""Two seats share out things that each values differently, or part without (Lewis et al. 2017).

Seats `player_0` (first) and `player_1` see how many books, hats and balls there are and their own
value of each; all the things together are worth 10 to each of them. In turn a seat proposes,
`[take 1 0 2]` (it takes 1 book, 0 hats and 2 balls, the other the rest), accepts the other's
proposal, `[accept]`, or ends the talk, `[no deal]`. A deal pays each the value of its share over
10, so from 0 to 1; no deal pays 0. After `turns` turns there is no deal; in the last one nothing
new can be proposed. `reset(options={"counts": [2, 1, 2], "values": [[3, 4, 0], [1, 2, 3]]})` gives
the things and both seats' values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from opentinker.env import TextEnv
from opentinker.errors import ConfigError
from opentinker.options import whole

NAME = "negotiation_v0"
SEATS = ("player_0", "player_1")
THINGS = ("books", "hats", "balls")
ACCEPT, NO_DEAL = "accept", "no deal"
WORTH = 10
"""of all the things together, to each seat"""

Numbers = tuple[int, ...]


class Negotiation(TextEnv):
    name = NAME
    seats = SEATS
    words = (ACCEPT, NO_DEAL, "take 1 1 1", "take 1 0 1")

    def __init__(
        self, *, turns: int = 6, illegal: str | None = None, render_mode: str | None = None
    ) -> None:
        self.turns = whole(NAME, "turns", turns, 2)
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        if "counts" in options or "values" in options:
            self.counts, self.values = _given(options)
        else:
            self.counts, self.values = draw(self.rng)
        self.said: list[tuple[str, str]] = []
        self.offer: Numbers | None = None
        self.outcome = ""

    def describe(self, seat: str) -> str:
        text = f"Share out: {_list(self.counts)}. You are {seat}. To you "
        mine = self.values[SEATS.index(seat)]
        text += (
            f"{', '.join(f'{t} are worth {v}' for t, v in zip(THINGS, mine, strict=True))} each."
        )
        text += "".join(f"\n{'You' if who == seat else who}: {what}" for who, what in self.said)
        if self.outcome:
            return f"{text}\n{self.outcome}"
        left = self.turns - len(self.said)
        now = [f"[{ACCEPT}]"] if self.offer is not None else []
        if left > 1:
            some = " ".join(str(count // 2) for count in self.counts)
            now.append(f"what you take of {', '.join(THINGS)}, as [take {some}]")
        return f"{text}\nTurns left: {left}. Answer {', or '.join([*now, f'[{NO_DEAL}]'])}."

    def legal(self, seat: str) -> Sequence[str]:
        accept = [ACCEPT] if self.offer is not None else []
        takes = product(*(range(count + 1) for count in self.counts))
        proposals = [f"take {' '.join(map(str, take))}" for take in takes]
        last = self.turns - len(self.said) == 1
        return [*accept, *([] if last else proposals), NO_DEAL]

    def play(self, seat: str, action: str) -> None:
        self.said.append((seat, action))
        if action == ACCEPT:
            assert self.offer is not None
            mine = tuple(n - k for n, k in zip(self.counts, self.offer, strict=True))
            other = SEATS[1 - SEATS.index(seat)]
            self.outcome = f"A deal: {seat} has {_list(mine)}, {other} {_list(self.offer)}."
            for who, share in ((seat, mine), (other, self.offer)):
                self.reward(who, self.worth(who, share))
            self.finish()
        elif action == NO_DEAL or len(self.said) == self.turns:
            self.outcome = "There is no deal."
            self.finish()
        else:
            self.offer = tuple(map(int, action.split()[1:]))

    def worth(self, seat: str, share: Sequence[int]) -> float:
        """What `share` pays `seat`."""
        mine = self.values[SEATS.index(seat)]
        return sum(v * n for v, n in zip(mine, share, strict=True)) / WORTH


def env(**options: Any) -> Negotiation:
    return Negotiation(**options)


def draw(rng: np.random.Generator) -> tuple[Numbers, tuple[Numbers, Numbers]]:
    """1 to 3 of each thing, and two different ways of valuing all of them at 10."""
    while True:
        counts = tuple(rng.integers(1, 4, len(THINGS)).tolist())
        ways = valuations(counts)
        if len(ways) >= 2:
            one, two = rng.choice(len(ways), 2, replace=False)
            return counts, (ways[one], ways[two])


def valuations(counts: Numbers) -> list[Numbers]:
    """All ways to give each thing a whole value so that everything is worth 10."""
    ranges = [range(WORTH // count + 1) for count in counts]
    return [way for way in product(*ranges) if _total(counts, way) == WORTH]


def _total(counts: Sequence[int], values: Sequence[int]) -> int:
    return sum(count * value for count, value in zip(counts, values, strict=True))


def _list(counts: Sequence[int]) -> str:
    return ", ".join(f"{thing} {count}" for count, thing in zip(counts, THINGS, strict=True))


def _given(options: Mapping[str, Any]) -> tuple[Numbers, tuple[Numbers, Numbers]]:
    counts, values = options.get("counts"), options.get("values")
    try:
        counts, (one, two) = tuple(counts or ()), map(tuple, values or ())
        right = len(counts) == len(THINGS) and all(1 <= count <= 9 for count in counts)
        if right and one in valuations(counts) and two in valuations(counts):
            return counts, (one, two)
    except (TypeError, ValueError):
        pass
    raise ConfigError(
        f"{NAME}: counts {options.get('counts')!r} and values {values!r}; allowed: three counts of "
        f"1 to 9, and for each seat three values by which all the things are worth {WORTH}"
    )
