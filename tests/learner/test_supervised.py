from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from opentinker.errors import ConfigError, LearningError
from opentinker.learner.supervised import Example, SupervisedWorker
from opentinker.learner.worker import LearnerWorker


def example(prompt: list[int], answer: list[int]) -> Example:
    marks = np.array([False] * len(prompt) + [True] * len(answer))
    return np.array([*prompt, *answer], np.int32), marks


QUESTIONS = [([5, 6 + i, *([9] * (i % 3))], [20 + i, 1]) for i in range(12)]
EXAMPLES = [example(prompt, answer) for prompt, answer in QUESTIONS]


def test_a_toy_set_is_memorized_and_the_saved_model_answers_by_it(model: str, folder: Path) -> None:
    worker = SupervisedWorker(model)
    steps = list(
        worker.fit(EXAMPLES, steps=120, batch_tokens=32, learning_rate=1e-2, validation=0.0)
    )
    assert len(steps) == 120
    assert steps[0]["loss"] > 2.0
    assert steps[-1]["loss"] < 0.02
    assert "val_loss" not in steps[-1]
    worker.save(folder)
    network = AutoModelForCausalLM.from_pretrained(folder)
    for prompt, answer in QUESTIONS:
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, answer[0]]])).logits[0, -2:]
        assert logits.argmax(-1).tolist() == answer
    assert AutoTokenizer.from_pretrained(folder).eos_token == "<|end|>"
    (scored,) = LearnerWorker(str(folder)).score("base", [QUESTIONS[3]])
    assert scored.min() > -0.1


def test_the_loss_is_the_mean_over_marked_tokens_of_a_plain_forward(model: str) -> None:
    network = AutoModelForCausalLM.from_pretrained(model)
    found = []
    for prompt, answer in QUESTIONS:
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, *answer]])).logits[0]
        logs = torch.log_softmax(logits, -1)
        found += [-logs[len(prompt) - 1 + t, token].item() for t, token in enumerate(answer)]
    worker = SupervisedWorker(model)
    assert worker.loss(EXAMPLES, batch_tokens=20) == pytest.approx(np.mean(found), rel=1e-5)
    first = next(worker.fit(EXAMPLES, batch_tokens=10**6, validation=0.0))
    assert first["loss"] == pytest.approx(np.mean(found), rel=1e-5)
    assert first["tokens"] == 24


def test_held_out_examples_are_scored_every_tenth_part_and_not_trained_on(model: str) -> None:
    worker = SupervisedWorker(model)
    steps = list(worker.fit(EXAMPLES, steps=40, batch_tokens=64, validation=0.25))
    scored = [int(each["step"]) for each in steps if "val_loss" in each]
    assert scored == list(range(4, 41, 4))
    assert max(each["tokens"] for each in steps) <= 18
    assert (
        sum(
            each["tokens"]
            for each in SupervisedWorker(model).fit(
                EXAMPLES, epochs=2, batch_tokens=16, validation=0.25
            )
        )
        == 36
    )


def test_the_rate_climbs_then_falls(model: str) -> None:
    steps = SupervisedWorker(model).fit(EXAMPLES, steps=50, learning_rate=1e-3, warmup=0.2)
    rates = [each["learning_rate"] for each in steps]
    peak = int(np.argmax(rates))
    assert 8 <= peak <= 11
    assert rates[peak] == pytest.approx(1e-3, rel=0.02)
    assert sorted(rates[: peak + 1]) == rates[: peak + 1]
    assert sorted(rates[peak:], reverse=True) == rates[peak:]
    assert rates[-1] < 1e-5


def test_one_step_and_no_warmup_are_possible(model: str) -> None:
    (only,) = SupervisedWorker(model).fit(EXAMPLES, steps=1)
    assert only["learning_rate"] > 0
    steps = list(SupervisedWorker(model).fit(EXAMPLES, steps=4, warmup=0.0, decay="linear"))
    falls = [each["learning_rate"] for each in steps]
    assert falls == pytest.approx([2.4e-3, 1.8e-3, 1.2e-3, 0.6e-3], rel=1e-3)


def test_the_same_seed_trains_the_same_model(model: str) -> None:
    def losses(seed: int) -> list[float]:
        steps = SupervisedWorker(model).fit(EXAMPLES, steps=8, batch_tokens=16, seed=seed)
        return [each["loss"] for each in steps]

    assert losses(0) == losses(0)
    assert losses(0) != losses(1)


def test_what_cannot_be_fitted_is_refused(model: str) -> None:
    worker = SupervisedWorker(model)
    unmarked = (np.array([3, 4], np.int32), np.array([False, False]))
    first = (np.array([3, 4], np.int32), np.array([True, False]))
    ragged = (np.array([3, 4], np.int32), np.array([True]))
    for examples, message in (
        ([unmarked], "none of the 1 examples"),
        ([], "none of the 0 examples"),
        ([first], "marks its first token"),
        ([ragged], "2 ids, but 1 marks"),
    ):
        with pytest.raises(ConfigError, match=message):
            next(worker.fit(examples))
    wrong: list[dict[str, Any]] = [{"steps": 0}, {"learning_rate": 0.0}, {"validation": 1.0}]
    for options in [*wrong, {"decay": "no"}]:
        with pytest.raises(ConfigError, match=r"must be|go from"):
            next(worker.fit(EXAMPLES, **options))


def test_a_fit_that_is_not_finite_ends_with_its_step(model: str) -> None:
    worker = SupervisedWorker(model)
    next(iter(worker._network.parameters())).data.fill_(float("nan"))
    with pytest.raises(LearningError, match=r"step 1 .*'loss': nan"):
        next(worker.fit(EXAMPLES))
