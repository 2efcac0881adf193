"""Where a policy's weights come from: its section of the experiment, as the learner takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentinker.errors import ConfigError
from opentinker.experiment import FrozenPolicy, FullPolicy, LoraPolicy, RLExperiment
from opentinker.learner.settings import FrozenSource, FullSource, LoraSource
from opentinker.recorder import Run
from opentinker.types import AdapterSpec

Source = LoraSource | FullSource | FrozenSource


def policy_sources(experiment: RLExperiment, runs: Path) -> dict[str, Source]:
    """The source of each policy; `RUN:POLICY` is looked up under `runs`.

    ConfigError: a folder that is not there, holds no weights, or holds others than asked for.
    """
    return {name: _source(name, section, runs) for name, section in experiment.policies.items()}


def is_adapter(folder: Path) -> bool:
    """Whether `folder` holds a LoRA adapter in PEFT's format."""
    return (folder / "adapter_config.json").is_file()


def served_alone(source: Source) -> bool:
    """Whether a policy is a whole model, with an engine of its own."""
    if isinstance(source, FrozenSource):
        return source.folder is not None and not is_adapter(Path(source.folder))
    return isinstance(source, FullSource)


def adapter_spec(source: Source) -> AdapterSpec | None:
    """The shape of the adapter that a source is; None for a whole model, or the base itself."""
    if isinstance(source, LoraSource):
        return source.spec
    if isinstance(source, FrozenSource) and source.folder and is_adapter(Path(source.folder)):
        return _spec_of(_adapter_config(Path(source.folder)))
    return None


def _source(name: str, section: LoraPolicy | FullPolicy | FrozenPolicy, runs: Path) -> Source:
    if isinstance(section, FrozenPolicy):
        if section.source is None:
            return FrozenSource()
        folder = _folder(f"policies.{name}.source", section.source, runs)
        if not is_adapter(folder):
            _whole(f"policies.{name}.source", folder)
        return FrozenSource(str(folder))
    if isinstance(section, FullPolicy):
        if section.model is None:
            return FullSource()
        folder = _folder(f"policies.{name}.model", section.model, runs)
        return FullSource(str(_whole(f"policies.{name}.model", folder)))
    alpha = 2.0 * section.rank if section.alpha is None else section.alpha
    spec = AdapterSpec(section.rank, alpha, tuple(section.targets))
    if section.start is None:
        return LoraSource(spec, section.init)
    folder = _folder(f"policies.{name}.start", section.start, runs)
    if not is_adapter(folder):
        raise ConfigError(
            f"policies.{name}.start: {str(folder)!r} has no adapter_config.json; a lora policy "
            "goes on from a PEFT folder"
        )
    theirs = _spec_of(_adapter_config(folder))
    if "rank" in section.model_fields_set and section.rank != theirs.rank:
        raise ConfigError(
            f"policies.{name}: rank is {section.rank}, the adapter in {str(folder)!r} has rank "
            f"{theirs.rank}; leave rank out, or start from another"
        )
    return LoraSource(theirs, section.init, str(folder))


def _folder(key: str, name: str, runs: Path) -> Path:
    """A folder as given, or of `RUN:POLICY` in that run's newest checkpoint."""
    if Path(name).is_dir():
        return Path(name).resolve()
    run, colon, policy = name.rpartition(":")
    if not colon:
        raise ConfigError(f"{key}: no folder {name!r}; allowed: a folder, or RUN:POLICY")
    checkpoint = Run.open(runs, run).latest_checkpoint()
    folder = checkpoint / "policies" / policy
    if not folder.is_dir():
        known = sorted(p.name for p in (checkpoint / "policies").iterdir() if p.is_dir())
        raise ConfigError(f"{key}: run {run!r} has no policy {policy!r}; it has {', '.join(known)}")
    return folder.resolve()


def _whole(key: str, folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{key}: {str(folder)!r} holds no model (no config.json)")
    return folder


def _adapter_config(folder: Path) -> Mapping[str, Any]:
    try:
        return json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{str(folder)!r}: adapter_config.json is torn: {error}") from error


def _spec_of(config: Mapping[str, Any]) -> AdapterSpec:
    targets = config["target_modules"]
    names = (targets,) if isinstance(targets, str) else tuple(sorted(targets))
    return AdapterSpec(int(config["r"]), float(config["lora_alpha"]), names)
