"""Supervised fine-tuning of a whole model on what a cast plays: the `sft` job."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opentinker.config import Experiment, SFTExperiment
from opentinker.errors import EnvironmentFault
from opentinker.recorder import Run
from opentinker.rendering import Conversation, Renderer
from opentinker.rollout.worker import NoSampler, RolloutPlan, RolloutWorker
from opentinker.scheduler.check import Checked
from opentinker.scheduler.cluster import Cluster, Worker
from opentinker.scheduler.watcher import Watcher
from opentinker.types import Episode, EpisodeRequest

log = logging.getLogger(__name__)

_CHUNK = 20
"""steps of the fit between two words of progress"""


async def finetune(checked: Checked, run: Run, cluster: Cluster, watcher: Watcher) -> Path:
    """Play, make examples, fit, and leave a new model in the run's folder `model`."""
    experiment = checked.experiment
    assert isinstance(experiment, SFTExperiment)
    tuner = cluster.worker(
        "opentinker.scheduler.hosts:TunerHost",
        {"threads": experiment.resources.learner_threads},
        threads=experiment.resources.learner_threads,
    )
    watcher.phase(f"playing {experiment.data.episodes} episodes to learn from")
    episodes = await demonstrate(checked.plan, checked.cast, experiment.data.episodes)
    run.write_episodes(0, episodes[:64])
    model = await base_model(experiment, run, tuner, corpus(episodes))
    renderer = Renderer.load(model)
    seen = examples(episodes, renderer)
    watcher.phase(f"fine-tuning on {len(seen)} conversations")
    fit = experiment.fit
    options = {
        "steps": fit.steps,
        "learning_rate": fit.learning_rate,
        "batch_tokens": fit.batch_tokens,
        "validation": fit.validation,
        "seed": experiment.seed,
    }
    await tuner.call("begin", str(model), seen, options)
    while rows := await tuner.call("advance", _CHUNK):
        for row in rows:
            run.append("metrics.jsonl", row)
        merged = {key: value for row in rows for key, value in row.items()}
        run.set_status("running", int(merged["step"]))
        watcher.step(merged, int(merged["step"]), fit.steps)
    target = run.folder / "model"
    await tuner.call("save", str(target))
    return target


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
    texts = (text for e in episodes for turn in e.turns for text in (turn.observation, turn.text))
    return list(dict.fromkeys(texts))


def examples(
    episodes: Sequence[Episode], renderer: Renderer
) -> list[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
    """Each seat's conversation as ids [T] and which of them are learned [T]: its legal answers."""
    found = []
    for episode in episodes:
        for seat in episode.returns:
            turns = [turn for turn in episode.turns if turn.seat == seat]
            conversation = Conversation(renderer)
            learned: list[bool] = []
            for turn in turns:
                added, _ = conversation.ask(turn.observation)
                answer = renderer.answer_ids(turn.text)
                conversation.answered(answer)
                learned += [False] * len(added) + [turn.legal] * len(answer)
            if any(learned):
                ids = np.array(conversation.ids, dtype=np.int32)
                found.append((ids, np.array(learned, dtype=np.bool_)))
    return found


async def base_model(experiment: Experiment, run: Run, tuner: Worker, texts: Sequence[str]) -> Path:
    """The folder of the model that `experiment` starts from; the tiny one is made in the run."""
    if experiment.model != "tiny":
        return model_folder(experiment.model)
    options = {"seed": experiment.seed, **experiment.tiny.model_dump()}
    folder = run.folder.resolve() / "base"
    return Path(await tuner.call("make_tiny", str(folder), list(texts), options))


def model_folder(name: str) -> Path:
    """The folder of a model: as given, of a run that made one, or of a hub id in the cache."""
    for folder in (Path(name) / "model", Path(name)):
        if (folder / "config.json").is_file():
            return folder.resolve()
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, local_files_only=True))
