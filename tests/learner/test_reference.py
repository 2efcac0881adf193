"""What a policy is held near."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.learner.settings import FrozenSource, FullSource, LoraSource, PolicySettings
from opentinker.learner.worker import LearnerWorker
from opentinker.types import AdapterSpec, TrainBatch

Rows = Callable[..., list]
MakeBatch = Callable[..., TrainBatch]
LORA = LoraSource(AdapterSpec(4, 8.0))
SOURCES = pytest.mark.parametrize("source", [LORA, FullSource()], ids=["lora", "full"])


def add(
    learner: LearnerWorker, source: LoraSource | FullSource, name: str = "alice", **settings: object
) -> None:
    options = {"learning_rate": 1e-2, "kl": 0.1, **settings}
    learner.add_policy(name, source, PolicySettings(**options))  # pyright: ignore[reportArgumentType]


@pytest.fixture
def batch(make_batch: MakeBatch, random_rows: Rows) -> TrainBatch:
    return make_batch(random_rows(5))


def distributions(network: torch.nn.Module, batch: TrainBatch) -> torch.Tensor:
    rows, columns = np.nonzero(batch.trained)
    with torch.no_grad():
        logits = network(input_ids=torch.from_numpy(batch.ids).long()).logits
    return torch.log_softmax(logits[rows, columns - 1].double(), -1)


@SOURCES
def test_the_base_is_nearest_at_the_start_and_stays_where_it_is(
    model: str, batch: TrainBatch, source: LoraSource | FullSource
) -> None:
    learner = LearnerWorker(model)
    add(learner, source, reference="base", reference_every=1)
    found = [learner.update("alice", [batch]).metrics["kl"] for _ in range(4)]
    assert abs(found[0]) < 1e-6
    assert found[1] > 1e-4
    assert found[3] > found[1]


@SOURCES
def test_the_divergence_is_exact_from_a_frozen_policy_of_whatever_kind(
    model: str, other_model: str, batch: TrainBatch, source: LoraSource | FullSource
) -> None:
    learner = LearnerWorker(model)
    learner.add_policy("teacher", FrozenSource(other_model))
    add(learner, source, reference="teacher")
    own, theirs = (
        distributions(AutoModelForCausalLM.from_pretrained(folder).eval(), batch)
        for folder in (model, other_model)
    )
    expected = (own.exp() * (own - theirs)).sum(-1).mean().item()
    assert learner.update("alice", [batch]).metrics["kl"] == pytest.approx(expected, rel=1e-4)
    assert expected > 0.1


@SOURCES
def test_only_a_pull_to_a_teacher_makes_a_policy_as_the_teacher(
    model: str, batch: TrainBatch, folder: Path, source: LoraSource | FullSource
) -> None:
    """The teacher is an adapter that another run has learned."""
    first = LearnerWorker(model)
    add(first, LORA, "alice", kl=0.0)
    for _ in range(20):
        first.update("alice", [batch])
    first.save(folder)
    learner = LearnerWorker(model)
    learner.add_policy("teacher", FrozenSource(str(folder / "alice")))
    add(learner, source, reference="teacher", kl=100.0, learning_rate=3e-3)
    found = [learner.update("alice", [batch]).metrics["kl"] for _ in range(60)]
    assert found[0] > 0.05
    assert found[-1] < found[0] / 10


def test_a_copy_of_a_whole_model_moves_when_it_is_told_to(model: str, batch: TrainBatch) -> None:
    learner = LearnerWorker(model)
    add(learner, FullSource(), reference_every=3)
    found = [learner.update("alice", [batch]).metrics["kl"] for _ in range(7)]
    assert [abs(each) < 1e-6 for each in found] == [True, False, False] * 2 + [True]


def test_without_a_coefficient_there_is_no_reference(model: str, batch: TrainBatch) -> None:
    learner = LearnerWorker(model)
    add(learner, FullSource(), kl=0.0)
    assert "kl" not in learner.update("alice", [batch]).metrics
    assert learner._learners["alice"]._copy is None


def test_references_that_cannot_be_are_refused(model: str, small_model: str) -> None:
    learner = LearnerWorker(model)
    learner.add_policy("teacher", FrozenSource())
    learner.add_policy("small", FrozenSource(small_model))
    add(learner, LORA, "bob")
    for kl in (0.0, 0.1):
        with pytest.raises(UnknownNameError, match=r"'teachr'; did you mean 'teacher'.*'alice'"):
            add(learner, LORA, kl=kl, reference="teachr")
        with pytest.raises(UnknownNameError, match="known: base, copy, small, teacher"):
            add(learner, LORA, kl=kl, reference="bob")  # it learns
    with pytest.raises(ConfigError, match="'alice' speaks 40 tokens, its reference 'small' 30"):
        add(learner, FullSource(), reference="small")
    add(learner, LORA, reference="teacher")
