"""What the walker costs a turn, the env's and the agent's own time left out.

    OMP_NUM_THREADS=1 python experiments/benchmarks/walker_overhead.py

Two seats take turns in an env that only counts, and an agent that says the same word after giving
way to the other episodes once, as one does that waits for an engine. All episodes of a row are in
flight at once. Each is played twice, side by side: by `walk`, and by a bare loop of the same calls
of env and agent; what a turn costs the walker is the difference. Median of the repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pettingzoo import AECEnv
from rich.console import Console
from rich.table import Table as Rows

from opentinker.agent import Answer, View
from opentinker.protocols.follow_env import build
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import walk
from opentinker.rollout.worker import NoSampler, collect_seldom
from opentinker.types import EpisodeRequest, Sampler

BOUND = 60.0
"""Microseconds a turn."""

TURNS = 20
SEATS: tuple[str, ...] = ("player_0", "player_1")
SAID = Answer("go")
VIEW = View(SEATS[0], "move", "your move", "your move", ("go", "stop"))
REQUEST = EpisodeRequest("0", "0", 0, dict.fromkeys(SEATS, "instant"))


class Counting(AECEnv[str, str, str]):
    """The least that keeps PettingZoo's contract: `TURNS` moves, alternately, then 1 to -1."""

    metadata = {"name": "counting_v0"}  # noqa: RUF012 - as PettingZoo has it
    possible_agents: list[str] = list(SEATS)  # noqa: RUF012

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents = list(SEATS)
        self.moves = 0
        self.agent_selection = SEATS[0]
        self.rewards = dict.fromkeys(SEATS, 0.0)
        self.terminations = dict.fromkeys(SEATS, False)
        self.truncations = dict.fromkeys(SEATS, False)
        self.infos: dict[str, dict[str, Any]] = {
            seat: {"legal_actions": ["go", "stop"], "action": "go"} for seat in SEATS
        }

    def observe(self, agent: str) -> str:
        return "your move"

    def step(self, action: str | None) -> None:
        if action is None:
            self.agents.remove(self.agent_selection)
            self.agent_selection = self.agents[0] if self.agents else ""
            return
        self.moves += 1
        self.agent_selection = SEATS[self.moves % 2]
        if self.moves == TURNS:
            self.rewards = {SEATS[0]: 1.0, SEATS[1]: -1.0}
            self.terminations = dict.fromkeys(SEATS, True)


class Instant:
    """Gives way once, and says its word."""

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        await asyncio.sleep(0)
        return SAID


async def bare(env: Counting, agent: Instant) -> None:
    """The calls that any walker has to make."""
    env.reset(seed=0, options=None)
    while env.moves < TURNS:
        seat = env.agent_selection
        env.observe(seat)
        answer = await agent.answer(VIEW, NoSampler())
        env.step(answer.text)
    while env.agents:
        env.step(None)


def seconds(play: Callable[[int], Awaitable[object]], episodes: int) -> float:
    """How long `episodes` take, all begun at once."""

    async def all_of_them() -> float:
        begin = time.perf_counter()
        kept = await asyncio.gather(*(play(number) for number in range(episodes)))
        spent = time.perf_counter() - begin
        assert len(kept) == episodes
        return spent

    return asyncio.run(all_of_them())


def measure(episodes: int, repeats: int) -> tuple[list[float], list[float]]:
    """Microseconds a turn, of the walker without the bare loop and of the bare loop, sorted."""
    tables = [Table(Counting()) for _ in range(episodes)]
    envs = [Counting() for _ in range(episodes)]
    agent, protocol, sampler = Instant(), build(SEATS), NoSampler()
    agents = dict.fromkeys(SEATS, agent)

    def walked(number: int) -> Awaitable[object]:
        return walk(tables[number], protocol, agents, REQUEST, sampler)

    def alone(number: int) -> Awaitable[object]:
        return bare(envs[number], agent)

    unit = 1e6 / (episodes * TURNS)
    seconds(walked, min(episodes, 100))
    found = [(seconds(walked, episodes), seconds(alone, episodes)) for _ in range(repeats)]
    return (
        sorted(unit * (whole - rest) for whole, rest in found),
        sorted(unit * rest for _, rest in found),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200_000, help="played in all, for each row")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[10, 100, 1_000, 10_000])
    given = parser.parse_args()
    collect_seldom()  # as the processes do that walk episodes
    table = Rows("in flight", "walker", "least", "bare loop", f"within {BOUND:g} us")
    for episodes in given.in_flight:
        repeats = min(201, max(5, given.turns // (episodes * TURNS)))
        mine, rest = measure(episodes, repeats)
        median = statistics.median(mine)
        row = [f"{us:.1f} us" for us in (median, mine[0], statistics.median(rest))]
        table.add_row(f"{episodes:,}", *row, "yes" if median <= BOUND else "NO")
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    Console().print(table, f"a turn, median; {load}")


if __name__ == "__main__":
    main()
