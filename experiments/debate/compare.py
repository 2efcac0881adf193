"""Runs the debate and its controls over several seeds: how often is the judge, or the group, right?

python experiments/debate/compare.py [judge|together|groups] [--seeds 3] [--runs runs]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from scipy.stats import t

from opentinker.console import RichWatcher
from opentinker.recorder import Run
from opentinker.scheduler.jobs import run_experiment


def seat(name: str) -> Score:
    """The seat's mean reward, update by update."""

    def score(run: Run) -> list[float]:
        key = f"reward/{name}"
        return [float(row[key]) for row in run.lines("metrics.jsonl") if key in row]

    return score


def majority(run: Run) -> list[float]:
    """The share of recorded episodes in which most votes are right, update by update.

    A vote that is none of the choices ends an episode without pay: it counts as not right.
    """
    right: dict[int, list[bool]] = {}
    for step, episode in run.episodes():
        right.setdefault(step, []).append(max(episode.returns.values()) > 0.5)
    return [float(np.mean(found)) for found in right.values()]


Score = Callable[[Run], list[float]]
Conditions = Mapping[str, tuple[str, Score, Sequence[str]]]
"""name -> the experiment's file, what counts, and what is set otherwise"""
HERE = Path(__file__).parent
LAST = 10
"""updates at the end of a run whose episodes are counted"""

TOGETHER = ('env.options.pay="together"', "train.updates=80", "evaluate.every=80")
WHAT: Mapping[str, Conditions] = {
    "judge": {
        "no debate": ("silent.toml", seat("judge"), ()),
        "untrained debaters": ("untrained.toml", seat("judge"), ()),
        "all three trained": ("experiment.toml", seat("judge"), ()),
    },
    "together": {
        "debate, paid together": ("experiment.toml", seat("judge"), TOGETHER),
        "self-consistency": ("consistency.toml", majority, ()),
    },
    "groups": {
        name: ("group.toml", seat("debater_0"), (f'protocol.options.topology="{name}"',))
        for name in ("complete", "ring", "star", "tree", "none")
    },
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=tuple(WHAT), nargs="?", default="judge")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    given = parser.parse_args(arguments)
    curves = {
        name: [curve(file, settings, seed, score, given.runs) for seed in range(given.seeds)]
        for name, (file, score, settings) in WHAT[given.what].items()
    }
    table = Table("condition", "first update", f"last {LAST} updates", "each seed")
    for name, found in curves.items():
        ends = [float(np.mean(each[-LAST:])) for each in found]
        table.add_row(
            name,
            interval([each[0] for each in found]),
            interval(ends),
            " ".join(f"{end:.3f}" for end in ends),
        )
    Console(width=120).print(table)
    draw(curves, HERE / f"{given.what}.png")


def curve(file: str, settings: Sequence[str], seed: int, score: Score, runs: Path) -> list[float]:
    watcher = RichWatcher(Console(stderr=True))
    try:
        return score(run_experiment(HERE / file, [f"seed={seed}", *settings], runs, watcher))
    finally:
        watcher.close()


def interval(values: Sequence[float]) -> str:
    """The mean, and half the width of its 95 % interval over seeds (Student's t)."""
    if len(values) < 2:
        return f"{np.mean(values):.3f}"
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{np.mean(values):.3f} ± {half:.3f}"


def draw(curves: Mapping[str, Sequence[Sequence[float]]], path: Path) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, found in curves.items():
        mean = np.mean(np.array(found), axis=0)
        (line,) = axes.plot(range(1, len(mean) + 1), mean, label=name)
        for each in found:
            axes.plot(range(1, len(each) + 1), each, lw=0.5, alpha=0.4, color=line.get_color())
    axes.axhline(0.5, color="k", ls="--", lw=1, label="chance")
    axes.set(xlabel="update", ylabel="share of right verdicts", ylim=(0.3, 1.02))
    axes.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1:])
