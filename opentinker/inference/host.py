"""The thread an engine lives on: calls and commands come by a queue, answers go by futures.

A backend is the engine proper, used by this thread alone. A backend that raises while it works is
dead: all that wait get an EngineError with the cause, and so does every later call.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import queue
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from opentinker.errors import EngineError
from opentinker.inference.adapters import (
    Adapter,
    VersionTable,
    check_weights,
    delete_adapter,
    make_home,
    write_adapter,
)
from opentinker.inference.backend import Backend, Call, Ticket
from opentinker.inference.engine import EngineFacts, check_request
from opentinker.inference.whole import WholeTable, check_whole
from opentinker.types import Completion, PolicyVersion, SampleRequest, Weights

logger = logging.getLogger(__name__)

Command = Callable[[], None]
T = TypeVar("T")


class Host:
    """An `Engine`: one backend on a daemon thread, its versions and their folders kept here.

    `work_dir` is where adapters are written for the backend to read: by default a new folder in
    memory. With `full` the backend serves that policy alone, with whole weights. They change when
    nothing is under way, and calls made while they wait for that stay in line behind them.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Backend],
        *,
        work_dir: str | None,
        first_id: int = 1,
        full: str | None = None,
    ) -> None:
        self._name = name
        self._whole = None if full is None else WholeTable(full)
        self._home = make_home(work_dir)
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
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        return self._end is None

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        if self._end is not None:
            raise self._gone()
        for request in requests:
            check_request(request, self._backend.facts)
        if not requests:
            return []
        call = Call()
        adapters = self._table.bind(requests) if self._whole is None else [None] * len(requests)
        call.tickets = [
            Ticket(call, place, request, adapter, adapter.version.version if adapter else 0)
            for place, (request, adapter) in enumerate(zip(requests, adapters, strict=True))
        ]
        # A running future can't be cancelled from outside: an abandoned call is answered to nobody.
        call.future.set_running_or_notify_cancel()
        self._post(call)
        return await asyncio.wrap_future(call.future)

    def publish(self, version: PolicyVersion, weights: Weights) -> None:
        if self._whole is not None:
            self._publish_whole(self._whole, version, weights)
            return
        checked = check_weights(version, weights, self._backend.facts.max_rank)
        adapter = self._table.reserve(version)
        try:
            write_adapter(adapter.folder, checked)
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
        if self._whole is not None:
            if not self._whole.replaced(version):
                # Behind the calls that were made before it, which it must not fail.
                whole = self._whole
                self.run(lambda: whole.retire(version))
            return
        adapter = self._table.retire(version)
        if adapter is not None:
            self.run(lambda: self._drop(adapter))

    def facts(self) -> EngineFacts:
        return self._backend.facts

    def versions(self) -> list[PolicyVersion]:
        return self._table.versions() if self._whole is None else self._whole.versions()

    def close(self) -> None:
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            atexit.unregister(self.close)
            self._inbox.put(None)
            self._thread.join(timeout=60)
            shutil.rmtree(self._home, ignore_errors=True)

    def run(self, task: Callable[[], T], *, fatal: bool = False) -> T:
        """Have `task` done by the engine's thread between two steps; its result or its error.

        With `fatal` any error but an EngineError is the engine's death.
        """
        result: Future[T] = Future()

        def command() -> None:
            if self._end is not None:
                result.set_exception(self._gone())
                return
            try:
                result.set_result(task())
            except Exception as error:  # handed to the caller, who waits for it
                if fatal and not isinstance(error, EngineError):
                    self._die(error)
                    result.set_exception(self._gone())
                    raise
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
            self._die(error)
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
                    self._take(backend, item)
                else:
                    item()
            self._step(backend)

    def _take(self, backend: Backend, call: Call) -> None:
        if self._whole is not None:
            try:
                for ticket in call.tickets:
                    ticket.version = self._whole.find(ticket.request)
            except EngineError as error:
                call.answer(0, error)
                return
        self._open.update(dict.fromkeys(call.tickets))
        backend.take(call.tickets)

    def _step(self, backend: Backend) -> None:
        for ticket, answer in backend.step():
            del self._open[ticket]
            ticket.call.answer(ticket.place, answer)
            if ticket.adapter is not None and self._table.release(ticket.adapter):
                self._drop(ticket.adapter)

    def _publish_whole(self, whole: WholeTable, version: PolicyVersion, weights: Weights) -> None:
        whole.check_policy(version.policy)
        checked = check_whole(version, weights, self._backend.shapes)

        def change() -> None:
            whole.check_free(version)
            while self._backend.busy():
                self._step(self._backend)
                if self._closed:
                    raise EngineError(f"the {self._name} engine is closed")
            self._backend.replace(checked)
            whole.serve(version)

        self.run(change, fatal=True)

    def _die(self, error: Exception) -> None:
        self._finish(f"the {self._name} engine died: {type(error).__name__}: {error}", error)

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
