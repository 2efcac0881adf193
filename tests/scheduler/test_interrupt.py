"""Ctrl-C and a kill: no process stays, and the run says how far it came."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.ray
ROOT = Path(__file__).parents[2]


def _start(folder: Path) -> subprocess.Popen[bytes]:
    path = ROOT / "experiments" / "kuhn_poker" / "experiment.toml"
    command = [sys.executable, "-c", "from opentinker.cli import entry; entry()", "run", str(path)]
    return subprocess.Popen(
        [*command, "--runs", str(folder)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # a test runner in the background hands down an ignored SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def _family(pid: int) -> list[psutil.Process]:
    own = psutil.Process(pid)
    return [own, *own.children(recursive=True)]


def _wait_for(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("moment", ["starting", "running"])
def test_ctrl_c_ends_every_process_within_ten_seconds(tmp_path: Path, moment: str) -> None:
    driver = _start(tmp_path)
    status = tmp_path / "kuhn_poker_teach" / "status.json"
    try:
        if moment == "starting":  # Ray's processes come up
            assert _wait_for(lambda: len(_family(driver.pid)) > 2, 60)
        else:

            def running() -> bool:
                return status.is_file() and json.loads(status.read_text())["step"] > 0

            assert _wait_for(running, 120)
        family = _family(driver.pid)
        os.killpg(driver.pid, signal.SIGINT)  # a terminal sends it to the whole group
        assert driver.wait(timeout=10) == 130
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
    if moment == "running":
        record = json.loads(status.read_text())
        assert record["state"] == "interrupted" and record["step"] > 0
