"""Direct preference optimization: of two answers to a prompt the preferred one is made likelier.

Axes: M pairs, N tokens of their answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from opentinker.learner.fitted import Fitted
from opentinker.learner.fitting import Cost, Fit, FitSettings, Score
from opentinker.learner.rows import Example, Item, Rows


def dpo_loss(
    chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, beta: float
) -> tuple[Tensor, Tensor]:
    """Losses [M] and margins [M] of pairs, from the sums [M] of their answers' logprobs.

    The margin is the difference of the implicit rewards, beta * log(p / p_ref), of the chosen and
    the rejected answer; the loss is -log sigmoid(margin). Rafailov et al. 2023, arXiv 2305.18290,
    equation 7.
    """
    margin = beta * ((chosen - ref_chosen) - (rejected - ref_rejected))
    return -logsigmoid(margin), margin


class Preference:
    """The mean DPO loss of pairs; the reference are the weights that the fit starts from.

    Their logprobs never change, so they are taken once, before the first step.
    """

    def __init__(self, beta: float) -> None:
        self._beta = beta
        self._reference = torch.zeros(0, 2)

    def begin(self, items: Sequence[Item], score: Score) -> None:
        reference: dict[int, Tensor] = {}
        for batch, rows, found in score(range(len(items))):
            reference |= zip(batch.items, _sums(found, rows), strict=True)
        self._reference = torch.stack([reference[place] for place in range(len(items))])

    def cost(self, logprobs: Tensor, rows: Rows, places: Sequence[int]) -> Cost:
        chosen, rejected = _sums(logprobs, rows).unbind(1)
        ref_chosen, ref_rejected = self._reference[list(places)].unbind(1)
        losses, margins = dpo_loss(chosen, rejected, ref_chosen, ref_rejected, self._beta)
        sums = {"accuracy": float((margins > 0).sum()), "margin": margins.detach().sum().item()}
        return Cost(losses.sum(), float(len(places)), sums)


def prefer(
    fitted: Fitted,
    pairs: Sequence[tuple[Example, Example]],
    settings: FitSettings,
    *,
    beta: float = 0.1,
) -> Fit:
    """A fit of `fitted` to pairs of a chosen and a rejected example with equal prompts.

    Metrics beside those of any fit: `accuracy`, the share of pairs whose margin is above 0, and
    `margin`, its mean, both before the step.
    """
    return Fit(fitted, pairs, Preference(beta), settings)


def _sums(logprobs: Tensor, rows: Rows) -> Tensor:
    """Weighted sums [M, 2] over the tokens of each pair's chosen and rejected answer."""
    sums = torch.zeros(rows.count, device=logprobs.device)
    return sums.index_add(0, rows.owners, rows.weights * logprobs).view(-1, 2)
