from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.learner import losses
from opentinker.learner.losses import Tokens, importance

CASES = json.loads((Path(__file__).parents[1] / "cases" / "credit.json").read_text())
TIS, PPO = CASES["truncated_importance"], CASES["ppo_clip"]
CLIPPED = {"ppo_clip", "cispo", "gspo"}


def tokens(
    logprobs: Sequence[float],
    proximal: Sequence[float] | None = None,
    engine: Sequence[float] | None = None,
    advantages: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    sequences: Sequence[int] | None = None,
) -> Tokens:
    """In float64; what is left out is as the learner is, 1 each, or one row."""
    own = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)

    def given(values: Sequence[float] | None, other: torch.Tensor) -> torch.Tensor:
        return other if values is None else torch.tensor(values, dtype=torch.float64)

    still = own.detach().clone()
    one = torch.ones_like(still)
    return Tokens(
        own,
        given(proximal, still),
        given(engine, given(proximal, still)),
        given(advantages, one),
        given(weights, one),
        torch.zeros(len(still), dtype=torch.long) if sequences is None else torch.tensor(sequences),
    )


def gradient(name: str, given: Tokens, **options: float) -> list[float]:
    loss, _ = losses.make(name, **options)(given)
    (found,) = torch.autograd.grad(loss, given.logprobs)
    return found.tolist()


def test_importance_weights_are_those_of_the_case() -> None:
    gap = torch.tensor(TIS["learner_logprobs"]) - torch.tensor(TIS["engine_logprobs"])
    weights, metrics = importance(gap, TIS["cap"])
    assert isinstance(weights, torch.Tensor)
    assert weights.tolist() == pytest.approx(TIS["weights"], rel=1e-6)
    assert metrics["truncated_share"].tolist() == [0.0, 1.0, 0.0]
    assert importance(gap, None) == (1.0, {})


def test_policy_gradient_is_the_weighted_sum_worked_by_hand() -> None:
    given = tokens(
        TIS["learner_logprobs"],
        engine=TIS["engine_logprobs"],
        advantages=[1.0, -2.0, 3.0],
        weights=[0.5, 0.25, 0.25],
    )
    loss, metrics = losses.make("policy_gradient")(given)
    # -(0.5 * 1 * -1 + 0.25 * -2 * -1 + 0.25 * 3 * -1.5) = 0.5 - 0.5 + 1.125
    assert loss.item() == pytest.approx(1.125)
    assert metrics == {}
    assert gradient("policy_gradient", given) == pytest.approx([-0.5, 0.5, -0.75])


@pytest.mark.parametrize("name", ["policy_gradient", "ppo_clip", "cispo"])
def test_truncated_importance_scales_the_gradient_and_has_none_itself(name: str) -> None:
    given = tokens(TIS["learner_logprobs"], engine=TIS["engine_logprobs"])
    found = gradient(name, given, importance_cap=TIS["cap"])
    assert found == pytest.approx([-each for each in TIS["weights"]])
    assert losses.make(name, importance_cap=TIS["cap"])(given)[1]["truncated_share"].tolist() == [
        0.0,
        1.0,
        0.0,
    ]


@pytest.mark.parametrize("name", ["ppo_clip", "cispo"])
def test_importance_is_of_the_weights_that_the_update_began_with(name: str) -> None:
    """The learner has moved on since, by a ratio within the bounds."""
    given = tokens([math.log(0.55)], proximal=[math.log(0.5)], engine=[math.log(0.4)])
    assert gradient(name, given, importance_cap=3.0) == pytest.approx([-0.5 / 0.4 * 0.55 / 0.5])


