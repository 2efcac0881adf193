"""The thread an engine lives on: calls and commands come by a queue, answers go by futures.

A backend is the engine proper, used by this thread alone. A backend that raises while it works is
dead: all that wait get an EngineError with the cause, and so does every later call.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from opentinker.errors import EngineError
from opentinker.inference.adapters import (
    Adapter,
    VersionTable,
    check_weights,
    delete_adapter,
    write_adapter,
)
from opentinker.inference.engine import EngineFacts, check_request
from opentinker.types import AdapterWeights, Completion, PolicyVersion, SampleRequest

logger = logging.getLogger(__name__)

Command = Callable[[], None]
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Ticket:
    """One request of a call, the adapter it is bound to (None: the base), and its place."""

    call: Call
    place: int
    request: SampleRequest
    adapter: Adapter | None


@dataclass(eq=False, slots=True)
class Call:
    """One `sample` call: its future is resolved when the last of its requests is answered."""

    future: Future[list[Completion]] = field(default_factory=Future)
    tickets: list[Ticket] = field(default_factory=list)
    answers: dict[int, Completion] = field(default_factory=dict)

    def answer(self, place: int, answer: Completion | EngineError) -> None:
        if self.future.done():
            return
        if isinstance(answer, EngineError):
            self.future.set_exception(answer)
            return
        self.answers[place] = answer
        if len(self.answers) == len(self.tickets):
            self.future.set_result([self.answers[place] for place in range(len(self.tickets))])


class Backend(Protocol):
    """The engine proper; every method runs on the host's thread."""

    facts: EngineFacts

    def load(self, adapter: Adapter) -> None: ...

    def drop(self, adapter: Adapter) -> None: ...

    def take(self, tickets: Sequence[Ticket]) -> None:
        """Put the requests of one call in line."""
        ...

    def step(self) -> list[tuple[Ticket, Completion | EngineError]]:
        """Work a little; what got finished by it. Nothing where `busy` is False."""
        ...

    def busy(self) -> bool: ...

    def stop(self) -> None: ...


