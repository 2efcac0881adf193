"""Supervised fine-tuning: cross-entropy on the tokens that examples weigh."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from opentinker.learner.fitted import Fitted
from opentinker.learner.fitting import Cost, Fit, FitSettings, Score
from opentinker.learner.rows import Example, Item, Rows


class CrossEntropy:
    """The weighted mean of -log p over tokens: sum(w * nll) / sum(w), in nats."""

    def begin(self, items: Sequence[Item], score: Score) -> None:
        del items, score

    def cost(self, logprobs: Tensor, rows: Rows, places: Sequence[int]) -> Cost:
        del places
        return Cost(-(rows.weights * logprobs).sum(), float(rows.weights.sum()))


def supervise(fitted: Fitted, examples: Sequence[Example], settings: FitSettings) -> Fit:
    """A fit of `fitted` to `examples`; those without a weight are left out."""
    return Fit(fitted, [(example,) for example in examples], CrossEntropy(), settings)