def test_ppo_is_that_of_the_case() -> None:
    ratio = [math.log(each) for each in PPO["ratio"]]
    bounds = {"epsilon_low": PPO["epsilon_low"], "epsilon_high": PPO["epsilon_high"]}
    for place, (advantage, expected) in enumerate(zip(PPO["advantage"], PPO["loss"], strict=True)):
        alone = tokens([ratio[place]], proximal=[0.0], advantages=[advantage])
        assert losses.make("ppo_clip", **bounds)(alone)[0].item() == pytest.approx(expected)
    given = tokens(ratio, proximal=[0.0] * 4, advantages=PPO["advantage"])
    loss, metrics = losses.make("ppo_clip")(given)  # the case's bounds are the default
    assert loss.item() == pytest.approx(sum(PPO["loss"]))
    assert metrics["clipped_share"].tolist() == [1.0, 0.0, 0.0, 1.0]
    # -r A where it is not clipped, 0 where it is
    assert gradient("ppo_clip", given) == pytest.approx([0.0, -0.5, 1.5, 0.0])


def test_cispo_clips_the_ratio_and_drops_no_token() -> None:
    ratio = [1.5, 0.5, 1.5, 0.5]
    given = tokens(
        [math.log(each) for each in ratio], proximal=[0.0] * 4, advantages=[1.0, 1.0, -1.0, -1.0]
    )
    # -clip(r, 0, 1.28) A for the gradient, times log r for the loss
    slopes = [-1.28, -0.5, 1.28, 0.5]
    assert gradient("cispo", given) == pytest.approx(slopes)
    loss, metrics = losses.make("cispo")(given)
    expected = sum(slope * math.log(each) for slope, each in zip(slopes, ratio, strict=True))
    assert loss.item() == pytest.approx(expected)
    assert metrics["clipped_share"].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert gradient("cispo", given, epsilon_low=0.2) == pytest.approx([-1.28, -0.8, 1.28, 0.8])


def test_gspo_has_one_ratio_a_row() -> None:
    """Rows {0, 2, 4} and {1, 3}: the mean log ratios are log 1.2 and log 0.5."""
    shift = [math.log(1.2) + 0.3, math.log(0.5) + 0.1, math.log(1.2) - 0.2]
    shift += [math.log(0.5) - 0.1, math.log(1.2) - 0.1]
    given = tokens(
        shift,
        proximal=[0.0] * 5,
        advantages=[1.0, 1.0, 1.0, 1.0, 1.0],
        weights=[1 / 6, 1 / 4, 1 / 6, 1 / 4, 1 / 6],
        sequences=[7, 2, 7, 2, 7],
    )
    bounds = {"epsilon_low": 0.3, "epsilon_high": 0.3}
    loss, metrics = losses.make("gspo", **bounds)(given)
    # each row counts a half: -(1.2 + 0.5) / 2, neither clipped for a gain: 1.2 < 1.3, 0.5 is free
    assert loss.item() == pytest.approx(-0.85)
    assert metrics["clipped_share"].tolist() == [0.0] * 5
    # d s / d logprob = s / len, so -s / (2 len) for each token of a row
    expected = [-1.2 / 6, -0.5 / 4, -1.2 / 6, -0.5 / 4, -1.2 / 6]
    assert gradient("gspo", given, **bounds) == pytest.approx(expected)
    # the paper's bounds: the first row is above them, and pulls no more
    assert gradient("gspo", given) == pytest.approx([0.0, -0.5 / 4, 0.0, -0.5 / 4, 0.0])
    loss, metrics = losses.make("gspo")(given)
    assert loss.item() == pytest.approx(-(1.0004 + 0.5) / 2)
    assert metrics["clipped_share"].tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_gspo_truncates_the_importance_of_whole_rows() -> None:
    """Mean gaps of log 4 and log 0.5; the cap is 2."""
    given = tokens(
        [-1.0, -1.0, -1.0],
        engine=[-1.0 - math.log(4) + 0.5, -1.0 - math.log(4) - 0.5, -1.0 - math.log(0.5)],
        sequences=[0, 0, 1],
    )
    found = gradient("gspo", given, importance_cap=2.0)
    assert found == pytest.approx([-2.0, -2.0, -0.5])
    metrics = losses.make("gspo", importance_cap=2.0)(given)[1]
    assert metrics["truncated_share"].tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("name", ["ppo_clip", "cispo"])
