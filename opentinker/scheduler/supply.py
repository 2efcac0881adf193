"""Batches of episodes in the order of the updates that train on them, played ahead if allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from opentinker.experience.buffer import Buffer
from opentinker.scheduler.evaluate import Play
from opentinker.types import Episode, EpisodeRequest


class Supply:
    """Plays the batch of each step; up to `max_staleness` batches ahead of the one asked for.

    The batch of step b is started when version b - 1 - `max_staleness` is published, so that none
    of its tokens can be older than the bound when it is trained on. With 0 that is when it is
    asked for. All started batches are in flight at once.
    """

    def __init__(
        self,
        play: Play,
        requests: Callable[[int], list[EpisodeRequest]],
        max_staleness: int,
        first: int,
        last: int,
    ) -> None:
        self._play = play
        self._requests = requests
        newest = requests(first - 1)[-1].id if first > 1 else ""
        self._buffer = Buffer(max_staleness, first, newest)
        self._last = last
        self._tasks: dict[int, asyncio.Task[tuple[list[Episode], float]]] = {}
        self.seconds = 0.0
        """how long the batch taken last was in play, waited for or not"""

    async def take(self, step: int) -> list[Episode]:
        """The episodes of `step`, once; raises what playing them raised."""
        self.published(step - 1)
        episodes, self.seconds = await self._tasks.pop(step)
        self._buffer.add(step, episodes)
        return self._buffer.take(step)

    def published(self, version: int) -> None:
        """The weights of step `version` are served: start what may be started."""
        while self._buffer.may_start(version) and self._buffer.started < self._last:
            requests = self._requests(self._buffer.started + 1)
            step = self._buffer.start([request.id for request in requests])
            self._tasks[step] = asyncio.create_task(self._timed(requests))

    async def _timed(self, requests: list[EpisodeRequest]) -> tuple[list[Episode], float]:
        began = perf_counter()
        episodes = await self._play(requests)
        return episodes, perf_counter() - began

    def close(self) -> None:
        """Give up what is being played."""
        for task in self._tasks.values():
            task.cancel()
