"""Cross-entropy on weighted tokens, checked against plain torch; the fit's own habits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from opentinker.errors import CheckpointError, ConfigError, LearningError
from opentinker.learner.fitted import Fitted
from opentinker.learner.fitting import Fit, FitSettings
from opentinker.learner.rows import (
    Batch,
    Example,
    Rows,
    batches,
    check_packing,
    logprobs,
)
from opentinker.learner.supervised import supervise
from opentinker.types import AdapterSpec


def example(prompt: list[int], answer: list[int], weight: float = 1.0) -> Example:
    weights = np.array([0.0] * len(prompt) + [weight] * len(answer), np.float32)
    return np.array([*prompt, *answer], np.int32), weights


QUESTIONS = [([5, 6 + i, *([9] * (i % 3))], [20 + i, 1]) for i in range(12)]
EXAMPLES = [example(prompt, answer) for prompt, answer in QUESTIONS]
CPU = torch.device("cpu")


def fit_of(model: str, examples: list[Example] | None = None, **settings: Any) -> Fit:
    return supervise(
        Fitted(model), EXAMPLES if examples is None else examples, FitSettings(**settings)
    )


def plain_logprobs(network: Any, prompt: list[int], answer: list[int]) -> torch.Tensor:
    logits = network(input_ids=torch.tensor([[*prompt, *answer]])).logits[0]
    logs = torch.log_softmax(logits, -1)
    return torch.stack([logs[len(prompt) - 1 + t, token] for t, token in enumerate(answer)])


@pytest.mark.parametrize("packing", [False, True])
def test_a_toy_set_is_memorized_and_the_saved_model_answers_by_it(
    model: str, folder: Path, packing: bool
) -> None:
    fitted = Fitted(model)
    settings = FitSettings(
        steps=120, batch_tokens=32, learning_rate=1e-2, validation=0.0, packing=packing
    )
    steps = list(supervise(fitted, EXAMPLES, settings))
    assert len(steps) == 120
    assert steps[0]["loss"] > 2.0
    assert steps[-1]["loss"] < 0.02
    assert "val_loss" not in steps[-1]
    fitted.save(folder)
    network = AutoModelForCausalLM.from_pretrained(folder)
    for prompt, answer in QUESTIONS:
        with torch.no_grad():
            assert plain_logprobs(network, prompt, answer).min() > -0.1
    assert AutoTokenizer.from_pretrained(folder).eos_token == "<|end|>"


def test_the_loss_is_the_mean_over_weighted_tokens_of_a_plain_forward(model: str) -> None:
    network = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        mean = torch.cat([plain_logprobs(network, *each) for each in QUESTIONS]).mean().item()
    fit = fit_of(model, batch_tokens=20)
    assert fit.evaluate()["loss"] == pytest.approx(-mean, rel=1e-5)
    first = next(fit_of(model, batch_tokens=10**6, validation=0.0))
    assert first["loss"] == pytest.approx(-mean, rel=1e-5)
    assert first["tokens"] == 24


def test_weights_weigh_loss_and_gradient_as_in_plain_torch(model: str) -> None:
    weights = (2.0, 0.5, 1.0)
    examples = [
        example(*question, weight=weight)
        for question, weight in zip(QUESTIONS, weights, strict=False)
    ]
    network = AutoModelForCausalLM.from_pretrained(model)
    pairs = zip(QUESTIONS, weights, strict=False)
    total = sum(-weight * plain_logprobs(network, *each).sum() for each, weight in pairs)
    loss = total / (2 * sum(weights))
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    fitted = Fitted(model)
    settings = FitSettings(steps=1, validation=0.0, max_grad_norm=1e9, packing=True)
    fit = supervise(fitted, examples, settings)
    (batch,) = fit._epoch
    _, metrics = fit._gradient(batch)
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-5)
    plain = dict(network.named_parameters())
    assert fitted.parameters.keys() == plain.keys()
    for name, parameter in fitted.parameters.items():
        theirs = plain[name].grad
        assert parameter.grad is not None and theirs is not None
        assert torch.allclose(parameter.grad, theirs, atol=1e-6), name


def test_a_token_of_weight_zero_is_context_only(model: str) -> None:
    context = example(*QUESTIONS[0], weight=0.0)
    assert next(fit_of(model, [context, EXAMPLES[1]], steps=1))["tokens"] == 2


def test_packed_examples_have_the_logprobs_that_they_have_alone(model: str) -> None:
    rng = np.random.default_rng(1)
    items = [
        (example(rng.integers(2, 40, n).tolist(), rng.integers(2, 40, 3).tolist()),)
        for n in (2, 9, 4, 7, 3)
    ]
    network = Fitted(model).network
    with torch.no_grad():
        alone = torch.cat(
            [plain_logprobs(network, ids[:-3].tolist(), ids[-3:].tolist()) for ((ids, _),) in items]
        )
        (batch,) = batches(items, 64, True, np.random.default_rng(0))
        rows = Rows(items, batch, CPU)
        found = logprobs(network, rows)
    assert len(rows.ids) < len(items)
    ordered = torch.cat([alone[3 * place : 3 * place + 3] for place in batch.items])
    assert (found[_by_example(rows)] - ordered).abs().max() < 1e-5
    # Without restarting positions the later examples of a row would see the earlier ones.
    rows.positions = torch.arange(rows.ids.shape[1]).expand_as(rows.ids)
    with torch.no_grad():
        mixed = logprobs(network, rows)
    assert (mixed[_by_example(rows)] - ordered).abs().max() > 1e-2


def _by_example(rows: Rows) -> torch.Tensor:
    return torch.sort(rows.owners, stable=True).indices


def test_a_model_that_mixes_packed_examples_is_refused(model: str) -> None:
    network = Fitted(model).network
    check_packing(network, CPU)
    forward = network.forward

    def deaf(*args: Any, position_ids: Any = None, **kwargs: Any) -> Any:
        del position_ids
        return forward(*args, **kwargs)

    network.forward = deaf
    with pytest.raises(ConfigError, match=r"set fit\.packing = false"):
        check_packing(network, CPU)


@pytest.mark.parametrize("packing", [False, True])
def test_batches_hold_every_item_once_and_stay_within_their_tokens(packing: bool) -> None:
    rng = np.random.default_rng(3)
    lengths = [*rng.integers(2, 40, 60).tolist(), 150]
    items = [(example([3] * (n - 1), [4]), example([3] * n, [4])) for n in lengths]
    found = batches(items, 128, packing, rng)
    assert sorted(place for batch in found for place in batch.items) == list(range(61))
    for batch in found:
        rows = Rows(items, batch, CPU)
        spans = [
            (row, start + t)
            for row, start, n in zip(
                batch.rows,
                batch.columns,
                [len(ids) for place in batch.items for ids, _ in items[place]],
                strict=True,
            )
            for t in range(n)
        ]
        assert len(spans) == len(set(spans)) == rows.filled
        if packing:
            continue
        assert set(batch.columns) == {0} and len(batch.rows) == len(rows.ids)
    sizes = {Rows(items, batch, CPU).ids.numel() for batch in found if batch.items != (60,)}
    assert max(sizes) <= 128
    assert next(batch for batch in found if 60 in batch.items).items == (60,)


def test_two_short_examples_share_a_row_by_hand() -> None:
    items = [(example([5, 6], [7]),), (example([8], [9]),)]
    rows = Rows(items, Batch((0, 1), (0, 0), (0, 3)), CPU)
    assert rows.ids.tolist() == [[5, 6, 7, 8, 9]]
    assert rows.positions.tolist() == [[0, 1, 2, 0, 1]]
    assert rows.before.tolist() == [1, 3] and rows.tokens.tolist() == [7, 9]
    assert rows.owners.tolist() == [0, 1]


def test_held_out_examples_are_scored_every_tenth_part_and_not_trained_on(model: str) -> None:
    steps = list(fit_of(model, steps=40, batch_tokens=64, validation=0.25))
    assert [int(s["step"]) for s in steps if "val_loss" in s] == list(range(4, 41, 4))
    assert max(each["tokens"] for each in steps) <= 18
    twice = fit_of(model, epochs=2, batch_tokens=16, validation=0.25)
    assert sum(each["tokens"] for each in twice) == 36
    often = fit_of(model, steps=7, validation=0.25, evaluate_every=3)
    assert [int(s["step"]) for s in often if "val_loss" in s] == [3, 6, 7]


def test_packed_epochs_see_every_example_as_often(model: str) -> None:
    fit = fit_of(model, epochs=3, batch_tokens=17, validation=0.0, packing=True)
    assert sum(each["tokens"] for each in fit) == 3 * 24


def test_the_rate_climbs_then_falls(model: str) -> None:
    steps = fit_of(model, steps=50, learning_rate=1e-3, warmup=0.2)
    rates = [each["learning_rate"] for each in steps]
    peak = int(np.argmax(rates))
    assert 8 <= peak <= 11
    assert rates[peak] == pytest.approx(1e-3, rel=0.02)
    assert sorted(rates[: peak + 1]) == rates[: peak + 1]
    assert sorted(rates[peak:], reverse=True) == rates[peak:]
    assert rates[-1] < 1e-5


def test_one_step_and_no_warmup_are_possible(model: str) -> None:
    (only,) = fit_of(model, steps=1)
    assert only["learning_rate"] > 0
    falls = [e["learning_rate"] for e in fit_of(model, steps=4, warmup=0.0, decay="linear")]
    assert falls == pytest.approx([2.4e-3, 1.8e-3, 1.2e-3, 0.6e-3], rel=1e-3)


def test_the_same_seed_trains_the_same_model(model: str) -> None:
    def losses(seed: int) -> list[float]:
        return [e["loss"] for e in fit_of(model, steps=8, batch_tokens=16, seed=seed)]

    assert losses(0) == losses(0)
    assert losses(0) != losses(1)


def test_an_early_stop_keeps_the_best_weights(model: str, folder: Path) -> None:
    # The held-out example contradicts the others: what is learned of them makes it ever worse.
    examples = [example([5, 6 + i % 3], [20, 1]) for i in range(11)]
    order = np.random.default_rng(0).permutation(12).tolist()
    examples.insert(order[0], example([5, 6], [30, 1]))
    fitted = Fitted(model)
    settings = FitSettings(
        steps=100, learning_rate=1e-3, validation=0.01, evaluate_every=2, patience=3
    )
    fit = supervise(fitted, examples, settings)
    looks = {int(m["step"]): m["val_loss"] for m in fit if "val_loss" in m}
    step, value = fit.best
    assert fit.stopped and fit.step < 100
    assert fit.step == step + 3 * 2 == max(looks)
    assert looks[step] == value == min(looks.values())
    assert fit.evaluate(fit._held_out)["loss"] == looks[fit.step] > value
    fit.finish()
    assert fit.evaluate(fit._held_out)["loss"] == value
    fitted.save(folder)
    again = supervise(Fitted(str(folder)), examples, settings)
    assert again.evaluate(again._held_out)["loss"] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("adapter", [None, AdapterSpec(2, 4.0)])
def test_a_fit_that_is_taken_up_goes_on_to_the_last_bit(
    model: str, folder: Path, adapter: AdapterSpec | None
) -> None:
    settings = FitSettings(steps=20, batch_tokens=16, validation=0.2, patience=50, packing=True)

    def fit() -> tuple[Fitted, Fit]:
        fitted = Fitted(model, adapter=adapter, seed=3)
        return fitted, supervise(fitted, EXAMPLES, settings)

    def told(metrics: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in metrics.items() if name != "tokens_per_second"}

    whole, uninterrupted = fit()
    expected = [told(metrics) for metrics in uninterrupted]
    uninterrupted.finish()
    _, first = fit()
    begun = [told(next(first)) for _ in range(9)]
    first.save(folder)
    second, later = fit()
    later.load(folder)
    assert later.step == 9
    assert begun + [told(metrics) for metrics in later] == expected
    later.finish()
    weights = whole.copy()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in second.copy().items())


def test_a_torn_or_foreign_state_is_no_checkpoint(model: str, tmp_path: Path) -> None:
    fit = fit_of(model, steps=2)
    fit.save(tmp_path / "fit")
    with pytest.raises(CheckpointError, match="can't be read"):
        fit.load(tmp_path / "nothing")
    adapter = supervise(Fitted(model, adapter=AdapterSpec(2, 4.0)), EXAMPLES, FitSettings(steps=2))
    with pytest.raises(CheckpointError, match="don't fit"):
        adapter.load(tmp_path / "fit")
    for name in ("weights.safetensors", "optimizer.pt", "fit.json"):
        fit.save(tmp_path / "torn")
        file = tmp_path / "torn" / name
        file.write_bytes(file.read_bytes()[:20])
        with pytest.raises(CheckpointError, match="can't be read"):
            fit.load(tmp_path / "torn")
    fit.save(tmp_path / "torn")
    (tmp_path / "torn" / "fit.json").write_text(json.dumps({"steps": 1}))
    with pytest.raises(CheckpointError, match="can't be read"):
        fit.load(tmp_path / "torn")


def test_an_adapter_learns_while_the_base_stands_still(model: str, folder: Path) -> None:
    fitted = Fitted(model, adapter=AdapterSpec(4, 8.0, ("q_proj", "v_proj", "up_proj")))
    settings = FitSettings(steps=60, learning_rate=2e-2, validation=0.0)
    steps = list(supervise(fitted, EXAMPLES, settings))
    assert steps[-1]["loss"] < 0.7 * steps[0]["loss"]
    fitted.save(folder)
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".md") == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    network = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), str(folder))
    with torch.no_grad():
        ours = supervise(fitted, EXAMPLES, settings).evaluate()["loss"]
        theirs = -torch.cat([plain_logprobs(network, *each) for each in QUESTIONS]).mean().item()
    assert theirs == pytest.approx(ours, rel=1e-4)


def test_what_cannot_be_fitted_is_refused(model: str) -> None:
    unweighted = example([3], [4], 0.0)
    cases: list[tuple[list[Example], str]] = [
        ([unweighted], "none of the 1 examples"),
        ([], "none of the 0 examples"),
        ([example([], [3, 4])], "weighs its first token"),
        ([(np.array([3, 4], np.int32), np.array([0.0], np.float32))], "2 ids, but 1 weights"),
        ([example([3], [4], math.nan)], "negative or not finite"),
        ([example([3], [4], -1.0)], "negative or not finite"),
    ]
    for examples, message in cases:
        with pytest.raises(ConfigError, match=message):
            fit_of(model, examples)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"steps": 0}, "steps is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"validation": 1.0}, "validation is 1.0"),
        ({"decay": "no"}, "decay is 'no'"),
        ({"patience": 2, "validation": 0.0}, "patience needs validation"),
    ]
    for settings, message in wrong:
        with pytest.raises(ConfigError, match=message):
            FitSettings(**settings)


def test_a_fit_that_is_not_finite_ends_before_its_step(model: str) -> None:
    fitted = Fitted(model)
    next(iter(fitted.parameters.values())).data.fill_(float("nan"))
    kept = {name: tensor for name, tensor in fitted.copy().items() if "norm" in name}
    with pytest.raises(LearningError, match=r"step 1 .*'loss': nan"):
        next(supervise(fitted, EXAMPLES, FitSettings(packing=True)))
    assert all(torch.equal(fitted.copy()[name], tensor) for name, tensor in kept.items())
