"""Ray's one home: a cluster that ends with its parent, and plain classes made actors on it.

A worker is named by its import path, so that the process that drives a run loads no torch.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from opentinker.errors import EngineError, OpenTinkerError

log = logging.getLogger(__name__)

_DEFAULTS = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Environment of every worker, where the user's own says nothing else."""

_CLOSING = 3.0
"""Seconds that workers have to close; a Ctrl-C must be over within ten."""


class _Host:
    """The actor: one object of a plain class, and a way to call it."""

    def __init__(self) -> None:
        self._target: Any = None
        self._built = asyncio.Event()
        self._fault: Exception | None = None

    async def build(self, path: str, kwargs: Mapping[str, Any]) -> None:
        # Not in __init__: what that raises reaches a caller only as a text in "actor died".
        module, _, name = path.partition(":")
        try:
            self._target = getattr(importlib.import_module(module), name)(**kwargs)
        except Exception as error:
            self._fault = error
            raise
        finally:
            self._built.set()

    async def close(self) -> None:
        """Give back what the object holds outside its process, where it has a `close`."""
        close = getattr(self._target, "close", None)
        result = close() if close is not None else None
        if inspect.isawaitable(result):
            await result

    async def call(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        await self._built.wait()  # calls of an async actor may overtake one another
        if self._fault is not None:
            raise self._fault
        args = tuple([await a if isinstance(a, ray.ObjectRef) else a for a in args])
        result = getattr(self._target, method)(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result


class Worker:
    """A plain object in a process of its own."""

    def __init__(self, name: str, actor: Any, ready: Any) -> None:
        self.name = name
        self._actor = actor
        self._ready = ready

    async def ready(self) -> None:
        """Wait until the object is made; raises what its constructor raised."""
        await self.wait(self._ready)

    def start(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Begin a call and return its reference; as an argument its value goes worker to worker."""
        return self._actor.call.remote(method, args, kwargs)

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method and wait. What it raises on purpose is raised here as it was."""
        return await self.wait(self.start(method, *args, **kwargs))

    async def wait(self, reference: Awaitable[Any]) -> Any:
        try:
            return await reference
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, OpenTinkerError):
                raise cause from None
            raise
        except RayActorError as error:
            raise EngineError(f"the worker {self.name!r} died: {error}") from error


class Cluster:
    """A local Ray cluster for the time of a `with` block, or the running one at `address`.

    Where this process is connected to one already, that one is used and left running.
    """

    def __init__(self, *, address: str | None = None, num_cpus: int | None = None) -> None:
        self._address = address
        self._num_cpus = num_cpus
        self._workers: list[Worker] = []
        self._owned = not ray.is_initialized()

    def __enter__(self) -> Cluster:
        if self._owned:
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                ray.init(
                    address=self._address,
                    num_cpus=None if self._address else self._num_cpus,
                    include_dashboard=False if self._address is None else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except BaseException:  # a Ctrl-C while it starts
                ray.shutdown()
                raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def worker(
        self, path: str, keywords: Mapping[str, Any], *, threads: int = 1, gpus: float = 0
    ) -> Worker:
        """Start `path` (`"package.module:Class"`) with `keywords`, with `threads` for numerics.

        Actors take no CPU slot of Ray's: cores are shared on purpose, by `threads`.
        """
        count = str(threads)
        paths = [str(Path.cwd()), *(p for p in sys.path if p)]
        environment = {
            "OMP_NUM_THREADS": count,
            "MKL_NUM_THREADS": count,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            **{name: os.environ.get(name, value) for name, value in _DEFAULTS.items()},
        }
        host: Any = ray.remote(_Host)
        options = host.options(
            num_cpus=0,
            num_gpus=gpus,
            max_concurrency=1000,
            runtime_env={"env_vars": environment},
        )
        actor = options.remote()
        worker = Worker(path.rpartition(":")[2], actor, actor.build.remote(path, keywords))
        self._workers.append(worker)
        return worker

    def stop(self, *workers: Worker) -> None:
        """Let workers close what they hold, for a short while, and end their processes."""
        closing = [worker._actor.close.remote() for worker in workers]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSING)
        for worker in workers:
            self._workers.remove(worker)
            ray.kill(worker._actor)

    def stop_all(self) -> None:
        """End every worker."""
        self.stop(*self._workers)

    def close(self) -> None:
        """End every worker; end the cluster too where it was started here."""
        self.stop_all()
        if self._owned:
            ray.shutdown()
