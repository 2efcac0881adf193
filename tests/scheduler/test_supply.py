"""Episodes played ahead of a learner that is slow or fast: how old they may be, and used once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from opentinker.scheduler.supply import Supply
from opentinker.types import Episode, EpisodeRequest

STEPS = 8
Requests = Callable[[int], list[EpisodeRequest]]


class World:
    """Batches that end when the test says so, each episode marked with the version at its start."""

    def __init__(self, max_staleness: int) -> None:
        self.version = 0
        self.started: list[int] = []
        self.most = 0
        self.gates: dict[int, asyncio.Event] = {b: asyncio.Event() for b in range(1, STEPS + 1)}
        self.taken = 0
        self.supply = Supply(self.play, self.requests, max_staleness, 1, STEPS)

    def requests(self, step: int) -> list[EpisodeRequest]:
        return [EpisodeRequest(f"{step}-{i}", f"{step}", step, {}) for i in range(3)]

    async def play(self, requests: list[EpisodeRequest]) -> list[Episode]:
        step, version = requests[0].seed, self.version
        self.started.append(step)
        self.most = max(self.most, len(self.started) - self.taken)
        await self.gates[step].wait()
        return [Episode(r, "env", "p", (), {"version": version}, "finished") for r in requests]

    def finish(self, *steps: int) -> None:
        for step in steps:
            self.gates[step].set()

    async def update(self, step: int) -> list[Episode]:
        """Train on the batch of `step`: version `step` is then published."""
        episodes = await asyncio.wait_for(self.supply.take(step), 5)
        self.taken += 1
        await asyncio.sleep(0.001)  # while the learner learns, what was started begins
        self.version = step
        self.supply.published(step)
        await asyncio.sleep(0.001)
        return episodes


def _ages(max_staleness: int, *, fast_learner: bool) -> tuple[World, list[int]]:
    async def train() -> tuple[World, list[int]]:
        world = World(max_staleness)
        ages, seen = [], set()
        if not fast_learner:
            world.finish(*world.gates)  # whatever is started is there at once
        for step in range(1, STEPS + 1):
            if fast_learner:  # the learner waits for each batch
                asyncio.get_running_loop().call_later(0.005, world.finish, step)
            episodes = await world.update(step)
            ids = {episode.request.id for episode in episodes}
            assert len(ids) == 3 and not ids & seen
            seen |= ids
            ages += [step - 1 - int(episode.returns["version"]) for episode in episodes]
        assert len(seen) == 3 * STEPS
        return world, ages

    return asyncio.run(train())


def test_without_staleness_nothing_is_played_before_the_last_version_is_there() -> None:
    for fast in (True, False):
        world, ages = _ages(0, fast_learner=fast)
        assert set(ages) == {0} and world.most == 1


@pytest.mark.parametrize("bound", [1, 2, 3])
@pytest.mark.parametrize("fast", [True, False])
def test_what_is_played_ahead_is_never_older_than_the_bound_and_reaches_it(
    bound: int, fast: bool
) -> None:
    world, ages = _ages(bound, fast_learner=fast)
    assert max(ages) == bound and min(ages) == 0
    assert world.most <= bound + 1  # batches that are played or wait: the buffer is bounded
    assert world.started == list(range(1, STEPS + 1))


def test_a_resumed_supply_plays_the_steps_that_are_left_and_none_from_before() -> None:
    async def train(requests: Requests) -> list[str]:
        world = World(1)
        world.finish(*world.gates)
        world.supply = Supply(world.play, requests, 1, 7, STEPS)
        found = [episode for step in (7, 8) for episode in await world.update(step)]
        return [episode.request.id for episode in found]

    world = World(1)
    ids = asyncio.run(train(world.requests))
    assert ids == ["7-0", "7-1", "7-2", "8-0", "8-1", "8-2"]
    with pytest.raises(ValueError, match="episode '6-0' of batch 7 does not come after '6-2'"):
        asyncio.run(train(lambda step: world.requests(min(step, 6))))


def test_the_next_batch_is_played_while_the_learner_still_learns() -> None:
    async def watch() -> list[int]:
        world = World(1)
        world.finish(1)
        await asyncio.wait_for(world.supply.take(1), 5)
        await asyncio.sleep(0.001)
        world.supply.close()
        return world.started

    assert asyncio.run(watch()) == [1, 2]


def test_what_playing_raises_comes_to_the_one_who_takes() -> None:
    async def fail(requests: list[EpisodeRequest]) -> list[Episode]:
        raise ConnectionError("the engine is gone")

    async def take() -> None:
        supply = Supply(fail, World(0).requests, 2, 1, 3)
        try:
            await supply.take(1)
        finally:
            supply.close()

    with pytest.raises(ConnectionError, match="the engine is gone"):
        asyncio.run(take())


def test_a_batch_played_ahead_is_timed_by_its_play_not_by_the_wait_for_it() -> None:
    async def train() -> float:
        world = World(max_staleness=1)
        world.supply.published(0)
        await asyncio.sleep(0.05)
        world.finish(1)
        await world.supply.take(1)
        world.supply.close()
        return world.supply.seconds

    assert asyncio.run(train()) >= 0.05
