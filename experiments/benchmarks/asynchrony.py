"""How much wall time is saved by playing ahead of the learner, on the same number of updates.

    python experiments/benchmarks/asynchrony.py

Kuhn poker, two LoRA policies on the tiny model, vLLM; strictly on-policy (`max_staleness = 0`) and
one update ahead (`max_staleness = 1`), taking turns. The seconds are those of the steps, without
the start. The episodes of a step are chosen so that rollout and update cost about the same.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
from pathlib import Path

from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.jobs import run_experiment
from opentinker.scheduler.watcher import Silent

logger = logging.getLogger("asynchrony")

EXPERIMENT = """
name = "kuhn"
[env]
id = "kuhn_poker_v0"
[policies.alice]
rank = 8
kl = 1.0
[policies.bob]
rank = 4
kl = 1.0
[cast]
player_0 = "alice"
player_1 = "bob"
[train]
episodes_per_update = 256
[evaluate]
every = 1000
[checkpoint]
every = 1000
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    seconds: dict[int, list[float]] = {0: [], 1: []}
    with tempfile.TemporaryDirectory() as folder, Cluster(num_cpus=2):
        path = Path(folder) / "experiment.toml"
        path.write_text(EXPERIMENT)
        for _ in range(options.repeats):
            for staleness, found in seconds.items():
                overrides = [f"train.updates={options.updates}", f"train.max_staleness={staleness}"]
                run = run_experiment(path, overrides, Path(folder) / "runs", Silent())
                rows = run.lines("metrics.jsonl")[3:]  # the first steps warm up
                found.append(sum(row["seconds"] for row in rows))
                logger.info(
                    "max_staleness %d: %.1f s for %d updates; a step waits %.2f s for episodes, "
                    "updates for %.2f s",
                    staleness,
                    found[-1],
                    len(rows),
                    statistics.median(row["seconds/rollout"] for row in rows),
                    statistics.median(row["seconds/update"] for row in rows),
                )
    ratio = statistics.median(seconds[1]) / statistics.median(seconds[0])
    logger.info("async over sync: %.2f (wanted: at most 0.75 with two free cores)", ratio)


if __name__ == "__main__":
    main()
