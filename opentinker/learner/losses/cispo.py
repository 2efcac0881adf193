"""CISPO: the importance ratio is clipped, the token never dropped (MiniMax-M1, arXiv 2506.13585).

A token's loss is -sg(clip(r, 1 - low, 1 + high)) A logprob (equations 4 and 5), where
r = exp(logprob - logprob at the start of the update) and sg stops the gradient. As in the paper
there is no lower bound unless it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentinker.learner.losses import Loss, Tokens, check_options, importance

if TYPE_CHECKING:
    from torch import Tensor


def build(
    epsilon_low: float = 1.0, epsilon_high: float = 0.28, importance_cap: float | None = None
) -> Loss:
    """`importance_cap` is that of `importance`; `clipped_share` is of ratios out of bounds."""
    check_options("cispo", importance_cap, epsilon_low, epsilon_high)

    def cispo(tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        correction, metrics = importance(tokens.proximal - tokens.engine, importance_cap)
        ratio = (tokens.logprobs.detach() - tokens.proximal).exp()
        held = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
        scale = tokens.weights * correction * held * tokens.advantages
        return -(scale * tokens.logprobs).sum(), {
            **metrics,
            "clipped_share": (held != ratio).to(ratio.dtype),
        }

    return cispo
