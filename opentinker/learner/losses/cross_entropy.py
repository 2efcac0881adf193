"""The negative log-likelihood of the trained tokens, each alike: supervised learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentinker.learner.losses import Loss, Tokens

if TYPE_CHECKING:
    from torch import Tensor


def build() -> Loss:
    """It has no options, and reads neither advantages nor the engine's logprobs."""

    def cross_entropy(tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        return -(tokens.weights * tokens.logprobs).sum(), {}

    return cross_entropy
