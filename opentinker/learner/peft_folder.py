"""Adapters in the folders that PEFT saves: read, and refused where they are of another kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from opentinker.errors import ConfigError
from opentinker.types import AdapterSpec

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"

_PLAIN = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "use_dora": (False, None),
    "use_rslora": (False, None),
    "fan_in_fan_out": (False, None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "modules_to_save": ([], None),
}
"""Options of PEFT's that change what an adapter does, and the values at which it is plain LoRA."""


def is_adapter(folder: str | Path) -> bool:
    """Whether `folder` holds a LoRA adapter in PEFT's format."""
    return (Path(folder) / CONFIG).is_file()


def read_spec(folder: str | Path) -> AdapterSpec:
    """The adapter's shape; ConfigError where there is none, or it is more than plain LoRA."""
    file = Path(folder) / CONFIG
    if not file.is_file():
        raise ConfigError(f"{str(folder)!r} holds no adapter (no {CONFIG})")
    try:
        config: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        targets = config["target_modules"]
        names = (targets,) if isinstance(targets, str) else tuple(sorted(targets))
        spec = AdapterSpec(int(config["r"]), float(config["lora_alpha"]), names)
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"{str(file)!r} is not PEFT's: {error!r}") from error
    for option, plain in _PLAIN.items():
        if option in config and config[option] not in plain:
            raise ConfigError(
                f"{str(file)!r} has {option} = {config[option]!r}; only plain LoRA can be taken"
            )
    return spec


def read_tensors(folder: str | Path) -> dict[str, NDArray[np.float32]]:
    """The adapter's values; ConfigError where they are missing or torn."""
    from safetensors.torch import load_file  # numpy has no bfloat16; the driver loads no torch

    file = Path(folder) / TENSORS
    if not file.is_file():
        raise ConfigError(f"{str(folder)!r} holds no adapter (no {TENSORS})")
    try:
        return {name: tensor.float().numpy() for name, tensor in load_file(file).items()}
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{str(file)!r} can't be read: {error}") from error
