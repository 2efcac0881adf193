"""Puts what many episodes ask in one moment into one call, for an engine in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from opentinker.types import Completion, SampleRequest


class BatchingSampler:
    """A `Sampler` in front of `send`: requests made in one round of the event loop cross together.

    Several batches may be under way at once. An error of `send` reaches every request of its batch.
    """

    def __init__(
        self, send: Callable[[Sequence[SampleRequest]], Awaitable[Sequence[Completion]]]
    ) -> None:
        self._send = send
        self._waiting: list[tuple[SampleRequest, asyncio.Future[Completion]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        futures = []
        for request in requests:
            future: asyncio.Future[Completion] = loop.create_future()
            self._waiting.append((request, future))
            futures.append(future)
        return [await future for future in futures]

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.get_running_loop().create_task(self._cross(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _cross(self, batch: list[tuple[SampleRequest, asyncio.Future[Completion]]]) -> None:
        try:
            completions = await self._send([request for request, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        for (_, future), completion in zip(batch, completions, strict=True):
            if not future.done():
                future.set_result(completion)
