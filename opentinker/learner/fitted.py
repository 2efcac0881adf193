"""The weights that a fit changes: every one of a model, or those of a LoRA adapter over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer

from opentinker.errors import CheckpointError
from opentinker.learner.folders import written_whole
from opentinker.learner.weights import BaseModel, load_network
from opentinker.types import AdapterSpec

_NAME = "fitted"
"""of the adapter, inside the base that holds no other"""


class Fitted:
    """A network in float32 that answers with the fitted weights, and these by name.

    `adapter` None fits the whole model. An adapter starts as one that changes nothing; `seed` draws
    its random half.
    """

    def __init__(
        self, model: str, *, adapter: AdapterSpec | None = None, seed: int = 0, threads: int = 1
    ) -> None:
        torch.set_num_threads(threads)
        self._model = model
        self._base: BaseModel | None = None
        if adapter is None:
            self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            self.network = load_network(model).eval()
            self.network.to(self.device)  # pyright: ignore[reportArgumentType]
            self.parameters: dict[str, nn.Parameter] = dict(self.network.named_parameters())
        else:
            self._base = BaseModel(model)
            self._base.add_adapter(_NAME, adapter, seed)
            self.device, self.network = self._base.device, self._base.network
            self.parameters = self._base.parameters(_NAME)
            with self._base.active(_NAME):  # it stays so: no other adapter is ever asked for
                pass

    def copy(self) -> dict[str, Tensor]:
        """The fitted weights by name, on the CPU; later steps don't change them."""
        return {
            name: parameter.detach().to("cpu", copy=True).contiguous()
            for name, parameter in self.parameters.items()
        }

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Set the fitted weights to what `copy` gave; CheckpointError where they don't fit."""
        if odd := self.parameters.keys() ^ tensors.keys():
            raise CheckpointError(f"weights don't fit: {min(odd)!r} is in one, not in the other")
        for name, parameter in self.parameters.items():
            if tensors[name].shape != parameter.shape:
                raise CheckpointError(
                    f"weights don't fit: {name!r} has shape {tuple(tensors[name].shape)}, the "
                    f"model's is {tuple(parameter.shape)}"
                )
        for name, parameter in self.parameters.items():
            parameter.data.copy_(tensors[name])

    def save(self, folder: str | Path) -> None:
        """Write a transformers folder with its tokenizer, or for an adapter a PEFT folder.

        The folder is whole or not there.
        """
        with written_whole(Path(folder)) as beside:
            if self._base is not None:
                self._base.save_peft(_NAME, beside)
            else:
                self.network.save_pretrained(beside)
                AutoTokenizer.from_pretrained(self._model).save_pretrained(beside)
