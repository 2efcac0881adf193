"""What policies cost in memory: one learner with one LoRA policy, and one with four.

    OMP_NUM_THREADS=1 python experiments/benchmarks/policy_memory.py

Each in a process of its own, which holds one base, the adapters (rank 8, all linear layers) and the
optimizers' states, as each policy has done some updates: after the first ones the allocator still
takes more. What counts is the resident set. Two models: the tiny one, where the process itself is
nearly all, and one of 32 million weights, where base and adapters are a good part.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from opentinker.learner.settings import LoraSource, PolicySettings
from opentinker.learner.tiny_model import make_tiny
from opentinker.learner.worker import LearnerWorker
from opentinker.types import AdapterSpec, TrainBatch

BOUND = 1.25
"""Memory of four policies over that of one."""

MODELS = {"tiny": {"hidden": 64, "layers": 2}, "wide": {"hidden": 512, "layers": 12}}
ROWS, TOKENS, UPDATES = 4, 64, 3


def batch(policy: str) -> TrainBatch:
    """Random ids, of which the second half is trained."""
    source = np.random.default_rng(0)
    shape = (ROWS, TOKENS)
    trained = np.zeros(shape, dtype=np.bool_)
    trained[:, TOKENS // 2 :] = True
    return TrainBatch(
        policy=policy,
        ids=source.integers(5, 250, shape).astype(np.int32),
        lengths=np.full(ROWS, TOKENS, dtype=np.int32),
        trained=trained,
        advantages=np.where(trained, source.normal(size=shape), 0).astype(np.float32),
        logprobs=np.where(trained, -5.0, 0).astype(np.float32),
        versions=np.where(trained, 0, -1).astype(np.int32),
    )


def hold(model: str, count: int) -> int:
    """Bytes that this process holds with `count` policies that have learned."""
    learner = LearnerWorker(model)
    names = [f"policy_{number}" for number in range(count)]
    for name in names:
        learner.add_policy(name, LoraSource(AdapterSpec(8, 16.0)), PolicySettings())
    for name in names * UPDATES:
        report = learner.update(name, [batch(name)])
        assert not report.skipped, report.skipped
    return psutil.Process().memory_info().rss


def held(model: str, count: int) -> float:
    """The same in MiB, from a process of its own."""
    command = [sys.executable, __file__, "--model", model, "--policies", str(count)]
    done = subprocess.run(command, capture_output=True, check=True)
    return int(done.stdout.split()[-1]) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="the folder of a model: hold policies of it here")
    parser.add_argument("--policies", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.model:
        print(hold(arguments.model, arguments.policies))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    table = Table("model", "one policy", "four", "a further one", "ratio", f"at most {BOUND}")
    for name, sizes in MODELS.items():
        with tempfile.TemporaryDirectory() as home:
            corpus = ["one card is [dealt] to each of two players"]
            model = str(make_tiny(Path(home) / name, corpus, **sizes))
            one, four = held(model, 1), held(model, 4)
        ratio = four / one
        row = [f"{one:.0f} MiB", f"{four:.0f} MiB", f"{(four - one) / 3:.1f} MiB", f"{ratio:.3f}"]
        table.add_row(name, *row, "yes" if ratio <= BOUND else "NO")
    Console().print(table)


if __name__ == "__main__":
    main()
