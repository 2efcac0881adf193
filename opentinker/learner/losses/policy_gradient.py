"""REINFORCE on tokens (Williams, 1992), where asked for with truncated importance weights.

The weights min(exp(learner - engine), cap), without a gradient, correct for tokens that an older
version or a slightly different engine sampled (IMPALA, arXiv 1802.01561; TIS as in
https://fengyao.notion.site/off-policy-rl).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from opentinker.learner.losses import Loss


def importance_weights(logprobs: Tensor, old_logprobs: Tensor, cap: float) -> Tensor:
    """min(exp(logprobs - old_logprobs), cap), of any one shape, without a gradient."""
    return torch.exp(logprobs.detach() - old_logprobs).clamp(max=cap)


def build(importance_cap: float | None = None) -> Loss:
    """`importance_cap` None takes every token as sampled by the policy that is being updated."""

    def policy_gradient(
        logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, weights: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if importance_cap is None:
            return -(weights * advantages * logprobs).sum(), {}
        importance = importance_weights(logprobs, old_logprobs, importance_cap)
        clipped = logprobs.detach() - old_logprobs > math.log(importance_cap)
        loss = -(weights * importance * advantages * logprobs).sum()
        return loss, {"clipped_share": clipped.to(logprobs.dtype)}

    return policy_gradient
