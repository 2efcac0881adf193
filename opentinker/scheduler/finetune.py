"""Fine-tuning on conversations or on preferences: the `sft` and the `dpo` job."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentinker.config import Experiment
from opentinker.errors import EnvironmentFault
from opentinker.finetuning import DPOExperiment, FitSection, FittedSection, SFTExperiment
from opentinker.recorder import Run
from opentinker.rendering import Renderer
from opentinker.rollout.worker import NoSampler, RolloutPlan, RolloutWorker
from opentinker.scheduler import transcripts
from opentinker.scheduler.check import Checked
from opentinker.scheduler.cluster import Cluster, Worker
from opentinker.scheduler.dataset import Chat, Pair, read_chats, read_pairs, texts, write_lines
from opentinker.scheduler.learned import load_data
from opentinker.scheduler.models import model_folder
from opentinker.scheduler.rendered import length_limit, render_chat, render_pair, within
from opentinker.scheduler.watcher import Watcher
from opentinker.types import AdapterSpec, Episode, EpisodeRequest

log = logging.getLogger(__name__)

LEARNED = "data/examples.jsonl"
"""In a run's folder: what is learned, as it is read back when the run is taken up."""

_CHUNK = 20
"""steps of the fit between two words of progress"""

_KEPT = 2
"""checkpoints"""

_RANK = 8


async def finetune(
    checked: Checked,
    run: Run,
    cluster: Cluster,
    watcher: Watcher,
    *,
    model: Path | None = None,
    resume: bool = False,
) -> Path:
    """Gather examples, fit, and leave a new model in the run's folder `model`, or an `adapter`.

    `model` is the folder to start from; None is what the experiment says. With `resume` the fit
    goes on from the run's newest checkpoint.
    """
    experiment = checked.experiment
    assert isinstance(experiment, SFTExperiment | DPOExperiment)
    learned = await _examples(checked, experiment, run, watcher)
    tuner = cluster.worker(
        "opentinker.scheduler.hosts:TunerHost",
        {"threads": experiment.resources.learner_threads},
        threads=experiment.resources.learner_threads,
    )
    base = model or await base_model(experiment, run, tuner, texts(learned))
    renderer = Renderer.load(base)
    items = [
        render_pair(each, renderer) if isinstance(each, Pair) else (render_chat(each, renderer),)
        for each in learned
    ]
    kept = within(items, length_limit(base, experiment.fit.max_length))
    begun = await tuner.call("begin", str(base), kept, fit_options(experiment))
    if resume:
        step = await _take_up(run, tuner)
        watcher.phase(f"going on from step {step}")
    watcher.phase(f"fitting {len(kept)} examples for {begun['steps']} steps")
    await _fit(run, tuner, watcher, begun, len(items) - len(kept))
    target = run.folder / ("model" if experiment.policy.kind == "full" else "adapter")
    best = await tuner.call("finish", str(target.resolve()))
    if best["stopped"]:
        watcher.phase(
            f"no better val_loss for a while: the weights of step {best['step']} are kept, whose "
            f"val_loss is {best['val_loss']:.4f}"
        )
    return target


def fit_options(experiment: SFTExperiment | DPOExperiment) -> dict[str, Any]:
    """What a tuner's `begin` is told beside the model and the examples."""
    fit: FitSection = experiment.fit
    told = ("steps", "epochs", "learning_rate", "batch_tokens", "packing", "validation")
    settings = {name: getattr(fit, name) for name in (*told, "evaluate_every", "patience")}
    if fit.epochs is None:
        del settings["epochs"]
    return {
        "settings": {**settings, "seed": experiment.seed},
        "adapter": _adapter(experiment.policy),
        "beta": experiment.fit.beta if isinstance(experiment, DPOExperiment) else None,
    }


