"""Where a policy's weights come from and how it learns: its part of the experiment, resolved."""

from __future__ import annotations

from pathlib import Path

from opentinker.errors import ConfigError
from opentinker.experiment import FrozenPolicy, FullPolicy, LoraPolicy, RLExperiment
from opentinker.learner.peft_folder import is_adapter, read_spec
from opentinker.learner.settings import FrozenSource, FullSource, LoraSource, PolicySettings, Source
from opentinker.recorder import Run
from opentinker.scheduler.checkpoints import newest_checkpoint, policy_folder
from opentinker.types import AdapterSpec


def policy_sources(experiment: RLExperiment, runs: Path) -> dict[str, Source]:
    """The source of each policy; `RUN:POLICY` is looked up under `runs`.

    ConfigError: a folder that is not there, holds no weights, or holds others than asked for.
    """
    return {name: _source(name, section, runs) for name, section in experiment.policies.items()}


def policy_settings(experiment: RLExperiment, policy: str, *, critic: bool) -> PolicySettings:
    """How a trainable policy learns; ConfigError for settings that don't go together."""
    section, train = experiment.policies[policy], experiment.train
    assert not isinstance(section, FrozenPolicy)
    cap = train.importance_cap
    if cap is None and train.max_staleness > 0 and "importance_cap" not in train.loss_options:
        cap = 2.0
    return PolicySettings(
        learning_rate=section.learning_rate,
        entropy=section.entropy,
        kl=section.kl,
        reference=section.reference,
        reference_every=section.reference_every,
        max_grad_norm=train.max_grad_norm,
        loss=train.loss,
        loss_options=train.loss_options,
        importance_cap=cap,
        normalization=train.normalization,
        normalization_tokens=train.normalization_tokens or experiment.sampling.max_tokens,
        temperature=experiment.sampling.temperature,
        epochs=train.epochs,
        minibatches=train.minibatches,
        critic=critic,
        value_coefficient=train.value_coefficient,
        max_skipped=train.max_skipped,
    )


def served_alone(source: Source) -> bool:
    """Whether a policy is a whole model, with an engine of its own."""
    if isinstance(source, FrozenSource):
        return source.folder is not None and not is_adapter(source.folder)
    return isinstance(source, FullSource)


def adapter_spec(source: Source) -> AdapterSpec | None:
    """The shape of the adapter that a source is; None for a whole model, or the base itself."""
    if isinstance(source, LoraSource):
        return source.spec
    if isinstance(source, FrozenSource) and source.folder and is_adapter(source.folder):
        return read_spec(source.folder)
    return None


def _source(name: str, section: LoraPolicy | FullPolicy | FrozenPolicy, runs: Path) -> Source:
    if isinstance(section, FrozenPolicy):
        if section.source is None:
            return FrozenSource()
        folder = _folder(f"policies.{name}.source", section.source, runs)
        if is_adapter(folder):
            read_spec(folder)  # what can't be taken is refused now
        else:
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
    theirs = read_spec(folder)
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
    found = Run.open(runs, run)
    try:
        return policy_folder(found, newest_checkpoint(found), policy)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


def _whole(key: str, folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{key}: {str(folder)!r} holds no model (no config.json)")
    return folder
