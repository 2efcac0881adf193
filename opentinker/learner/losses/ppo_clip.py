"""PPO's clipped surrogate (arXiv 1707.06347), with a bound of its own on each side.

A token's loss is -min(r A, clip(r, 1 - low, 1 + high) A), where r = exp(logprob - logprob at the
start of the update): once r has moved past a bound in the direction of A, the token pulls no more.
The higher upper bound is DAPO's "clip-higher" (arXiv 2503.14476).
"""

from __future__ import annotations

import torch
from torch import Tensor

from opentinker.learner.losses import Loss, Tokens, check_options, importance


def build(
    epsilon_low: float = 0.2, epsilon_high: float = 0.28, importance_cap: float | None = None
) -> Loss:
    """`importance_cap` is that of `importance`; `clipped_share` is of tokens that don't pull."""
    check_options("ppo_clip", importance_cap, epsilon_low, epsilon_high)

    def ppo_clip(tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        correction, metrics = importance(tokens.proximal - tokens.engine, importance_cap)
        ratio = torch.exp(tokens.logprobs - tokens.proximal)
        free = ratio * tokens.advantages
        held = ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * tokens.advantages
        loss = -(tokens.weights * correction * torch.minimum(free, held)).sum()
        return loss, {**metrics, "clipped_share": (held < free).to(free.dtype)}

    return ppo_clip
