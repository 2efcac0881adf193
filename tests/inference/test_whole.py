"""The engine's thread with whole weights, over a backend that does only what the test says."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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

FIRST, SECOND = PolicyVersion("bob", 1), PolicyVersion("bob", 2)

SHAPES: Shapes = {"embed.weight": (2, 3), "norm": (3,)}


def whole(value: float) -> FullWeights:
    tensors = {"embed.weight": np.full((2, 3), value, np.float32), "norm": np.ones(3, np.float32)}
    return FullWeights(tensors)


class FakeBackend:
    """Answers one request a step, while `gate` is open, with the first number of its weights."""

    facts = EngineFacts("fake", "fake", 100, 50, (1,), 0, 0, "float32")
    shapes: Shapes = SHAPES

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.waiting: list[Ticket] = []
        self.held = 0
        self.fault: Exception | None = None

    def replace(self, weights: FullWeights) -> None:
        assert not self.waiting
        self.held = int(weights.tensors["embed.weight"][0, 0])
        if self.fault is not None:
            raise self.fault

    def load(self, adapter: Adapter) -> None:
        raise AssertionError

    drop = load

    def take(self, tickets: Sequence[Ticket]) -> None:
        self.waiting.extend(tickets)

    def step(self) -> list[tuple[Ticket, Completion | EngineError]]:
        if not self.gate.wait(0.002) or not self.waiting:
            return []
        ticket = self.waiting.pop(0)
        return [(ticket, Completion((self.held,), (0.0,), ticket.version, "stop"))]

    def busy(self) -> bool:
        return bool(self.waiting)

    def stop(self) -> None:
        self.waiting.clear()


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def host(backend: FakeBackend, tmp_path: Path) -> Iterator[Host]:
    made = Host("fake", lambda: backend, work_dir=str(tmp_path), full="bob")
    yield made
    backend.gate.set()
    made.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def request(policy: str = "bob", version: int | None = None) -> SampleRequest:
    return SampleRequest(policy, (5,), SamplingParams(), version)


def ask(host: Host, *requests: SampleRequest) -> list[Completion]:
    return asyncio.run(host.sample(requests))


def until(claim: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.002)


def in_line(host: Host, pool: ThreadPoolExecutor, task: Callable[[], object]) -> Future[object]:
    """Start `task` elsewhere; returns when what it asks stands in the engine's line."""
    posted, post = threading.Event(), host._post

    def tell(item: object) -> None:
        post(item)  # pyright: ignore[reportArgumentType]
        posted.set()

    host._post = tell
    started = pool.submit(task)
    assert posted.wait(5)
    host._post = post
    return started


def test_new_weights_wait_for_what_is_under_way_and_later_requests_for_them(
    host: Host, backend: FakeBackend, pool: ThreadPoolExecutor
) -> None:
    host.publish(FIRST, whole(1))
    backend.gate.clear()
    under_way = in_line(host, pool, lambda: ask(host, request(), request(version=1)))
    publishing = in_line(host, pool, lambda: host.publish(SECOND, whole(2)))
    later = in_line(host, pool, lambda: ask(host, request(), request(version=2)))
    stale = in_line(host, pool, lambda: ask(host, request(version=1)))
    until(lambda: len(backend.waiting) == 2)
    time.sleep(0.02)
    assert not publishing.done() and len(backend.waiting) == 2
    assert host.versions() == [FIRST]
    backend.gate.set()
    assert under_way.result(5) == [Completion((1,), (0.0,), 1, "stop")] * 2
    assert later.result(5) == [Completion((2,), (0.0,), 2, "stop")] * 2
    with pytest.raises(EngineError, match=r"'bob' version 1 .* no more; version 2 took its place"):
        stale.result(5)
    publishing.result(5)
    assert host.versions() == [SECOND]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (request("base"), "'base' is not served here; known: 'bob' alone"),
        (request("bbo"), "'bbo' is not served here; known: 'bob' alone"),
        (request(version=7), "'bob' has no version 7 here; published: 1"),
    ],
)
def test_a_request_for_anything_else_fails_its_call_alone(
    host: Host, wrong: SampleRequest, message: str
) -> None:
    with pytest.raises(EngineError, match="'bob' has no version here; none is published"):
        ask(host, request())
    host.publish(FIRST, whole(1))
    with pytest.raises(EngineError, match=message):
        ask(host, request(), wrong)
    assert ask(host, request())[0].version == 1