def test_at_ratio_one_the_gradient_is_that_of_policy_gradient(name: str) -> None:
    given = tokens([-0.3, -2.0, -1.0], advantages=[1.5, -2.0, 0.0], weights=[0.2, 0.3, 0.5])
    assert gradient(name, given) == pytest.approx(gradient("policy_gradient", given))


def test_at_ratio_one_gspo_spreads_a_rows_mean_advantage() -> None:
    given = tokens([-0.3, -2.0, -1.0], advantages=[2.0, 2.0, -3.0], sequences=[0, 0, 1])
    assert gradient("gspo", given) == pytest.approx(gradient("policy_gradient", given))


@pytest.mark.parametrize("name", ["policy_gradient", "ppo_clip", "gspo", "cross_entropy"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (3, 6)
    logprobs, shift, gap = torch.randn(shape, generator=generator, dtype=torch.float64) * 0.3
    given = tokens(
        (logprobs - 1).tolist(),
        proximal=(logprobs - 1 + shift).tolist(),
        engine=(logprobs - 1 + shift + gap).tolist(),
        advantages=[1.0, -1.0, 2.0, -0.5, 0.7, -2.0],
        weights=[0.1, 0.2, 0.3, 0.1, 0.2, 0.1],
        sequences=[0, 0, 1, 1, 1, 2],
    )
    options = {} if name == "cross_entropy" else {"importance_cap": 1.2}
    if name in CLIPPED:
        options |= {"epsilon_low": 0.15, "epsilon_high": 0.2}
    loss, step = losses.make(name, **options), 1e-6
    found = []
    for place in range(shape[1]):
        ends = []
        for sign in (1, -1):
            moved = given.logprobs.detach().clone()
            moved[place] += sign * step
            rest = (given.proximal, given.engine, given.advantages, given.weights, given.sequences)
            ends.append(loss(Tokens(moved, *rest))[0].item())
        found.append((ends[0] - ends[1]) / (2 * step))
    assert gradient(name, given, **options) == pytest.approx(found, abs=1e-7)
    assert any(found)


def test_cross_entropy_is_the_weighted_negative_log_likelihood() -> None:
    given = tokens([-1.0, -1.0, -1.5], advantages=[9.0] * 3, weights=[0.5, 0.25, 0.25])
    loss, _ = losses.make("cross_entropy")(given)
    assert loss.item() == pytest.approx(0.5 * 1 + 0.25 * 1 + 0.25 * 1.5)


def test_losses_are_known_by_name() -> None:
    assert losses.names() == ["cispo", "cross_entropy", "gspo", "policy_gradient", "ppo_clip"]
    with pytest.raises(UnknownNameError, match="did you mean 'policy_gradient'"):
        losses.make("policy_gradiant")
    with pytest.raises(ConfigError, match="no option 'importance_cap'; it has none"):
        losses.make("cross_entropy", importance_cap=1.0)


@pytest.mark.parametrize("name", ["policy_gradient", "ppo_clip", "cispo", "gspo"])
@pytest.mark.parametrize("cap", [0.0, -1.0, float("nan"), "2", True])
def test_caps_that_cannot_be_are_refused(name: str, cap: object) -> None:
    with pytest.raises(ConfigError, match=f"{name!r}: importance_cap is .*above 0"):
        losses.make(name, importance_cap=cap)


@pytest.mark.parametrize("name", sorted(CLIPPED))
@pytest.mark.parametrize(
    ("option", "value"),
    [("epsilon_low", 0.0), ("epsilon_low", 1.5), ("epsilon_high", -0.1), ("epsilon_high", None)],
)
def test_bounds_that_cannot_be_are_refused(name: str, option: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name!r}: {option} is"):
        losses.make(name, **{option: value})
