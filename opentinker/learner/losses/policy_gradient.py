"""REINFORCE on tokens (Williams, 1992), where asked for with truncated importance weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentinker.learner.losses import Loss, Tokens, check_options, importance

if TYPE_CHECKING:
    from torch import Tensor


def build(importance_cap: float | None = None) -> Loss:
    """`importance_cap` is that of `importance`."""
    check_options("policy_gradient", importance_cap)

    def policy_gradient(tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        correction, metrics = importance(tokens.proximal - tokens.engine, importance_cap)
        scale = tokens.weights * correction * tokens.advantages
        return -(scale * tokens.logprobs).sum(), metrics

    return policy_gradient
