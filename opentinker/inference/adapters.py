"""Who is in which slot: each (policy, version) has an adapter name, id and folder of its own.

Names and ids are never used twice, also not for a version that is published a second time: vLLM's
prefix cache is keyed by name and path, and answers from a stale one otherwise.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from opentinker.errors import EngineError, UnknownNameError
from opentinker.types import (
    BASE,
    AdapterSpec,
    AdapterWeights,
    PolicyVersion,
    SampleRequest,
    Weights,
)


@dataclass(frozen=True, slots=True)
class Adapter:
    """One published version as an engine knows it; `folder` holds it in PEFT's format."""

    version: PolicyVersion
    name: str
    id: int
    folder: Path


class VersionTable:
    """The adapters that can be asked for, and how many requests each is answering.

    Any thread may call it. Ids start at `first_id`.
    """

    def __init__(self, home: Path, first_id: int = 1) -> None:
        self._home = home
        self._ids = itertools.count(first_id)
        self._lock = threading.Lock()
        self._reserved: set[PolicyVersion] = set()
        self._served: dict[PolicyVersion, Adapter] = {}
        self._asked: Counter[Adapter] = Counter()
        self._retired: set[Adapter] = set()

    def reserve(self, version: PolicyVersion) -> Adapter:
        """A new adapter for `version`, which nobody can ask for before `serve`."""
        if version.policy == BASE:
            raise EngineError(f"{BASE!r} is the base model's name; a policy can't be published so")
        with self._lock:
            if version in self._served or version in self._reserved:
                raise EngineError(
                    f"policy {version.policy!r} version {version.version} is published already; "
                    "a version's weights never change"
                )
            self._reserved.add(version)
            number = next(self._ids)
        name = f"{re.sub(r'[^A-Za-z0-9_-]', '_', version.policy)}-v{version.version}-{number}"
        return Adapter(version, name, number, self._home / name)

    def forget(self, adapter: Adapter) -> None:
        """Give up a reservation."""
        with self._lock:
            self._reserved.discard(adapter.version)

    def serve(self, adapter: Adapter) -> None:
        """From now on requests can have it."""
        with self._lock:
            self._reserved.discard(adapter.version)
            self._served[adapter.version] = adapter

    def bind(self, requests: Sequence[SampleRequest]) -> list[Adapter | None]:
        """The adapter of each request, None for the base; `release` each when it is answered."""
        with self._lock:
            adapters = [self._find(request) for request in requests]
            self._asked.update(adapter for adapter in adapters if adapter is not None)
        return adapters

    def release(self, adapter: Adapter) -> bool:
        """One request is answered; True where the adapter is to be dropped now."""
        with self._lock:
            self._asked[adapter] -= 1
            if self._asked[adapter] > 0:
                return False
            del self._asked[adapter]
            dropped = adapter in self._retired
            self._retired.discard(adapter)
        return dropped

    def retire(self, version: PolicyVersion) -> Adapter | None:
        """Serve it no more; returns the adapter where it is idle and to be dropped now."""
        with self._lock:
            if version not in self._served:
                raise self._unknown(version.policy, version.version)
            adapter = self._served.pop(version)
            if self._asked[adapter] > 0:
                self._retired.add(adapter)
                return None
            del self._asked[adapter]
        return adapter

    def versions(self) -> list[PolicyVersion]:
        with self._lock:
            return sorted(self._served, key=lambda version: (version.policy, version.version))

    def _find(self, request: SampleRequest) -> Adapter | None:
        if request.policy == BASE:
            if request.version not in (None, 0):
                raise EngineError(f"the base model has version 0 only, not {request.version}")
            return None
        number = request.version
        if number is None:
            number = max(self._numbers(request.policy), default=None)
        adapter = None
        if number is not None:
            adapter = self._served.get(PolicyVersion(request.policy, number))
        if adapter is None:
            raise self._unknown(request.policy, number)
        return adapter

    def _numbers(self, policy: str) -> list[int]:
        return sorted(version.version for version in self._served if version.policy == policy)

    def _unknown(self, policy: str, number: int | None) -> EngineError:
        numbers = self._numbers(policy)
        if numbers:
            return EngineError(
                f"policy {policy!r} has no version {number} here; published: "
                f"{', '.join(map(str, numbers))}; one that was retired must be published again"
            )
        known = {version.policy for version in self._served} | {BASE}
        return EngineError(UnknownNameError("policy", policy, known, "published ones").message)


def check_weights(version: PolicyVersion, weights: Weights, max_rank: int) -> AdapterWeights:
    """The weights again; EngineError where they are no finite LoRA adapter of the spec's rank."""
    who = f"policy {version.policy!r} version {version.version}"
    if not isinstance(weights, AdapterWeights):
        raise EngineError(f"{who}: this engine serves adapters, and was given whole weights")
    rank = weights.spec.rank
    fault = ""
    if not 1 <= rank <= max_rank:
        fault = f"its rank is {rank}; the engine takes 1 to {max_rank}"
    elif not weights.tensors:
        fault = "it has no tensors"
    for name, tensor in weights.tensors.items():
        if fault:
            break
        if not name.endswith((".lora_A.weight", ".lora_B.weight")):
            fault = f"{name!r} is no name of a LoRA tensor (...lora_A.weight, ...lora_B.weight)"
        elif _partner(name) not in weights.tensors:
            fault = f"{name!r} has no {_partner(name)!r} beside it"
        elif tensor.shape[0 if ".lora_A." in name else 1] != rank:
            fault = f"{name!r} has shape {tensor.shape}, its spec rank {rank}"
        elif not np.isfinite(tensor).all():
            fault = f"{name!r} holds values that are not finite"
    if fault:
        raise EngineError(f"{who}: {fault}")
    return weights


def _partner(name: str) -> str:
    if ".lora_A." in name:
        return name.replace(".lora_A.", ".lora_B.")
    return name.replace(".lora_B.", ".lora_A.")


_HOME = "opentinker-adapters-"


def make_home(work_dir: str | None) -> Path:
    """A new folder in `work_dir`, by default in memory (/dev/shm) or the temporary one.

    Those that killed processes left beside it are removed.
    """
    if work_dir is not None:
        Path(work_dir).mkdir(parents=True, exist_ok=True)
    elif os.access("/dev/shm", os.W_OK):
        work_dir = "/dev/shm"
    home = Path(tempfile.mkdtemp(prefix=f"{_HOME}{os.getpid()}-", dir=work_dir))
    for other in home.parent.glob(f"{_HOME}*-*"):
        owner = other.name.removeprefix(_HOME).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(other, ignore_errors=True)
    return home


def write_adapter(folder: Path, weights: AdapterWeights) -> None:
    """Write `weights` as a folder that PEFT and vLLM load; it is there whole or not at all."""
    beside = folder.with_name(folder.name + ".writing")
    beside.mkdir(parents=True)
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in weights.tensors.items()}
    save_file(tensors, beside / "adapter_model.safetensors", metadata={"format": "pt"})
    (beside / "adapter_config.json").write_text(json.dumps(_peft_config(weights.spec)))
    beside.rename(folder)


def delete_adapter(folder: Path) -> None:
    """Remove what `write_adapter` wrote, also a half of it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder.with_name(folder.name + ".writing"), ignore_errors=True)


def _peft_config(spec: AdapterSpec) -> dict[str, object]:
    whole = spec.targets == ("all-linear",)
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": spec.rank,
        "lora_alpha": spec.alpha,
        "target_modules": "all-linear" if whole else list(spec.targets),
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }
