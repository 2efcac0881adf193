"""Plain objects in processes of their own: errors arrive, deaths are told, no process stays."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from opentinker.errors import ConfigError, EngineError, UnknownNameError
from opentinker.scheduler.cluster import Cluster, Worker

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

PARTS = """
import asyncio, os
from opentinker.errors import ConfigError, UnknownNameError

class Part:
    def __init__(self, name):
        if name == "wrong":
            raise ConfigError("a part can't be called 'wrong'")
        if name == "broken":
            raise KeyError("no such part")
        self.name = name
    def pid(self):
        return os.getpid()
    def threads(self):
        return os.environ["OMP_NUM_THREADS"], os.environ["HF_HUB_OFFLINE"]
    def echo(self, *args, **kwargs):
        return self.name, args, kwargs
    async def slow(self, seconds):
        await asyncio.sleep(seconds)
        return self.name
    def unknown(self):
        raise UnknownNameError("card", "A", ["J", "Q", "K"], "of Kuhn poker")
    def stumble(self):
        raise ZeroDivisionError("no chips")
    async def die(self):
        os._exit(1)

class Closing:
    def __init__(self, file, seconds):
        self.file, self.seconds = file, seconds
    async def close(self):
        await asyncio.sleep(self.seconds)
        open(self.file, "w").close()
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The place of a class that only a folder put on the path holds, like a user's own."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "cluster_parts.py").write_text(PARTS)
    sys.path.insert(0, str(folder))
    return "cluster_parts:Part"


def _call(worker: Worker, method: str, *args: object) -> object:
    async def call() -> object:
        return await asyncio.wait_for(worker.call(method, *args), 60)

    return asyncio.run(call())


def test_a_worker_is_a_process_of_its_own_with_the_threads_it_was_given(
    cluster: Cluster, parts: str
) -> None:
    worker = cluster.worker(parts, {"name": "a"}, threads=3)
    try:
        assert _call(worker, "pid") != os.getpid()
        assert _call(worker, "threads") == ("3", "1")
        assert _call(worker, "echo", 1, "two") == ("a", (1, "two"), {})
    finally:
        cluster.stop(worker)


def test_calls_of_one_worker_run_side_by_side(cluster: Cluster, parts: str) -> None:
    worker = cluster.worker(parts, {"name": "a"})

    async def both() -> float:
        await worker.ready()
        began = time.perf_counter()
        await asyncio.gather(*(worker.call("slow", 0.5) for _ in range(10)))
        return time.perf_counter() - began

    try:
        assert asyncio.run(both()) < 2.5  # one after another it would be 5 s
    finally:
        cluster.stop(worker)


def test_a_value_goes_from_worker_to_worker_by_reference(cluster: Cluster, parts: str) -> None:
    first, second = (cluster.worker(parts, {"name": name}) for name in "ab")

    async def pass_on() -> object:
        return await second.call("echo", first.start("echo", 7))

    try:
        assert asyncio.run(pass_on()) == ("b", (("a", (7,), {}),), {})
    finally:
        cluster.stop(first)
        cluster.stop(second)


def test_what_a_worker_raises_on_purpose_arrives_as_it_was(cluster: Cluster, parts: str) -> None:
    worker = cluster.worker(parts, {"name": "a"})
    try:
        with pytest.raises(UnknownNameError) as caught:
            _call(worker, "unknown")
        assert type(caught.value) is UnknownNameError
        assert str(caught.value) == "unknown card 'A'; known: J, K, Q (of Kuhn poker)"
        with pytest.raises(ZeroDivisionError, match="no chips"):
            _call(worker, "stumble")
        assert _call(worker, "echo") == ("a", (), {})  # neither ended it
    finally:
        cluster.stop(worker)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [("wrong", ConfigError, "can't be called 'wrong'"), ("broken", KeyError, "no such part")],
)
def test_what_a_constructor_raises_reaches_ready_and_every_call(
    cluster: Cluster, parts: str, name: str, kind: type[Exception], said: str
) -> None:
    worker = cluster.worker(parts, {"name": name})
    try:
        with pytest.raises(kind, match=said):
            asyncio.run(worker.ready())
        with pytest.raises(kind, match=said):
            _call(worker, "pid")
    finally:
        cluster.stop(worker)


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_worker_that_dies_is_an_engine_error_that_names_it(
    cluster: Cluster, parts: str, how: str
) -> None:
    worker = cluster.worker(parts, {"name": "a"})
    pid = _call(worker, "pid")
    assert isinstance(pid, int)

    async def dies() -> None:
        waiting = asyncio.ensure_future(worker.call("slow", 60))
        await asyncio.sleep(0.2)
        if how == "kill":
            os.kill(pid, signal.SIGKILL)
        else:
            worker.start("die")
        await asyncio.wait_for(waiting, 30)

    try:
        with pytest.raises(EngineError, match="the worker 'Part' died"):
            asyncio.run(dies())
        with pytest.raises(EngineError, match="the worker 'Part' died"):
            _call(worker, "pid")  # and stays dead: no call waits for ever
    finally:
        cluster.stop(worker)


def test_a_stopped_workers_process_ends(cluster: Cluster, parts: str) -> None:
    worker = cluster.worker(parts, {"name": "a"})
    pid = _call(worker, "pid")
    assert isinstance(pid, int)
    process = psutil.Process(pid)
    cluster.stop(worker)
    process.wait(timeout=10)


DRIVER = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from opentinker.scheduler.cluster import Cluster
with Cluster(num_cpus=1) as cluster:
    worker = cluster.worker("cluster_parts:Part", {"name": "a"})
    print(asyncio.run(worker.call("pid")), flush=True)
    sys.stdin.read()
"""


AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's own two that tell the GCS of the raylet's end and, where it is gone too, wait a minute."""


@pytest.mark.parametrize("how", ["kill", "leave"])
def test_no_process_outlives_its_driver(parts: str, how: str) -> None:
    folder = next(p for p in sys.path if (Path(p) / "cluster_parts.py").is_file())
    command = [sys.executable, "-c", DRIVER, folder, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as driver:
        assert parts and driver.stdout is not None and driver.stdin is not None
        try:
            worker = int(driver.stdout.readline())
            family = psutil.Process(driver.pid).children(recursive=True)
            names = " ".join(process.name() for process in family)
            assert "raylet" in names and "gcs_server" in names
            assert worker in [process.pid for process in family]
            if how == "kill":
                family = [process for process in family if process.name() not in AGENTS]
                driver.kill()
            else:
                driver.stdin.close()
            driver.wait(timeout=30)
            _, alive = psutil.wait_procs(family, timeout=30)
            assert not alive, [process.name() for process in alive]
        finally:
            driver.kill()


def test_a_worker_closes_what_it_holds_before_it_ends_but_not_for_ever(
    cluster: Cluster, parts: str, tmp_path: Path
) -> None:
    place = parts.replace(":Part", ":Closing")
    files = [tmp_path / "soon", tmp_path / "never"]
    workers = [
        cluster.worker(place, {"file": str(file), "seconds": seconds})
        for file, seconds in zip(files, (0.0, 600.0), strict=True)
    ]

    async def ready() -> None:
        for worker in workers:
            await worker.ready()

    asyncio.run(ready())
    cluster.stop(*workers)
    assert [file.exists() for file in files] == [True, False]