class Host:
    """Runs one backend on a daemon thread, and keeps its versions and their folders.

    `work_dir` is where adapters are written for the backend to read: by default a new folder in
    memory (/dev/shm), or the temporary one.
    """

    def __init__(
        self, name: str, make: Callable[[], Backend], *, work_dir: str | None, first_id: int = 1
    ) -> None:
        self._name = name
        self._home = _make_home(work_dir)
        self._table = VersionTable(self._home, first_id)
        self._inbox: queue.SimpleQueue[Call | Command | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: dict[Ticket, None] = {}
        self._end: EngineError | None = None
        self._closed = False
        started: Future[Backend] = Future()
        self._thread = threading.Thread(
            target=self._live, args=(make, started), name=f"opentinker-{name}", daemon=True
        )
        self._thread.start()
        try:
            self._backend = started.result()
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise
        self.facts = self._backend.facts
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        return self._end is None

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        if self._end is not None:
            raise self._gone()
        for request in requests:
            check_request(request, self.facts)
        if not requests:
            return []
        call = Call()
        bound = zip(requests, self._table.bind(requests), strict=True)
        call.tickets = [
            Ticket(call, i, request, adapter) for i, (request, adapter) in enumerate(bound)
        ]
        # A running future can't be cancelled from outside: an abandoned call is answered to nobody.
        call.future.set_running_or_notify_cancel()
        self._post(call)
        return await asyncio.wrap_future(call.future)

    def publish(self, version: PolicyVersion, weights: AdapterWeights) -> None:
        check_weights(version, weights, self.facts.max_rank)
        adapter = self._table.reserve(version)
        try:
            write_adapter(adapter.folder, weights)
            self.run(lambda: self._backend.load(adapter))
        except BaseException as error:
            self._table.forget(adapter)
            delete_adapter(adapter.folder)
            if isinstance(error, EngineError) or not isinstance(error, Exception):
                raise
            raise EngineError(
                f"policy {version.policy!r} version {version.version} could not be loaded: {error}"
            ) from error
        self._table.serve(adapter)

    def retire(self, version: PolicyVersion) -> None:
        adapter = self._table.retire(version)
        if adapter is not None:
            self.run(lambda: self._drop(adapter))

    def versions(self) -> list[PolicyVersion]:
        return self._table.versions()

    def close(self) -> None:
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            atexit.unregister(self.close)
            self._inbox.put(None)
            self._thread.join(timeout=60)
            shutil.rmtree(self._home, ignore_errors=True)

    def run(self, task: Callable[[], T]) -> T:
        """Have `task` done by the engine's thread between two steps; its result or its error."""
        result: Future[T] = Future()

        def command() -> None:
            if self._end is not None:
                result.set_exception(self._gone())
                return
            try:
                result.set_result(task())
            except Exception as error:  # handed to the caller, who waits for it
                result.set_exception(error)

        self._post(command)
        return result.result()

    def _post(self, item: Call | Command) -> None:
        with self._lock:
            if self._end is None:
                self._inbox.put(item)
                return
        self._refuse(item)

    def _refuse(self, item: Call | Command | None) -> None:
        if isinstance(item, Call):
            item.answer(0, self._gone())
        elif item is not None:
            item()

    def _live(self, make: Callable[[], Backend], started: Future[Backend]) -> None:
        try:
            backend = make()
        except Exception as error:  # handed to the constructor, which waits for it
            fault = EngineError(
                f"the {self._name} engine did not start: {type(error).__name__}: {error}"
            )
            fault.__cause__ = error
            started.set_exception(fault)
            return
        started.set_result(backend)
        try:
            self._serve(backend)
        except Exception as error:  # the border: whatever the engine raises, its callers are told
            logger.exception("the %s engine died", self._name)
            self._finish(f"the {self._name} engine died: {type(error).__name__}: {error}", error)
            return
        self._finish(f"the {self._name} engine is closed")
        backend.stop()

    def _serve(self, backend: Backend) -> None:
        while True:
            while not backend.busy() or not self._inbox.empty():
                item = self._inbox.get()
                if item is None:
                    return
                if isinstance(item, Call):
                    self._open.update(dict.fromkeys(item.tickets))
                    backend.take(item.tickets)
                else:
                    item()
            for ticket, answer in backend.step():
                del self._open[ticket]
                ticket.call.answer(ticket.place, answer)
                if ticket.adapter is not None and self._table.release(ticket.adapter):
                    self._drop(ticket.adapter)

    def _gone(self) -> EngineError:
        assert self._end is not None
        error = EngineError(str(self._end))
        error.__cause__ = self._end.__cause__
        return error

    def _drop(self, adapter: Adapter) -> None:
        self._backend.drop(adapter)
        delete_adapter(adapter.folder)

    def _finish(self, message: str, cause: Exception | None = None) -> None:
        end = EngineError(message)
        end.__cause__ = cause
        with self._lock:
            self._end = end
        for ticket in self._open:
            ticket.call.answer(ticket.place, self._gone())
        self._open.clear()
        while not self._inbox.empty():
            self._refuse(self._inbox.get())


_HOME = "opentinker-adapters-"


def _make_home(work_dir: str | None) -> Path:
    """A folder of this process; those that killed processes left beside it are removed."""
    if work_dir is not None:
        Path(work_dir).mkdir(parents=True, exist_ok=True)
    elif os.access("/dev/shm", os.W_OK):
        work_dir = "/dev/shm"
    home = Path(tempfile.mkdtemp(prefix=f"{_HOME}{os.getpid()}-", dir=work_dir))
    for other in home.parent.glob(f"{_HOME}*-*"):
        owner = other.name.removeprefix(_HOME).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(other, ignore_errors=True)
    return home
