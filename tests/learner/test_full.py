from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from opentinker.errors import CheckpointError, ConfigError
from opentinker.learner.full import trainable_model
from opentinker.learner.settings import FullSource, PolicySettings
from opentinker.learner.worker import LearnerWorker
from opentinker.types import BASE, FullWeights, TrainBatch

Rows = Callable[..., list]
MakeBatch = Callable[..., TrainBatch]
SEQUENCES = [((5, 9, 3), (30, 22)), ((7,), (8, 9, 10, 11))]


def worker(model: str, source: FullSource | None = None, **settings: object) -> LearnerWorker:
    made = LearnerWorker(model)
    options = {"learning_rate": 1e-3, **settings}
    policy = PolicySettings(**options)  # pyright: ignore[reportArgumentType]
    made.add_policy("bob", source or FullSource(), policy)
    return made


@pytest.fixture
def batch(make_batch: MakeBatch, random_rows: Rows) -> TrainBatch:
    return make_batch(random_rows(6), policy="bob")


def plain_logprobs(network: torch.nn.Module) -> list[np.ndarray]:
    found = []
    for prompt, tokens in SEQUENCES:
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0]
        logs = torch.log_softmax(logits[len(prompt) - 1 : -1], -1)
        found.append(logs[range(len(tokens)), torch.tensor(tokens)].numpy())
    return found


@pytest.mark.parametrize("kind", ["model", "tied_model"])
def test_an_update_is_that_of_plain_transformers_and_adamw(
    kind: str, batch: TrainBatch, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(kind)
    learner = worker(model, max_grad_norm=0.5, entropy=0.1, weight_decay=0.01)
    network = AutoModelForCausalLM.from_pretrained(model).eval()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
    rows, columns = np.nonzero(batch.trained)
    advantages = torch.from_numpy(batch.advantages[rows, columns])
    for _ in range(3):
        report = learner.update("bob", [batch])
        logits = network(input_ids=torch.from_numpy(batch.ids).long()).logits
        logs = torch.log_softmax(logits, -1)[rows, columns - 1]
        picked = logs[range(len(rows)), batch.ids[rows, columns]]
        loss = -(picked * advantages).mean() + 0.1 * (logs.exp() * logs).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
        assert report.metrics["loss"] == pytest.approx(loss.item(), rel=1e-4)
        assert report.metrics["grad_norm"] == pytest.approx(norm.item(), rel=1e-3)
    weights = learner.export("bob")
    assert isinstance(weights, FullWeights)
    state = network.state_dict()
    tied = {"lm_head.weight"} if kind == "tied_model" else set()
    assert weights.tensors.keys() == state.keys() - tied
    for name, value in weights.tensors.items():
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, state[name].numpy(), rtol=0, atol=5e-5)


@pytest.mark.parametrize("kind", ["model", "tied_model"])
def test_a_checkpoint_is_a_folder_of_transformers(
    kind: str, batch: TrainBatch, folder: Path, request: pytest.FixtureRequest
) -> None:
    learner = worker(request.getfixturevalue(kind), kl=0.1)
    learner.update("bob", [batch])
    learner.save(folder)
    network = AutoModelForCausalLM.from_pretrained(folder / "bob").eval()
    plain = plain_logprobs(network)
    for own, theirs, base in zip(
        learner.score("bob", SEQUENCES), plain, learner.score(BASE, SEQUENCES), strict=True
    ):
        np.testing.assert_allclose(own, theirs, rtol=0, atol=1e-5)
        assert np.abs(own - base).max() > 1e-3
    words = AutoTokenizer.from_pretrained(folder / "bob")
    assert words("a few words") == AutoTokenizer.from_pretrained(learner._base.model)("a few words")


def test_it_begins_as_the_base_or_as_the_model_that_is_named(model: str, other_model: str) -> None:
    learner = worker(model)
    learner.add_policy("carol", FullSource(other_model), PolicySettings())
    for name, folder in (("bob", model), ("carol", other_model)):
        plain = plain_logprobs(AutoModelForCausalLM.from_pretrained(folder).eval())
        for own, theirs in zip(learner.score(name, SEQUENCES), plain, strict=True):
            np.testing.assert_allclose(own, theirs, rtol=0, atol=1e-5)


def test_an_export_is_a_copy(model: str, batch: TrainBatch) -> None:
    learner = worker(model)
    weights = learner.export("bob").tensors
    before = {name: value.copy() for name, value in weights.items()}
    learner.update("bob", [batch])
    assert all(np.array_equal(before[name], weights[name]) for name in before)
    after = learner.export("bob").tensors
    assert not any(np.array_equal(before[name], after[name]) for name in before)


def test_a_copy_is_apart_and_takes_no_gradient(tied_model: str) -> None:
    policy = trainable_model(tied_model, tied_model)
    other = policy.copy()
    assert not any(each.requires_grad for each in other.parameters().values())
    for parameter in policy.parameters().values():
        parameter.data.add_(0.5)
    old, new = other.export().tensors, policy.export().tensors
    assert not any(np.array_equal(old[name], new[name]) for name in old)
    other.take(policy)
    old = other.export().tensors
    assert all(np.array_equal(old[name], new[name]) for name in old)


def test_a_gradient_that_is_not_finite_changes_nothing(model: str, batch: TrainBatch) -> None:
    learner = worker(model)
    before = learner.export("bob").tensors
    odd = replace(batch, advantages=np.where(batch.trained, np.float32(3e38), np.float32(0)))
    assert learner.update("bob", [odd]).skipped
    after = learner.export("bob").tensors
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert learner.update("bob", [batch]).skipped == ""


def test_models_that_are_not_there_whole_are_refused(
    model: str, small_model: str, batch: TrainBatch, folder: Path
) -> None:
    learner = worker(model)
    with pytest.raises(ConfigError, match="not a folder with a config"):
        learner.add_policy("carol", FullSource("some/where"), PolicySettings())
    learner.save(folder)
    whole = (folder / "bob" / "model.safetensors").read_bytes()
    (folder / "bob" / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match="can't be loaded"):
        learner.add_policy("carol", FullSource(str(folder / "bob")), PolicySettings())
    with pytest.raises(CheckpointError, match=r"'bob'.*can't be loaded"):
        learner.load(folder)
    other = worker(model, FullSource(small_model))
    other.save(folder)
    with pytest.raises(CheckpointError, match=r"'bob'.*has shape \(30, 32\), not \(40, 32\)"):
        learner.load(folder)
