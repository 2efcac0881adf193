from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.learner import losses
from opentinker.learner.distributions import (
    divergence,
    entropy,
    log_distribution,
    mismatch,
    token_logprobs,
)
from opentinker.learner.losses.policy_gradient import importance_weights

CASE = json.loads((Path(__file__).parents[1] / "cases" / "credit.json").read_text())[
    "truncated_importance"
]
ENGINE, LEARNER = torch.tensor(CASE["engine_logprobs"]), torch.tensor(CASE["learner_logprobs"])


def test_importance_weights_are_those_of_the_case() -> None:
    weights = importance_weights(LEARNER, ENGINE, CASE["cap"])
    assert weights.tolist() == pytest.approx(CASE["weights"], rel=1e-6)


def test_policy_gradient_is_the_weighted_sum_worked_by_hand() -> None:
    logprobs = LEARNER.clone().requires_grad_()
    advantages, weights = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 0.25, 0.25])
    loss, metrics = losses.make("policy_gradient")(logprobs, ENGINE, advantages, weights)
    # -(0.5 * 1 * -1 + 0.25 * -2 * -1 + 0.25 * 3 * -1.5) = 0.5 - 0.5 + 1.125
    assert loss.item() == pytest.approx(1.125)
    assert metrics == {}
    loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-0.5, 0.5, -0.75])


def test_truncated_importance_scales_the_gradient_and_has_none_itself() -> None:
    logprobs = LEARNER.clone().requires_grad_()
    one = torch.ones(3)
    loss, metrics = losses.make("policy_gradient", importance_cap=CASE["cap"])(
        logprobs, ENGINE, one, one
    )
    loss.backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-each for each in CASE["weights"]], rel=1e-6)
    assert metrics["clipped_share"].tolist() == [0.0, 1.0, 0.0]


def test_cross_entropy_is_the_weighted_negative_log_likelihood() -> None:
    nothing = torch.zeros(3)
    loss, _ = losses.make("cross_entropy")(
        LEARNER, nothing, nothing, torch.tensor([0.5, 0.25, 0.25])
    )
    assert loss.item() == pytest.approx(0.5 * 1 + 0.25 * 1 + 0.25 * 1.5)


def test_losses_are_known_by_name() -> None:
    assert losses.names() == ["cross_entropy", "policy_gradient"]
    with pytest.raises(UnknownNameError, match="did you mean 'policy_gradient'"):
        losses.make("policy_gradiant")
    with pytest.raises(ConfigError, match="no option 'importance_cap'; it has none"):
        losses.make("cross_entropy", importance_cap=1.0)


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
