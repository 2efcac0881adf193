"""What a run left behind: the policies of its checkpoints, and the base that they lie over."""

from __future__ import annotations

from pathlib import Path

from opentinker.errors import CheckpointError, ConfigError, UnknownNameError
from opentinker.recorder import Run

MODEL = "model.json"
"""In a run's folder: where its base model is, as seen from there."""


def newest_checkpoint(run: Run) -> Path:
    """The run's newest whole checkpoint; ConfigError where it has none."""
    try:
        return run.latest_checkpoint()
    except CheckpointError as error:
        raise ConfigError(f"{error}; nothing of it can be taken yet") from error


def policy_folder(run: Run, checkpoint: Path, policy: str) -> Path:
    """The folder of a trained policy in a checkpoint; UnknownNameError where there is none."""
    known = {path.name: path for path in (checkpoint / "policies").glob("*") if path.is_dir()}
    if policy not in known:
        raise UnknownNameError("policy", policy, known, f"of the run {run.folder}")
    return known[policy].resolve()


def noted_base(run: Run) -> Path | None:
    """The folder of the run's base model, None before it has one; CheckpointError if it's gone."""
    noted = run.read_json(MODEL)
    if not noted:
        return None
    folder = run.folder / noted["folder"]
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"the run's base model {str(folder)!r} is gone")
    return folder.resolve()
