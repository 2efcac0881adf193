"""DPO: the loss by hand, the fit against plain torch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from opentinker.errors import ConfigError
from opentinker.learner.fitted import Fitted
from opentinker.learner.fitting import Fit, FitSettings
from opentinker.learner.preference import dpo_loss, prefer
from opentinker.learner.rows import Example
from opentinker.types import AdapterSpec

Pair = tuple[Example, Example]


def pair(prompt: list[int], chosen: list[int], rejected: list[int]) -> Pair:
    def one(answer: list[int]) -> Example:
        weights = np.array([0.0] * len(prompt) + [1.0] * len(answer), np.float32)
        return np.array([*prompt, *answer], np.int32), weights

    return one(chosen), one(rejected)


TEXTS = [([5, 6 + i], [20 + i, 1], [30 - i, 3, 1]) for i in range(8)]
PAIRS = [pair(*each) for each in TEXTS]


def fit_of(model: str, adapter: AdapterSpec | None = None, **settings: Any) -> Fit:
    return prefer(Fitted(model, adapter=adapter), PAIRS, FitSettings(**settings), beta=0.2)


def test_the_loss_of_pairs_is_what_the_paper_says_by_hand() -> None:
    # margins: 0.5 * ((-1 + 2) - (-4 + 3)) = 1; 0.5 * ((-3 + 1) - (-1 + 1)) = -1; 0
    loss, margin = dpo_loss(
        torch.tensor([-1.0, -3.0, -2.0]),
        torch.tensor([-4.0, -1.0, -7.0]),
        torch.tensor([-2.0, -1.0, -2.0]),
        torch.tensor([-3.0, -1.0, -7.0]),
        beta=0.5,
    )
    assert margin.tolist() == [1.0, -1.0, 0.0]
    # -log sigmoid(1) = log(1 + e^-1); -log sigmoid(-1) = log(1 + e); log 2
    expected = [math.log1p(math.exp(-1)), math.log1p(math.e), math.log(2)]
    assert loss.tolist() == pytest.approx(expected, rel=1e-6)
    assert loss.tolist() == pytest.approx([0.313262, 1.313262, 0.693147], rel=1e-5)


def test_its_gradient_is_beta_times_the_chance_of_the_wrong_order() -> None:
    # d loss / d chosen = -beta * sigmoid(-margin), and the opposite for rejected (section 4)
    chosen = torch.tensor([-1.0], requires_grad=True)
    rejected = torch.tensor([-4.0], requires_grad=True)
    loss, _ = dpo_loss(chosen, rejected, torch.tensor([-2.0]), torch.tensor([-3.0]), beta=0.5)
    loss.sum().backward()
    wrong = 0.5 / (1 + math.e)
    assert chosen.grad is not None and rejected.grad is not None
    assert chosen.grad.item() == pytest.approx(-wrong, rel=1e-6)
    assert rejected.grad.item() == pytest.approx(wrong, rel=1e-6)


@pytest.mark.parametrize("adapter", [None, AdapterSpec(2, 4.0)])
def test_a_fit_begins_at_log_two_without_a_preference(
    model: str, adapter: AdapterSpec | None
) -> None:
    first = next(fit_of(model, adapter, steps=2, validation=0.0))
    assert first["loss"] == pytest.approx(math.log(2), abs=1e-5)
    assert first["margin"] == pytest.approx(0.0, abs=1e-5)
    assert first["tokens"] == 8 * 5


@pytest.mark.parametrize("packing", [False, True])
def test_loss_and_margin_are_those_of_plain_torch(model: str, packing: bool) -> None:
    fit = fit_of(model, steps=5, learning_rate=1e-3, validation=0.0, packing=packing)
    list(fit)
    networks = [AutoModelForCausalLM.from_pretrained(model) for _ in range(2)]
    fit._fitted.network.save_pretrained(Path(model) / "later")
    networks[0] = AutoModelForCausalLM.from_pretrained(Path(model) / "later")

    def total(network: Any, prompt: list[int], answer: list[int]) -> float:
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, *answer]])).logits[0]
        logs = torch.log_softmax(logits, -1)
        return sum(logs[len(prompt) - 1 + t, each].item() for t, each in enumerate(answer))

    margins = []
    for prompt, chosen, rejected in TEXTS:
        (a, c), (b, d) = (
            [total(network, prompt, answer) for network in networks]
            for answer in (chosen, rejected)
        )
        margins.append(0.2 * ((a - c) - (b - d)))
    found = fit.evaluate()
    assert found["margin"] == pytest.approx(np.mean(margins), rel=1e-3)
    assert found["accuracy"] == np.mean(np.array(margins) > 0)
    assert found["loss"] == pytest.approx(np.mean(np.log1p(np.exp(-np.array(margins)))), rel=1e-4)


@pytest.mark.parametrize("adapter", [None, AdapterSpec(4, 8.0)])
def test_what_is_preferred_is_learned(model: str, adapter: AdapterSpec | None) -> None:
    rate = 3e-3 if adapter is None else 2e-2
    fit = fit_of(model, adapter, steps=30, learning_rate=rate, validation=0.0, batch_tokens=30)
    steps = list(fit)
    assert steps[-1]["margin"] > steps[4]["margin"] > 0
    found = fit.evaluate()
    assert found["accuracy"] == 1.0 and found["loss"] < 0.4


def test_held_out_pairs_are_looked_at(model: str) -> None:
    last = list(fit_of(model, steps=3, validation=0.25))[-1]
    assert {"val_loss", "val_accuracy", "val_margin"} <= last.keys()


def test_a_fit_that_is_taken_up_keeps_its_first_reference(model: str, folder: Path) -> None:
    def told(fit: Fit, count: int) -> list[tuple[float, float]]:
        return [(m["loss"], m["margin"]) for m in (next(fit) for _ in range(count))]

    options: dict[str, Any] = {"steps": 12, "batch_tokens": 30, "validation": 0.0}
    expected = told(fit_of(model, **options), 12)
    first = fit_of(model, **options)
    begun = told(first, 5)
    first.save(folder)
    later = fit_of(model, **options)
    later.load(folder)
    assert begun + told(later, 7) == expected


def test_a_pair_with_an_empty_half_is_left_out(model: str) -> None:
    odd = (PAIRS[0][0], (np.array([5, 6], np.int32), np.zeros(2, np.float32)))
    fit = prefer(Fitted(model), [odd, PAIRS[1]], FitSettings(steps=1, validation=0.0))
    assert next(fit)["tokens"] == 5
    with pytest.raises(ConfigError, match="none of the 1 examples"):
        prefer(Fitted(model), [odd], FitSettings(steps=1))
