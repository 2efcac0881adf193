"""The terms of a policy's loss: the loss itself, entropy bonus, KL to a reference, critic's error.

Axes: N trained tokens and M turns of one micro-batch, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from opentinker.learner.chosen import Chosen
from opentinker.learner.critic import Critic
from opentinker.learner.distributions import (
    divergence,
    entropy,
    log_distribution,
    mismatch,
    token_logprobs,
)
from opentinker.learner.losses import Loss, Tokens
from opentinker.learner.policy import Policy
from opentinker.learner.settings import PolicySettings, at
from opentinker.learner.weights import chosen_logits, chosen_outputs


class Terms:
    """What `policy` is to make smaller; `reference` and `critic` None are left out."""

    def __init__(
        self,
        policy: Policy,
        loss: Loss,
        settings: PolicySettings,
        reference: Policy | None,
        critic: Critic | None,
    ) -> None:
        self._policy = policy
        self._loss = loss
        self._settings = settings
        self._reference = reference
        self._critic = critic

    def logprobs(self, chosen: Chosen) -> Tensor:
        """Those [N] of the trained tokens as the policy is, without a gradient."""
        with torch.no_grad():
            return token_logprobs(self._distribution(self._policy, chosen), chosen.tokens)

    def of(self, chosen: Chosen, version: int, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The micro-batch's share of the loss of its step, to go backward from at once.

        Beside it numbers without a gradient, whose means are metrics: of its tokens [N], of those
        alone that `version` sampled (`mismatch_kl`, and `gap` to the engine), of its turns [M].
        """
        settings = self._settings
        reference = None
        if self._reference is not None:
            with torch.no_grad():
                reference = self._distribution(self._reference, chosen)
        with self._policy.active() as network:
            logits, states = chosen_outputs(
                network,
                chosen.ids,
                chosen.rows,
                chosen.before,
                chosen.turn_rows,
                chosen.turn_before,
            )
        distribution = log_distribution(logits, settings.temperature)
        logprobs = token_logprobs(distribution, chosen.tokens)
        proximal = logprobs.detach() if chosen.proximal is None else chosen.proximal
        loss, metrics = self._loss(
            Tokens(
                logprobs,
                proximal,
                chosen.engine,
                chosen.advantages,
                chosen.weights,
                chosen.rows,
            )
        )
        spread = entropy(distribution)
        if bonus := at(settings.entropy, progress):
            loss = loss - bonus * (chosen.weights * spread).sum()
        metrics["entropy"] = spread.detach()
        if reference is not None:
            apart = divergence(distribution, reference)
            loss = loss + at(settings.kl, progress) * (chosen.weights * apart).sum()
            metrics["kl"] = apart.detach()
        if self._critic is not None:
            values = self._critic(states)
            errors = 0.5 * (values - chosen.targets).square()
            loss = loss + settings.value_coefficient * chosen.turn_weight * errors.sum()
            metrics |= {"value_loss": errors.detach(), "value_mean": values.detach()}
        gap = (proximal - chosen.engine)[chosen.versions == version]
        return loss, metrics | {"gap": gap, "mismatch_kl": mismatch(gap)}

    def _distribution(self, policy: Policy, chosen: Chosen) -> Tensor:
        """Log-probabilities [N, V] of what may stand at each trained token."""
        with policy.active() as network:
            logits = chosen_logits(network, chosen.ids, chosen.rows, chosen.before)
        return log_distribution(logits, self._settings.temperature)
