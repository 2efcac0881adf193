"""Runs an experiment from its file to a finished run: what it comes after first, then itself."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opentinker.analysis.plots import draw
from opentinker.config import SFTExperiment, dump_experiment, load_experiment
from opentinker.errors import ConfigError
from opentinker.recorder import Run, State
from opentinker.rollout.worker import AgentSpec
from opentinker.scheduler.check import Checked, check
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.finetune import base_model, corpus, demonstrate, finetune, model_folder
from opentinker.scheduler.loop import CoTraining
from opentinker.scheduler.watcher import Watcher

log = logging.getLogger(__name__)

_CORPUS = 256
"""random episodes whose texts the tiny model's tokenizer is trained on, when no job came before"""


def run_experiment(path: str | Path, overrides: Sequence[str], runs: Path, watcher: Watcher) -> Run:
    """Check everything, then run. Returns the finished run.

    Raises `ConfigError` before anything is started; a later error leaves a run that says how far it
    came.
    """
    checked = check(Path(path), load_experiment(path, overrides))
    _find_models(checked)
    with Cluster(num_cpus=os.cpu_count()) as cluster:
        return asyncio.run(_run_one(checked, runs, cluster, watcher))


async def _run_one(checked: Checked, runs: Path, cluster: Cluster, watcher: Watcher) -> Run:
    before = None
    if checked.after is not None:
        before = _finished(checked.after, runs)
        if before is None:
            before = await _run_one(checked.after, runs, cluster, watcher)
        else:
            watcher.phase(f"{before.folder} has what comes first")
    experiment = checked.experiment
    run = Run.create(runs, experiment.name, dump_experiment(experiment))
    watcher.phase(f"run folder {run.folder}")
    try:
        if isinstance(experiment, SFTExperiment):
            await finetune(checked, run, cluster, watcher)
        else:
            model = await _model(checked, run, before, cluster)
            await CoTraining(checked, model, run, cluster, watcher).run()
        draw(run)
    except asyncio.CancelledError:
        _leave(run, "interrupted", "stopped by the user")
        raise
    except BaseException as error:
        _leave(run, "failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        cluster.stop_all()
    run.set_status("succeeded", run.status()["step"])
    return run


def _leave(run: Run, state: State, message: str) -> None:
    """Write down how far the run came, and draw what there is."""
    run.set_status(state, run.status()["step"], message)
    if run.lines("metrics.jsonl"):
        draw(run)


def _finished(checked: Checked, runs: Path) -> Run | None:
    """A run of exactly this experiment that has succeeded, the newest."""
    text = dump_experiment(checked.experiment)
    found = runs.glob(f"{checked.experiment.name}*/status.json")
    for status in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
        run = Run(status.parent)
        same = (run.folder / "experiment.toml").read_text(encoding="utf-8") == text
        if same and run.status()["state"] == "succeeded":
            return run
    return None


async def _model(checked: Checked, run: Run, before: Run | None, cluster: Cluster) -> Path:
    if before is not None and (before.folder / "model").is_dir():
        return (before.folder / "model").resolve()
    if checked.experiment.model != "tiny":
        return model_folder(checked.experiment.model)
    agents = {"random": AgentSpec("random")}
    plan = replace(checked.plan, agents=agents)
    texts = corpus(await demonstrate(plan, dict.fromkeys(checked.seats, "random"), _CORPUS))
    tuner = cluster.worker("opentinker.scheduler.hosts:TunerHost", {"threads": 1})
    try:
        return await base_model(checked.experiment, run, tuner, texts)
    finally:
        cluster.stop(tuner)


def _find_models(checked: Checked) -> None:
    """Refuse a model that is not at hand, before anything starts."""
    if checked.experiment.model != "tiny":
        try:
            model_folder(checked.experiment.model)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{checked.source}: no model {checked.experiment.model!r}: neither 'tiny', nor "
                f"a folder with a config.json, nor in the local Hugging Face cache"
            ) from error
    if checked.after is not None:
        _find_models(checked.after)
