"""The engine's thread, with a backend that does only what the test says."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from opentinker.errors import EngineError
from opentinker.inference.adapters import Adapter
from opentinker.inference.backend import Ticket
from opentinker.inference.engine import EngineFacts
from opentinker.inference.host import Host
from opentinker.inference.whole import Shapes
from opentinker.types import (
    AdapterSpec,
    AdapterWeights,
    Completion,
    FullWeights,
    PolicyVersion,
    SampleRequest,
    SamplingParams,
)

FACTS = EngineFacts("fake", "fake", 100, 50, (1,), 2, 8, "float32")
WEIGHTS = AdapterWeights(
    AdapterSpec(2, 2.0, ("q",)),
    {
        "q.lora_A.weight": np.ones((2, 4), np.float32),
        "q.lora_B.weight": np.ones((4, 2), np.float32),
    },
)
NO_SHAPES: Shapes = {}
FIRST, SECOND = PolicyVersion("alice", 1), PolicyVersion("alice", 2)


class FakeBackend:
    """Answers one request a step, while `gate` is open, with the id of its adapter."""

    facts = FACTS
    shapes: Shapes = NO_SHAPES

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.loaded: list[str] = []
        self.dropped: list[str] = []
        self.waiting: list[Ticket] = []
        self.fault: Exception | None = None
        self.stopped = False

    def load(self, adapter: Adapter) -> None:
        assert (adapter.folder / "adapter_config.json").is_file()
        if self.fault is not None:
            raise self.fault
        self.loaded.append(adapter.name)

    def replace(self, weights: FullWeights) -> None:
        raise AssertionError

    def drop(self, adapter: Adapter) -> None:
        assert not any(ticket.adapter == adapter for ticket in self.waiting)
        self.dropped.append(adapter.name)

    def take(self, tickets: Sequence[Ticket]) -> None:
        self.waiting.extend(tickets)

    def step(self) -> list[tuple[Ticket, Completion | EngineError]]:
        if not self.gate.wait(0.002) or not self.waiting:
            return []
        if self.fault is not None:
            raise self.fault
        ticket = self.waiting.pop()
        if ticket.request.prompt_ids == (99,):
            return [(ticket, EngineError("no logprobs"))]
        number = ticket.adapter.id if ticket.adapter else 0
        tokens = (number, ticket.request.prompt_ids[0])
        return [(ticket, Completion(tokens, (0.0,), ticket.version, "stop"))]

    def busy(self) -> bool:
        return bool(self.waiting)

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def host(backend: FakeBackend, tmp_path: Path) -> Iterator[Host]:
    made = Host("fake", lambda: backend, work_dir=str(tmp_path))
    yield made
    backend.gate.set()
    made.close()


def request(policy: str = "alice", first: int = 5, version: int | None = None) -> SampleRequest:
    return SampleRequest(policy, (first,), SamplingParams(), version)


def until(claim: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_answers_come_in_the_order_of_the_requests(host: Host) -> None:
    answers = asyncio.run(host.sample([request("base", first) for first in range(2, 40)]))
    assert [answer.tokens[1] for answer in answers] == list(range(2, 40))
    assert asyncio.run(host.sample([])) == []


def test_a_request_keeps_the_version_it_was_bound_to_when_it_was_made(
    host: Host, backend: FakeBackend
) -> None:
    host.publish(FIRST, WEIGHTS)
    backend.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(lambda: asyncio.run(host.sample([request()])))
        until(backend.busy)
        host.publish(SECOND, WEIGHTS)
        host.retire(FIRST)
        assert host.versions() == [SECOND]
        assert backend.dropped == []
        backend.gate.set()
        assert before.result()[0].version == 1
    until(lambda: backend.dropped == ["alice-v1-1"])
    assert asyncio.run(host.sample([request()]))[0].version == 2


def test_the_newest_is_the_highest_version_not_the_last_published(host: Host) -> None:
    host.publish(SECOND, WEIGHTS)
    host.publish(FIRST, WEIGHTS)
    assert asyncio.run(host.sample([request()]))[0].version == 2
    assert host.versions() == [FIRST, SECOND]


def test_names_ids_and_folders_are_never_used_twice(
    host: Host, backend: FakeBackend, tmp_path: Path
) -> None:
    for _ in range(3):
        host.publish(FIRST, WEIGHTS)
        (home,) = tmp_path.iterdir()
        assert [folder.name for folder in home.iterdir()] == [backend.loaded[-1]]
        host.retire(FIRST)
        assert not list(home.iterdir())
    assert backend.loaded == ["alice-v1-1", "alice-v1-2", "alice-v1-3"]
    assert backend.dropped == backend.loaded


def test_policies_whose_names_look_alike_on_disk_stay_apart(host: Host) -> None:
    host.publish(PolicyVersion("a/b", 1), WEIGHTS)
    host.publish(PolicyVersion("a.b", 1), WEIGHTS)
    answers = asyncio.run(host.sample([request("a/b"), request("a.b")]))
    assert [answer.tokens[0] for answer in answers] == [1, 2]


def test_a_version_that_fails_to_load_leaves_nothing_behind(
    host: Host, backend: FakeBackend, tmp_path: Path
) -> None:
    backend.fault = ValueError("odd shape")
    with pytest.raises(EngineError, match="'alice' version 1 could not be loaded: odd shape"):
        host.publish(FIRST, WEIGHTS)
    assert host.alive
    assert host.versions() == []
    assert not list(next(tmp_path.iterdir()).iterdir())
    backend.fault = None
    host.publish(FIRST, WEIGHTS)
    assert host.versions() == [FIRST]


def test_a_name_that_nobody_published_binds_none_of_its_call(
    host: Host, backend: FakeBackend
) -> None:
    host.publish(FIRST, WEIGHTS)
    with pytest.raises(EngineError, match=r"unknown policy 'alcie'; did you mean 'alice'\?"):
        asyncio.run(host.sample([request(), request("alcie")]))
    with pytest.raises(EngineError, match="'base' is the base model's name"):
        host.publish(PolicyVersion("base", 1), WEIGHTS)
    host.retire(FIRST)
    assert backend.dropped == ["alice-v1-1"]


def test_an_answer_without_logprobs_fails_its_call_alone(host: Host) -> None:
    async def both() -> list[object]:
        calls = [
            host.sample([request("base", 99), request("base")]),
            host.sample([request("base")]),
        ]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    bad, good = asyncio.run(both())
    assert isinstance(bad, EngineError)
    assert isinstance(good, list)
    assert host.alive


def test_a_caller_that_gives_up_does_not_disturb_the_others(
    host: Host, backend: FakeBackend
) -> None:
    host.publish(FIRST, WEIGHTS)
    backend.gate.clear()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.sample([request()]), 0.05)

    asyncio.run(give_up())
    host.retire(FIRST)
    backend.gate.set()
    assert asyncio.run(host.sample([request("base")]))[0].version == 0
    until(lambda: backend.dropped == ["alice-v1-1"])


def test_an_engine_that_dies_tells_all_that_wait_and_all_that_come(
    host: Host, backend: FakeBackend
) -> None:
    host.publish(FIRST, WEIGHTS)
    backend.gate.clear()

    async def three() -> list[object]:
        waiting = [asyncio.create_task(host.sample([request()])) for _ in range(3)]
        await asyncio.sleep(0.05)
        backend.fault = RuntimeError("CPU Generator does not use offset")
        backend.gate.set()
        return list(await asyncio.gather(*waiting, return_exceptions=True))

    for error in asyncio.run(three()):
        assert isinstance(error, EngineError)
        assert "fake engine died: RuntimeError: CPU Generator does not use offset" in str(error)
        assert isinstance(error.__cause__, RuntimeError)
    assert not host.alive
    for late in (
        lambda: asyncio.run(host.sample([request()])),
        lambda: host.publish(SECOND, WEIGHTS),
    ):
        with pytest.raises(EngineError, match="does not use offset"):
            late()
    assert host.versions() == [FIRST]


def test_closing_fails_what_waits_ends_the_thread_and_deletes_the_files(
    host: Host, backend: FakeBackend, tmp_path: Path
) -> None:
    host.publish(FIRST, WEIGHTS)
    backend.gate.clear()

    async def close_under_way() -> object:
        waiting = asyncio.create_task(host.sample([request()]))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(host.close)
        return (await asyncio.gather(waiting, return_exceptions=True))[0]

    error = asyncio.run(close_under_way())
    assert isinstance(error, EngineError)
    assert "closed" in str(error)
    assert backend.stopped
    assert not host.alive
    assert not list(tmp_path.iterdir())
    assert not any(thread.name == "opentinker-fake" for thread in threading.enumerate())
    host.close()
    with pytest.raises(EngineError, match="closed"):
        asyncio.run(host.sample([request()]))


def test_an_engine_that_does_not_start_says_why_and_leaves_no_files(tmp_path: Path) -> None:
    def make() -> FakeBackend:
        raise MemoryError("too big")

    with pytest.raises(EngineError, match="fake engine did not start: MemoryError: too big"):
        Host("fake", make, work_dir=str(tmp_path))
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    dead = tmp_path / f"opentinker-adapters-{done.pid}-x"
    alive = tmp_path / f"opentinker-adapters-{os.getppid()}-x"
    for folder in (dead, alive):
        folder.mkdir()
    host = Host("fake", FakeBackend, work_dir=str(tmp_path))
    assert not dead.exists() and alive.exists()
    host.close()
    assert list(tmp_path.iterdir()) == [alive]
