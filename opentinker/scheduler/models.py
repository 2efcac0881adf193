"""Finds the folder of the model that an experiment names."""

from __future__ import annotations

from pathlib import Path

from opentinker.errors import ConfigError, RenderingError
from opentinker.learner.smollm2 import NAME, smollm2
from opentinker.rendering import Renderer


def model_folder(name: str) -> Path:
    """The folder of a model: as given, of a run that made one, or of a hub id in the cache.

    `smollm2-135m` is made if it has to be. ConfigError: nothing of that name is on this machine;
    nothing is downloaded.
    """
    for folder in (Path(name) / "model", Path(name)):
        if (folder / "config.json").is_file():
            return folder.resolve()
    if name == NAME:
        return smollm2()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError) as error:
        raise ConfigError(
            f"no model {name!r}: neither 'tiny', {NAME!r}, a folder with a config.json, nor in the "
            f"local Hugging Face cache; a model of the hub is fetched first: hf download {name}"
        ) from error
    if not (folder / "config.json").is_file():
        raise ConfigError(f"model {name!r} is in the local Hugging Face cache without config.json")
    return folder


def check_model(name: str) -> None:
    """ConfigError for a model that is not at hand; RenderingError for a template that won't do."""
    folder = model_folder(name)
    try:
        Renderer.load(folder)
    except RenderingError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"model {name!r} has no tokenizer that loads: {error}") from error
