"""Taking up a run where it stopped: only by the experiment that it is a run of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opentinker.config import Experiment, dump_experiment, load_experiment
from opentinker.errors import ConfigError
from opentinker.experiment import RLExperiment
from opentinker.recorder import Run

FREE = (
    "train.updates",
    "fit.steps",
    "fit.epochs",
    "fit.patience",
    "checkpoint",
    "resources",
    "limits",
    "evaluate.every",
)
"""Keys that may change: how long, how fast, and what is kept."""


def take_up(run: Run, experiment: Experiment) -> Run:
    """Claim `run` for going on with `experiment`, which may differ from its own in `FREE`.

    ConfigError: a run of another experiment, one that has succeeded with nothing left to do, or
    one that is going on in another process.
    """
    before = load_experiment(run.folder / "experiment.toml")
    changed = _changed(_flat(before.model_dump()), _flat(experiment.model_dump()))
    for key, was, wanted in changed:
        if not any(key == free or key.startswith(f"{free}.") for free in FREE):
            raise ConfigError(
                f"the run {run.folder} has {key} = {was!r}, this experiment {wanted!r}; a run "
                f"goes on as it began, but for {', '.join(FREE)}"
            )
    step = run.status()["step"]
    longer = experiment.train.updates > step if isinstance(experiment, RLExperiment) else changed
    if run.status()["state"] == "succeeded" and not longer:
        raise ConfigError(
            f"the run {run.folder} has succeeded, at step {step}; to train on, raise train.updates"
        )
    run.claim()
    run.write_text("experiment.toml", dump_experiment(experiment))
    return run


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    keys = sorted(before.keys() | after.keys())
    pairs = ((key, before.get(key), after.get(key)) for key in keys)
    return [pair for pair in pairs if pair[1] != pair[2]]


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys to values."""

    def items(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
        for key, value in node.items():
            if isinstance(value, Mapping):
                yield from items(value, f"{path}{key}.")
            else:
                yield f"{path}{key}", value

    return dict(items(table, ""))
