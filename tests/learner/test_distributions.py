from __future__ import annotations

import math

import pytest
import torch

from opentinker.learner.distributions import (
    divergence,
    entropy,
    log_distribution,
    mismatch,
    token_logprobs,
)


def test_logprobs_are_of_the_distribution_at_the_temperature() -> None:
    logits = torch.tensor([[0.0, math.log(4.0)]])
    assert log_distribution(logits).exp().tolist()[0] == pytest.approx([0.2, 0.8])
    assert log_distribution(logits, 2.0).exp().tolist()[0] == pytest.approx([1 / 3, 2 / 3])
    assert torch.equal(log_distribution(logits, 0.0), log_distribution(logits, 1.0))
    picked = token_logprobs(log_distribution(logits), torch.tensor([1]))
    assert picked.tolist() == pytest.approx([math.log(0.8)])


def test_entropy_and_divergence_are_exact() -> None:
    even, odd = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    assert entropy(even).tolist() == pytest.approx([math.log(2)])
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert divergence(even, odd).tolist() == pytest.approx([expected])
    assert divergence(odd, odd).tolist() == [0.0]


def test_mismatch_is_right_on_average_over_what_the_engine_samples() -> None:
    engine, learner = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.5, 0.3, 0.2])
    estimate = (engine * mismatch(learner.log() - engine.log())).sum()
    exact = (engine * (engine / learner).log()).sum()
    assert estimate.item() == pytest.approx(exact.item(), rel=1e-5)
    assert mismatch(torch.tensor([1.0, 0.0])).tolist() == pytest.approx([math.e - 2, 0.0])
