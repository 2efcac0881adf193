"""Where a fit's examples are: a file beside the experiment's, or the transcripts of a run."""

from __future__ import annotations

from pathlib import Path

from opentinker.finetuning import DPOExperiment, SFTExperiment
from opentinker.recorder import Run
from opentinker.scheduler import transcripts
from opentinker.scheduler.dataset import Chat, Pair, read_chats, read_pairs


def load_data(
    experiment: SFTExperiment | DPOExperiment, source: Path, runs: Path
) -> list[Chat] | list[Pair]:
    """The examples of `data.file` or `data.run`; none where the cast plays them.

    The file is looked for beside `source`, the run under `runs`. ConfigError says what is wrong
    with them.
    """
    data = experiment.data
    preferences = isinstance(experiment, DPOExperiment)
    if data.file is not None:
        path = source.parent / data.file
        return read_pairs(path) if preferences else read_chats(path)
    if data.run is None:
        return []
    found = transcripts.chosen(Run.open(runs, data.run), data)
    if isinstance(experiment, DPOExperiment):
        return transcripts.pairs(found)
    return transcripts.chats(transcripts.best(found, experiment.data))
