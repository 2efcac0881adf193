"""Policies over one shared base: a LoRA adapter each, or the base with all of them off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel

from opentinker.errors import CheckpointError, ConfigError
from opentinker.learner.peft_folder import read_spec, read_tensors
from opentinker.learner.settings import LoraSource
from opentinker.learner.weights import BaseModel
from opentinker.types import AdapterSpec, AdapterWeights


class Adapter:
    """An adapter of `base`, which must have one by that name."""

    def __init__(self, base: BaseModel, name: str) -> None:
        self._base = base
        self.name = name

    @property
    def device(self) -> torch.device:
        return self._base.device

    @contextmanager
    def active(self) -> Iterator[PreTrainedModel]:
        with self._base.active(self.name):
            yield self._base.network

    def parameters(self) -> dict[str, nn.Parameter]:
        return self._base.parameters(self.name)

    def export(self) -> AdapterWeights:
        return self._base.export(self.name)

    def save(self, folder: Path) -> None:
        self._base.save_peft(self.name, folder)

    def read(self, folder: Path) -> None:
        try:
            weights = AdapterWeights(self._base.spec(self.name), read_tensors(folder))
            self._base.load_adapter(self.name, weights)
        except ConfigError as error:
            raise CheckpointError(f"policy {self.name!r}: {error}") from error

    def copy(self) -> Adapter:
        other = Adapter(self._base, f"{self.name}@copy")
        self._base.add_adapter(other.name, self._base.spec(self.name))
        other.take(self)
        return other

    def take(self, other: Adapter) -> None:
        self._base.copy_adapter(other.name, self.name)


class Bare:
    """The base itself."""

    def __init__(self, base: BaseModel) -> None:
        self._base = base

    @property
    def device(self) -> torch.device:
        return self._base.device

    @contextmanager
    def active(self) -> Iterator[PreTrainedModel]:
        with self._base.active(None):
            yield self._base.network

    def export(self) -> AdapterWeights:
        raise ConfigError(
            f"the base model {self._base.model!r} has no weights of its own to export; engines "
            "serve it as it is"
        )


def fresh_adapter(base: BaseModel, name: str, source: LoraSource, seed: int) -> Adapter:
    """The adapter that `source` describes; ConfigError for a folder of another shape."""
    if source.start is None:
        base.add_adapter(name, source.spec, seed, init=source.init)
        return Adapter(base, name)
    theirs, own = read_spec(source.start), source.spec
    pairs = {
        "rank": (own.rank, theirs.rank),
        "alpha": (own.alpha, theirs.alpha),
        "targets": (set(base.targets(name, own)), set(base.targets(name, theirs))),
    }
    for what, (wanted, found) in pairs.items():
        if wanted != found:
            wanted, found = (_listed(value) for value in (wanted, found))
            raise ConfigError(
                f"policy {name!r}: {what} {wanted} is asked for, the adapter in {source.start!r} "
                f"has {what} {found}"
            )
    base.load_adapter(name, AdapterWeights(own, read_tensors(source.start)))
    return Adapter(base, name)


def frozen_adapter(base: BaseModel, name: str, folder: str) -> Adapter:
    """The adapter of a PEFT folder as it is; ConfigError where it doesn't fit the base."""
    spec: AdapterSpec = read_spec(folder)
    base.targets(name, spec)
    base.load_adapter(name, AdapterWeights(spec, read_tensors(folder)))
    return Adapter(base, name)


def _listed(value: object) -> str:
    return ", ".join(sorted(value)) if isinstance(value, set) else f"{value:g}"
