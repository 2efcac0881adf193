"""What a policy is to the learner: an adapter, a whole model, or the base itself."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, Self

import torch
from torch import nn
from transformers import PreTrainedModel

from opentinker.types import Weights


class Policy(Protocol):
    """Weights in a network that answers with them."""

    @property
    def device(self) -> torch.device: ...

    def active(self) -> AbstractContextManager[PreTrainedModel]:
        """The network, which answers with these weights until the block ends.

        Networks are shared: go backward before another policy's block begins.
        """
        ...

    def export(self) -> Weights:
        """A copy that later updates don't change; ConfigError for the base itself."""
        ...


class Trainable(Policy, Protocol):
    """Weights that an optimizer changes."""

    def parameters(self) -> dict[str, nn.Parameter]: ...

    def save(self, folder: Path) -> None:
        """Write the weights in the format in which others load them."""
        ...

    def read(self, folder: Path) -> None:
        """Take what `save` wrote; CheckpointError where it is missing, torn or doesn't fit."""
        ...

    def copy(self) -> Self:
        """A second one with the same values, in the same place."""
        ...

    def take(self, other: Self) -> None:
        """Become equal to `other`, of the same shape."""
        ...


def vocabulary(policy: Policy) -> int:
    """Over how many tokens a policy's distribution is."""
    with torch.no_grad(), policy.active() as network:
        return output_head(network).weight.shape[0]


def output_head(network: PreTrainedModel) -> nn.Linear:
    """The layer from the last hidden state to the logits."""
    head = network.get_output_embeddings()
    assert isinstance(head, nn.Linear), "a causal language model has an output head"
    return head