@pytest.mark.parametrize(
    ("version", "changes", "message"),
    [
        (SECOND, {"norm": None}, "'bob' version 2: the model's 'norm' is not among them"),
        (
            SECOND,
            {"embd.weight": np.ones(3)},
            r"'embd.weight' is no weight .* near: 'embed.weight'",
        ),
        (SECOND, {"norm": np.ones((3, 1))}, r"'norm' has shape \(3, 1\), the model's is \(3,\)"),
        (SECOND, {"norm": np.array([1, np.nan, 1])}, "'norm' holds values that are not finite"),
        (FIRST, {}, "'bob' version 1 is published already"),
        (PolicyVersion("base", 2), {}, "'base' is not served here"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_nothing_changes(
    host: Host, version: PolicyVersion, changes: dict[str, np.ndarray | None], message: str
) -> None:
    host.publish(FIRST, whole(1))
    tensors = {**whole(2).tensors, **changes}
    weights = FullWeights({name: own for name, own in tensors.items() if own is not None})
    with pytest.raises(EngineError, match=message):
        host.publish(version, weights)
    assert host.versions() == [FIRST]
    assert ask(host, request())[0].tokens == (1,)


def test_an_adapter_is_refused_by_an_engine_of_whole_weights_and_the_other_way_round(
    host: Host, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match="serves whole weights, and was given an adapter"):
        host.publish(FIRST, AdapterWeights(AdapterSpec(2, 2.0), {}))
    adapted = Host("fake", FakeBackend, work_dir=str(tmp_path))
    with pytest.raises(EngineError, match="serves adapters, and was given whole weights"):
        adapted.publish(FIRST, whole(1))
    adapted.close()


def test_a_replaced_version_may_be_retired_and_published_again(host: Host) -> None:
    host.publish(FIRST, whole(1))
    host.publish(SECOND, whole(2))
    host.retire(FIRST)
    assert host.versions() == [SECOND]
    host.publish(FIRST, whole(3))
    assert host.versions() == [FIRST]
    assert ask(host, request())[0] == Completion((3,), (0.0,), 1, "stop")
    with pytest.raises(EngineError, match="'bob' has no version 9 here"):
        host.retire(PolicyVersion("bob", 9))


def test_requests_made_before_a_retirement_are_answered(
    host: Host, backend: FakeBackend, pool: ThreadPoolExecutor
) -> None:
    host.publish(FIRST, whole(1))
    backend.gate.clear()
    before = in_line(host, pool, lambda: ask(host, request()))
    host.retire(FIRST)
    assert host.versions() == []
    backend.gate.set()
    assert before.result(5) == [Completion((1,), (0.0,), 1, "stop")]
    with pytest.raises(EngineError, match="'bob' has no version here; none is published"):
        ask(host, request())


def test_weights_that_the_engine_refuses_leave_the_old_ones(
    host: Host, backend: FakeBackend
) -> None:
    host.publish(FIRST, whole(1))
    backend.fault = EngineError("the cache can't be emptied")
    with pytest.raises(EngineError, match="can't be emptied"):
        host.publish(SECOND, whole(2))
    assert host.alive and host.versions() == [FIRST]


def test_an_engine_that_fails_amid_new_weights_is_dead(
    host: Host, backend: FakeBackend, pool: ThreadPoolExecutor
) -> None:
    host.publish(FIRST, whole(1))
    backend.gate.clear()
    backend.fault = ValueError("half of it")
    under_way = in_line(host, pool, lambda: ask(host, request()))
    publishing = in_line(host, pool, lambda: host.publish(SECOND, whole(2)))
    later = in_line(host, pool, lambda: ask(host, request()))
    backend.gate.set()
    assert under_way.result(5) == [Completion((1,), (0.0,), 1, "stop")]
    for told in (publishing, later):
        with pytest.raises(EngineError, match="fake engine died: ValueError: half of it"):
            told.result(5)
    assert not host.alive


def test_closing_does_not_wait_for_new_weights_to_come(
    host: Host, backend: FakeBackend, pool: ThreadPoolExecutor
) -> None:
    host.publish(FIRST, whole(1))
    backend.gate.clear()
    under_way = in_line(host, pool, lambda: ask(host, request()))
    publishing = in_line(host, pool, lambda: host.publish(SECOND, whole(2)))
    later = in_line(host, pool, lambda: ask(host, request()))
    host.close()
    for told in (under_way, publishing, later):
        with pytest.raises(EngineError, match="fake engine is closed"):
            told.result(5)
    assert host.versions() == [FIRST] and backend.held == 1