async def demonstrate(plan: RolloutPlan, cast: Mapping[str, str], count: int) -> list[Episode]:
    """Episodes of a cast without policies, played in this process."""
    worker = RolloutWorker(replace(plan, policies={}), NoSampler())
    requests = [EpisodeRequest(f"demo-{i}", f"demo-{i}", i, cast) for i in range(count)]
    episodes = await worker.play(requests)
    failed = [e for e in episodes if e.outcome == "failed"]
    if len(failed) == len(episodes):
        raise EnvironmentFault(f"all {len(failed)} episodes failed; the first: {failed[0].reason}")
    if failed:
        log.warning("%d of %d episodes failed: %s", len(failed), count, failed[0].reason)
    return [e for e in episodes if e.outcome != "failed"]


def corpus(episodes: Sequence[Episode]) -> list[str]:
    """Every text that was shown or said, each once, in order."""
    found = (text for e in episodes for turn in e.turns for text in (turn.observation, turn.text))
    return list(dict.fromkeys(found))


async def base_model(
    experiment: Experiment, run: Run, tuner: Worker, learned: Sequence[str]
) -> Path:
    """The folder of the model that `experiment` starts from; the tiny one is made in the run."""
    if experiment.model != "tiny":
        return model_folder(experiment.model)
    options = {"seed": experiment.seed, **experiment.tiny.model_dump()}
    folder = run.folder.resolve() / "base"
    return Path(await tuner.call("make_tiny", str(folder), list(learned), options))


async def _examples(
    checked: Checked, experiment: SFTExperiment | DPOExperiment, run: Run, watcher: Watcher
) -> list[Chat] | list[Pair]:
    """What is learned, also written into the run, where one that is taken up finds it."""
    path = run.folder / LEARNED
    if path.is_file():
        return read_pairs(path) if isinstance(experiment, DPOExperiment) else read_chats(path)
    if isinstance(experiment, SFTExperiment) and experiment.data.episodes is not None:
        watcher.phase(f"playing {experiment.data.episodes} episodes to learn from")
        episodes = await demonstrate(checked.plan, checked.cast, experiment.data.episodes)
        run.write_episodes(0, episodes[:64])
        found = transcripts.chats(transcripts.parts(episodes))
    else:
        found = load_data(experiment, checked.source, run.folder.parent)
    write_lines(path, found)
    return found


async def _fit(
    run: Run, tuner: Worker, watcher: Watcher, begun: Mapping[str, int], skipped: int
) -> None:
    """All steps, with a word of progress now and then and a checkpoint at every look."""
    steps, every = begun["steps"], begun["every"]
    step = await tuner.call("step")
    while rows := await tuner.call("advance", min(_CHUNK, every - step % every)):
        for row in rows:
            run.append("metrics.jsonl", {**row, "skipped_examples": skipped})
        merged = {key: value for row in rows for key, value in row.items()}
        step = int(merged["step"])
        run.set_status("running", step)
        watcher.step(merged, step, steps)
        if step % every == 0 or step == steps:
            await _checkpoint(run, tuner, step)


async def _checkpoint(run: Run, tuner: Worker, step: int) -> None:
    pending = run.folder.resolve() / "checkpoints" / "fit.part"
    await tuner.call("checkpoint", str(pending))
    run.checkpoint(step, lambda folder: _move(pending, folder / "fit"), _KEPT)


def _move(pending: Path, target: Path) -> None:
    pending.rename(target)


async def _take_up(run: Run, tuner: Worker) -> int:
    """Set the fit to the newest checkpoint, if there is one, and forget what came after it."""
    step = 0
    if run.checkpoints():
        folder = run.latest_checkpoint()
        step = int(json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["step"])
        await tuner.call("restore", str((folder / "fit").resolve()))
    run.rewind(step)
    return step


def _adapter(section: FittedSection) -> AdapterSpec | None:
    if section.kind == "full":
        return None
    rank = section.rank or _RANK
    alpha = 2.0 * rank if section.alpha is None else section.alpha
    return AdapterSpec(rank, alpha, tuple(section.targets or ["all-linear"]))
