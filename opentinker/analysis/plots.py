"""Draws a run: exploitability, rewards, what the learner saw, and the matches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from opentinker.recorder import Run

Rows = Sequence[Mapping[str, Any]]

_STATES = 16
"""information states of a game above which its strategies are not drawn"""


def draw(run: Run) -> list[Path]:
    """Write `plots/*.png` of everything that the run has measured, and return the paths."""
    rows = run.lines("metrics.jsonl")
    if not rows:
        return []
    found = []
    if any("val_loss" in row for row in rows):
        found.append(_save(run, "loss", _lines(rows, ["loss", "val_loss"], "step", "nats a token")))
    if any("accuracy" in row for row in rows):
        keys = ["accuracy", "val_accuracy"]
        found.append(_save(run, "accuracy", _lines(rows, keys, "step", "share of pairs")))
    if any("exploitability" in row for row in rows):
        found.append(_save(run, "exploitability", _exploitability(rows, run)))
    seats = sorted(key for row in rows[-1:] for key in row if key.startswith("reward/"))
    if seats:
        found.append(_save(run, "rewards", _lines(rows, seats, "step", "mean return")))
    policies = sorted({k.split("/")[0] for row in rows for k in row if k.endswith("/entropy")})
    if policies:
        found.append(_save(run, "learner", _learner(rows, policies)))
    strategies = run.lines("strategies.jsonl")
    if strategies and len(strategies[0]["table"]) <= _STATES:
        found.append(_save(run, "strategies", _strategies(strategies)))
    matches = run.lines("evaluations.jsonl")
    if matches:
        found.append(_save(run, "matches", _matches(matches)))
    return found


def _exploitability(rows: Rows, run: Run) -> Figure:
    rows = [row for row in rows if "exploitability" in row]
    figure, axes = _axes("episodes", "exploitability (chips)")
    x = [row.get("episodes_total", 0) for row in rows]
    axes.plot(x, [row["exploitability"] for row in rows], lw=1, alpha=0.6, label="last iterate")
    axes.plot(x, [row["exploitability_average"] for row in rows], lw=2, label="average of iterates")
    marks = [("taught base", rows[0]["exploitability"], "tab:gray"), ("equilibrium", 0.0, "k")]
    marks += [("uniform play", v, "tab:red") for v in run.read_json("reference.json").values()]
    for label, value, color in marks:
        axes.axhline(value, color=color, ls="--", lw=1, label=f"{label} ({value:.4g})")
    axes.set_ylim(bottom=-0.01)
    axes.legend(fontsize=8)
    return figure


def _learner(rows: Rows, policies: Sequence[str]) -> Figure:
    names = ["entropy", "mismatch_kl", "grad_norm", "kl"]
    names = [n for n in names if any(f"{p}/{n}" in row for p in policies for row in rows)]
    figure = Figure(figsize=(4 * len(names), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1)
        for policy in policies:
            points = [(r["step"], r[f"{policy}/{name}"]) for r in rows if f"{policy}/{name}" in r]
            if points:
                axes.plot(*zip(*points, strict=True), lw=1, label=policy)
        axes.set(title=name, xlabel="step")
        axes.legend(fontsize=8)
    return figure


def _strategies(rows: Rows) -> Figure:
    """The probability of each action in each information state, step by step."""
    states = list(rows[0]["table"])
    columns = min(4, len(states))
    lines = -(-len(states) // columns)
    figure = Figure(figsize=(3 * columns, 2.4 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    for place, state in enumerate(states):
        axes = figure.add_subplot(lines, columns, place + 1)
        for action in rows[0]["table"][state]:
            values = [row["table"][state].get(action, 0.0) for row in rows]
            axes.plot([row["step"] for row in rows], values, lw=1, label=action)
        axes.set(title=state, ylim=(-0.02, 1.02))
        axes.legend(fontsize=7)
    return figure


def _matches(matches: Rows) -> Figure:
    figure, axes = _axes("step", "mean return")
    series: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for match in matches:
        label = f"{match['policy']} ({match['seat']}) against {match['against']}"
        series[label].append((match["step"], match["reward"], match["stderr"]))
    for label, points in series.items():
        steps, means, errors = zip(*points, strict=True)
        axes.errorbar(steps, means, yerr=errors, lw=1, capsize=2, label=label)
    axes.axhline(0, color="k", lw=0.5)
    axes.legend(fontsize=8)
    return figure


def _lines(rows: Rows, keys: Sequence[str], x: str, y: str) -> Figure:
    figure, axes = _axes(x, y)
    for key in keys:
        points = [(row["step"], row[key]) for row in rows if key in row]
        if points:
            axes.plot(*zip(*points, strict=True), lw=1, label=key)
    axes.legend(fontsize=8)
    return figure


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return figure, axes


def _save(run: Run, name: str, figure: Figure) -> Path:
    path = run.folder / "plots" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    return path
