"""GSPO: PPO's clipping with one ratio for a whole sequence (arXiv 2507.18071, equations 5 to 7).

The ratio is s = exp(mean of logprob - logprob at the start of the update), over the trained tokens
of a row; each of them has the loss -min(s A, clip(s, 1 - low, 1 + high) A). The paper's own
objective is that with `normalization = "sequence"`. A mean over many tokens moves little, hence the
small bounds, which are the paper's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentinker.learner.losses import Loss, Tokens, check_options, importance

if TYPE_CHECKING:
    from torch import Tensor


def row_means(values: Tensor, sequences: Tensor) -> Tensor:
    """[N] for each token the mean of `values` [N] over the tokens of its row."""
    _, places, counts = sequences.unique(return_inverse=True, return_counts=True)
    sums = values.new_zeros(len(counts)).index_add(0, places, values)
    return (sums / counts)[places]


def build(
    epsilon_low: float = 3e-4, epsilon_high: float = 4e-4, importance_cap: float | None = None
) -> Loss:
    """`importance_cap` is that of `importance`, on the row's mean gap to the engine."""
    check_options("gspo", importance_cap, epsilon_low, epsilon_high)

    def gspo(tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        gap = row_means(tokens.proximal - tokens.engine, tokens.sequences)
        correction, metrics = importance(gap, importance_cap)
        ratio = row_means(tokens.logprobs - tokens.proximal, tokens.sequences).exp()
        free = ratio * tokens.advantages
        held = ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * tokens.advantages
        loss = -(tokens.weights * correction * free.minimum(held)).sum()
        return loss, {**metrics, "clipped_share": (held < free).to(free.dtype)}

    return gspo
