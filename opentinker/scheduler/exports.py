"""A policy of a run, written for others to load: PEFT, transformers, vLLM."""

from __future__ import annotations

from pathlib import Path

from opentinker.errors import CheckpointError, ConfigError
from opentinker.learner.peft_folder import is_adapter
from opentinker.recorder import Run
from opentinker.scheduler.checkpoints import noted_base, policy_folder


def export_run(
    run: Run,
    policy: str,
    out: Path | None,
    *,
    step: int | None = None,
    best: bool = False,
    merged: bool = False,
) -> tuple[Path, Path | None]:
    """Write `policy` into `out`; gives that folder, and the base that an adapter needs.

    It is of the newest checkpoint, the `best` one, or that of `step`. ConfigError: no such policy
    or checkpoint, an `out` that holds something else.
    """
    from opentinker.learner.exporting import export_policy

    checkpoint = _checkpoint(run, step, best)
    source = policy_folder(run, checkpoint, policy)
    base = noted_base(run)
    assert base is not None, "a run with a checkpoint has a base model"
    target = out or run.folder / "export" / (f"{policy}-merged" if merged else policy)
    if out is not None and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{str(target)!r} is there already; name a new folder")
    adapter = is_adapter(source)
    if merged and not adapter:
        raise ConfigError(f"policy {policy!r} is a whole model; there is nothing to merge")
    export_policy(source, str(base), target, merged=merged)
    return target, base if adapter and not merged else None


def _checkpoint(run: Run, step: int | None, best: bool) -> Path:
    if best:
        return run.best_checkpoint()
    if step is None:
        return run.latest_checkpoint()
    kept = {int(path.name.removeprefix("step-")): path for path in run.checkpoints()}
    if step not in kept:
        raise CheckpointError(
            f"the run {run.folder} keeps no checkpoint of step {step}; it has "
            f"{', '.join(map(str, kept)) or 'none'}"
        )
    return kept[step]
