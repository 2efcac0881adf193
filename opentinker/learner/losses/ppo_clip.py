"""PPO's clipped surrogate (arXiv 1707.06347), with a bound of its own on each side.

A token's loss is -min(r A, clip(r, 1 - low, 1 + high) A), where r = exp(logprob - logprob at the
start of the update): once r has moved past a bound in the direction of A, the token pulls no more.
The higher upper bound is DAPO's "clip-higher" (arXiv 2503.14476).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentinker.learner.losses import Loss, Tokens, check_options, importance

if TYPE_CHECKING:
    from torch import Tensor


def build(
    epsilon_low: float = 0.2, epsilon_high: float = 0.28, importance_cap: float | None = None
) -> Loss:
    """`importance_cap` is that of `importance`; `clipped_share` is of tokens that don't pull."""
    check_options("ppo_clip", importance_cap, epsilon_low, epsilon_high)

    def ppo_clip(tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        correction, metrics = importance(tokens.proximal - tokens.engine, importance_cap)
        ratio = (tokens.logprobs - tokens.proximal).exp()
        free = ratio * tokens.advantages
        held = ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * tokens.advantages
        loss = -(tokens.weights * correction * free.minimum(held)).sum()
        return loss, {**metrics, "clipped_share": (held < free).to(free.dtype)}

    return ppo_clip
