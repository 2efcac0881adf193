"""Runs an experiment from its file to a finished run: what it comes after first, then itself."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opentinker.analysis.plots import draw
from opentinker.config import dump_experiment, load_experiment
from opentinker.errors import CheckpointError, ConfigError, RenderingError
from opentinker.experiment import RLExperiment
from opentinker.recorder import Run, State
from opentinker.rollout.worker import AgentSpec
from opentinker.scheduler.check import Checked, check
from opentinker.scheduler.checkpoints import MODEL, noted_base
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.finetune import base_model, corpus, demonstrate, finetune
from opentinker.scheduler.learned import load_data
from opentinker.scheduler.loop import CoTraining
from opentinker.scheduler.models import check_model, model_folder
from opentinker.scheduler.resuming import take_up
from opentinker.scheduler.sources import policy_sources
from opentinker.scheduler.watcher import Watcher

log = logging.getLogger(__name__)

_CORPUS = 256
"""random episodes whose texts the tiny model's tokenizer is trained on, when no job came before"""


def run_experiment(
    path: str | Path,
    overrides: Sequence[str],
    runs: Path,
    watcher: Watcher,
    resume: str | None = None,
) -> Run:
    """Check everything, then run, or go on with the run `resume`. Returns the finished run.

    Raises `ConfigError` before anything is started; a later error leaves a run that says how far it
    came.
    """
    checked = check(Path(path), load_experiment(path, overrides))
    _find_models(checked)
    run = None if resume is None else take_up(Run.open(runs, resume), checked.experiment)
    if run is None:
        _find_weights(checked, runs)
    with Cluster(num_cpus=os.cpu_count()) as cluster:
        return asyncio.run(_run_one(checked, runs, cluster, watcher, run))


async def _run_one(
    checked: Checked, runs: Path, cluster: Cluster, watcher: Watcher, taken_up: Run | None = None
) -> Run:
    experiment = checked.experiment
    run = taken_up
    before = None
    if checked.after is not None and (run is None or not run.read_json(MODEL)):
        before = _finished(checked.after, runs)
        if before is None:
            before = await _run_one(checked.after, runs, cluster, watcher)
        else:
            watcher.phase(f"{before.folder} has what comes first")
    if run is None:
        run = Run.create(runs, experiment.name, dump_experiment(experiment))
        run.claim()
    watcher.phase(f"run folder {run.folder}")
    resume = taken_up is not None
    try:
        if isinstance(experiment, RLExperiment):
            model = await _model(checked, run, before, cluster)
            sources = policy_sources(experiment, runs)
            job = CoTraining(checked, sources, model, run, cluster, watcher)
            await job.run(resume=resume)
        else:
            noted = run.read_json(MODEL)
            model = await _model(checked, run, before, cluster) if before or noted else None
            await finetune(checked, run, cluster, watcher, model=model, resume=resume)
        draw(run)
    except asyncio.CancelledError:
        _leave(run, "interrupted", "stopped by the user")
        raise
    except BaseException as error:
        _leave(run, "failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        cluster.stop_all()
        run.release()
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
    """The folder of the base model; a run that is taken up has it noted, as seen from the run."""
    noted = noted_base(run)
    if noted is not None:
        return noted
    if before is not None:
        model = _left_by(before)
    elif checked.experiment.model != "tiny":
        model = model_folder(checked.experiment.model)
    else:
        model = await _tiny(checked, run, cluster)
    run.write_json(MODEL, {"folder": os.path.relpath(model, run.folder.resolve())})
    return model


def _left_by(before: Run) -> Path:
    """What an earlier job made, or else what it started from."""
    base = before.read_json(MODEL).get("folder", "base")
    for folder in (before.folder / "model", before.folder / base):
        if (folder / "config.json").is_file():
            return folder.resolve()
    raise CheckpointError(f"the run {before.folder} has left no model")


async def _tiny(checked: Checked, run: Run, cluster: Cluster) -> Path:
    agents = {"random": AgentSpec("random")}
    plan = replace(checked.plan, agents=agents)
    texts = corpus(await demonstrate(plan, dict.fromkeys(checked.seats, "random"), _CORPUS))
    tuner = cluster.worker("opentinker.scheduler.hosts:TunerHost", {"threads": 1})
    try:
        return await base_model(checked.experiment, run, tuner, texts)
    finally:
        cluster.stop(tuner)


def _find_weights(checked: Checked, runs: Path) -> None:
    """Refuse policies or examples that are not at hand, before anything starts.

    What names a run may name the one that comes first: then it is looked for once that has ended.
    """
    experiment = checked.experiment
    if not isinstance(experiment, RLExperiment):
        if experiment.data.file is not None or checked.after is None:
            load_data(experiment, checked.source, runs)
    elif checked.after is None:
        try:
            policy_sources(experiment, runs)
        except ConfigError as error:
            raise ConfigError(f"{checked.source}: {error}") from error
    if checked.after is not None:
        _find_weights(checked.after, runs)


def _find_models(checked: Checked) -> None:
    """Refuse a model that is not at hand or can't be talked to, before anything starts."""
    if checked.experiment.model != "tiny":
        try:
            check_model(checked.experiment.model)
        except (ConfigError, RenderingError) as error:
            raise ConfigError(f"{checked.source}: {error}") from error
    if checked.after is not None:
        _find_models(checked.after)
