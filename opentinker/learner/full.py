"""Policies that are whole models, each with a network of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedModel

from opentinker.errors import CheckpointError, ConfigError
from opentinker.learner.weights import load_network
from opentinker.types import FullWeights


class FullModel:
    """A network, every weight of it, and the folder that its tokenizer is in.

    The values of weights that are tied to one another are held, exported and saved once.
    """

    def __init__(self, network: PreTrainedModel, words: str) -> None:
        self._network = network.eval()
        self._words = words

    @property
    def device(self) -> torch.device:
        return self._network.device

    @contextmanager
    def active(self) -> Iterator[PreTrainedModel]:
        yield self._network

    def parameters(self) -> dict[str, nn.Parameter]:
        return dict(self._network.named_parameters())

    def export(self) -> FullWeights:
        return FullWeights(
            {
                name: np.array(tensor.float().cpu().numpy())
                for name, tensor in _tensors(self._network).items()
            }
        )

    def save(self, folder: Path) -> None:
        """Write a folder of transformers, with the tokenizer."""
        self._network.save_pretrained(folder)
        AutoTokenizer.from_pretrained(self._words).save_pretrained(folder)

    def read(self, folder: Path) -> None:
        try:
            theirs = _tensors(load_network(str(folder)))
        except ConfigError as error:
            raise CheckpointError(f"a whole model can't be read: {error}") from error
        own = _tensors(self._network)
        if odd := own.keys() ^ theirs.keys():
            raise CheckpointError(
                f"the model in {str(folder)!r} is another: {min(odd)!r} is in one, not in the other"
            )
        for name, tensor in own.items():
            if theirs[name].shape != tensor.shape:
                raise CheckpointError(
                    f"the model in {str(folder)!r} is another: {name!r} has shape "
                    f"{tuple(theirs[name].shape)}, not {tuple(tensor.shape)}"
                )
        for name, tensor in own.items():
            tensor.copy_(theirs[name])

    def copy(self) -> FullModel:
        """In memory a second network, which takes no gradients."""
        other = FullModel(copy.deepcopy(self._network), self._words)
        other._network.requires_grad_(False)
        return other

    def take(self, other: FullModel) -> None:
        theirs = _tensors(other._network)
        for name, tensor in _tensors(self._network).items():
            tensor.copy_(theirs[name])


def trainable_model(model: str, base: str) -> FullModel:
    """The model in a folder, in float32; the tokenizer is `base`'s where it has none itself."""
    network = load_network(model)
    network.to(_device())  # pyright: ignore[reportArgumentType]
    own = (Path(model) / "tokenizer_config.json").is_file()
    return FullModel(network, model if own else base)


def frozen_model(model: str, dtype: str | None) -> FullModel:
    """The model in a folder, which takes no gradients."""
    network = load_network(model, dtype)
    network.to(_device())  # pyright: ignore[reportArgumentType]
    network.requires_grad_(False)
    return FullModel(network, model)


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _tensors(network: PreTrainedModel) -> dict[str, Tensor]:
    """The tensors themselves under their `state_dict` names, without what is tied to another."""
    tied = getattr(network, "all_tied_weights_keys", None) or {}
    return {name: each for name, each in network.state_dict().items() if name not in tied}
