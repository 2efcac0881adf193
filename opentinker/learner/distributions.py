"""What is read off a model's logits: logprobs of tokens, entropy, divergences.

Axes: N positions, V vocabulary. All are pure, in float32, and natural logarithms.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_distribution(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probabilities [N, V] of the distribution that is sampled at `temperature`.

    At 0 the likeliest token is taken; the logprobs are then those at 1, as engines give them.
    """
    scaled = logits.float()
    if temperature not in (0.0, 1.0):
        scaled = scaled / temperature
    return torch.log_softmax(scaled, dim=-1)


def token_logprobs(distribution: Tensor, tokens: Tensor) -> Tensor:
    """The entries [N] of `distribution` [N, V] at `tokens` [N]."""
    return distribution.gather(-1, tokens[:, None]).squeeze(-1)


def entropy(distribution: Tensor) -> Tensor:
    """Exact entropies [N] of log-probabilities [N, V]."""
    return -(distribution.exp() * distribution).sum(-1)


def divergence(distribution: Tensor, reference: Tensor) -> Tensor:
    """Exact KL(distribution || reference) [N], both log-probabilities [N, V]."""
    return (distribution.exp() * (distribution - reference)).sum(-1)


def mismatch(gap: Tensor) -> Tensor:
    """The k3 estimate of KL(engine || learner) [N] at tokens that the engine sampled.

    exp(d) - d - 1, where d is `gap` [N], the learner's logprob less the engine's: never negative,
    and right on average (Schulman, "Approximating KL divergence", joschu.net/blog/kl-approx.html).
    """
    return torch.expm1(gap) - gap
