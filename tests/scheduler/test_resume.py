"""Killed in the middle of a step or of a checkpoint: the run goes on as if it had never stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opentinker.errors import ConfigError
from opentinker.recorder import Run
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.jobs import run_experiment
from opentinker.scheduler.watcher import Silent

Exact = Callable[..., list[dict[str, Any]]]

EXPERIMENT = """
name = "kuhn"
seed = 3
model = "tiny"
engine = "torch"
[env]
id = "kuhn_poker_v0"
[policies.alice]
rank = 8
kl = 0.5
reference_every = 2
[policies.bob]
rank = 4
[cast]
player_0 = "alice"
player_1 = "bob"
[sampling]
max_tokens = 4
[train]
updates = 6
episodes_per_update = 24
[evaluate]
every = 2
episodes = 8
against = ["random"]
exploitability = true
[checkpoint]
keep_last = 9
"""

KILLED = """
import os, signal, sys
from opentinker import recorder
from opentinker.scheduler import fleet

def die():
    os.killpg(os.getpgid(0), signal.SIGKILL)

moment = sys.argv.pop(1)
if moment == "step":
    publish = fleet.Fleet.publish
    async def once(self, policy, version):
        await publish(self, policy, version)
        if (policy, version) == ("alice", 3):
            die()
    fleet.Fleet.publish = once
else:
    sha256 = recorder._sha256
    def torn(path):
        if "step-00003.part" in str(path):
            die()
        return sha256(path)
    recorder._sha256 = torn
from opentinker.cli import entry
entry()
"""

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("resume") / "experiment.toml"
    file.write_text(EXPERIMENT)
    return file


@pytest.fixture(scope="module")
def whole(path: Path, cluster: Cluster) -> Run:
    """The run that nothing interrupts."""
    return run_experiment(path, [], path.parent / "whole", Silent())


@pytest.mark.parametrize("moment", ["step", "checkpoint"])
def test_a_run_killed_with_its_whole_group_goes_on_to_the_same_metrics_to_the_last_digit(
    path: Path, whole: Run, moment: str, tmp_path: Path, cluster: Cluster, exact: Exact
) -> None:
    command = [sys.executable, "-c", KILLED, moment, "run", str(path), "--runs", str(tmp_path)]
    killed = subprocess.run(command, start_new_session=True, capture_output=True, timeout=180)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    run = Run.open(tmp_path, "kuhn")
    assert run.status()["state"] == "running"
    # What is lost is the step that was running, and no more.
    assert run.latest_checkpoint().name == "step-00002"
    done = run_experiment(path, [], tmp_path, Silent(), resume="kuhn")
    assert done.folder == run.folder and done.status()["state"] == "succeeded"
    for name in ("metrics.jsonl", "evaluations.jsonl", "strategies.jsonl"):
        assert exact(done, name) == exact(whole, name)
    assert all(row["probe_gap"] < 1e-5 for row in done.lines("metrics.jsonl"))
    assert [row["step"] for row in done.lines("metrics.jsonl")] == list(range(7))
    for file in ("alice/adapter_model.safetensors", "bob/adapter_model.safetensors"):
        ours, theirs = (r.latest_checkpoint() / "policies" / file for r in (done, whole))
        assert ours.read_bytes() == theirs.read_bytes()


def test_a_finished_run_is_not_run_again_but_can_be_made_longer(
    path: Path, whole: Run, cluster: Cluster, exact: Exact
) -> None:
    runs = whole.folder.parent
    with pytest.raises(ConfigError, match=r"has succeeded, at step 6.*raise train\.updates"):
        run_experiment(path, [], runs, Silent(), resume="kuhn")
    with pytest.raises(ConfigError, match="has succeeded, at step 6"):
        run_experiment(path, ["train.updates=4"], runs, Silent(), resume="kuhn")
    before = exact(whole)
    longer = run_experiment(path, ["train.updates=7"], runs, Silent(), resume="kuhn")
    assert exact(longer)[:7] == before and longer.status()["step"] == 7


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed=4", "seed = 3, this experiment 4"),
        ("policies.bob.rank=2", "policies.bob.rank = 4, this experiment 2"),
    ],
)
def test_a_run_goes_on_only_as_the_experiment_that_it_is(
    path: Path, whole: Run, override: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        run_experiment(path, [override], whole.folder.parent, Silent(), resume="kuhn")


def test_a_run_that_is_not_there_is_named(path: Path, whole: Run) -> None:
    with pytest.raises(ConfigError, match="unknown run 'khun'; did you mean 'kuhn'"):
        run_experiment(path, [], whole.folder.parent, Silent(), resume="khun")
