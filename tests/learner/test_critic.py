from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from opentinker.errors import CheckpointError, ConfigError
from opentinker.learner import critic as critics
from opentinker.learner.full import trainable_model
from opentinker.learner.settings import FrozenSource, FullSource, LoraSource, PolicySettings
from opentinker.learner.worker import LearnerWorker
from opentinker.types import AdapterSpec, TrainBatch, Trajectory

Rows = Callable[..., list]
MakeBatch = Callable[..., TrainBatch]
Targeted = Callable[..., TrainBatch]
LORA = LoraSource(AdapterSpec(4, 8.0))
SOURCES = pytest.mark.parametrize("source", [LORA, FullSource()], ids=["lora", "full"])


def worker(model: str, source: LoraSource | FullSource, **settings: object) -> LearnerWorker:
    made = LearnerWorker(model)
    options = {"learning_rate": 1e-2, "critic": True, **settings}
    made.add_policy("alice", source, PolicySettings(**options))  # pyright: ignore[reportArgumentType]
    return made


def row(turn: Sequence[int], ids: Sequence[int] = (), policy: str = "alice") -> Trajectory:
    count = len(turn)
    return Trajectory(
        episode="0",
        seat="a",
        policy=policy,
        ids=np.array(ids or range(3, 3 + count), np.int32),
        turn=np.array(turn, np.int32),
        logprobs=np.zeros(count, np.float32),
        versions=np.zeros(count, np.int32),
    )


ROWS = [
    row([-1, -1, 0, 0, -1, 1]),
    row([-1, 0]),
    row([-1, -1, -1]),
    row([-1, -1, 2, 2, 2, -1, -1, 5, -1, 6, 6, -1]),
]


def test_a_new_critic_says_nothing(model: str) -> None:
    learner = worker(model, LORA)
    found = learner.values("alice", ROWS)
    assert [each.tolist() for each in found] == [[0, 0], [0], [], [0, 0, 0]]
    assert all(each.dtype == np.float64 for each in found)
    assert learner.values("alice", []) == []


def test_values_are_read_before_each_turn_off_the_last_hidden_state(model: str) -> None:
    """Whatever rows go through the model beside a row."""
    policy = trainable_model(model, model)
    critic = critics.Critic(policy)
    generator = torch.Generator().manual_seed(0)
    critic.weight.data = torch.randn(32, generator=generator)
    critic.bias.data = torch.tensor(0.7)
    plain = AutoModelForCausalLM.from_pretrained(model)
    expected = []
    for each, places in zip(ROWS, ([1, 4], [0], [], [1, 6, 8]), strict=True):
        with torch.no_grad():
            ids = torch.from_numpy(each.ids.astype(np.int64))[None]
            states = plain.model(input_ids=ids).last_hidden_state[0, places]
        expected.append((states @ critic.weight.data + 0.7).numpy())
    for budget in (16384, 20, 1):
        for found, wanted in zip(
            critics.values(policy, critic, ROWS, budget), expected, strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_the_gradient_is_that_of_a_plain_actor_critic(
    model: str, make_batch: MakeBatch, random_rows: Rows, targeted: Targeted
) -> None:
    """Two micro-batches; the value head has learned something before."""
    batches = [targeted(make_batch(random_rows(4, seed)), seed) for seed in range(2)]
    learner = worker(model, FullSource(), value_coefficient=0.7, max_grad_norm=1e9)
    critic = learner._learners["alice"].critic
    assert critic is not None
    generator = torch.Generator().manual_seed(0)
    critic.weight.data = torch.randn(32, generator=generator)
    critic.bias.data = torch.tensor(-0.3)

    network = AutoModelForCausalLM.from_pretrained(model).eval()
    weight, bias = critic.weight.data.clone().requires_grad_(), torch.tensor(-0.3).requires_grad_()
    count = sum(int(each.trained.sum()) for each in batches)
    turns = sum(
        int((~np.isnan(each.targets)).sum()) for each in batches if each.targets is not None
    )
    loss, errors, told = torch.zeros(()), [], []
    for batch in batches:
        assert batch.targets is not None
        states = network.model(input_ids=torch.from_numpy(batch.ids).long()).last_hidden_state
        rows, columns = np.nonzero(batch.trained)
        logs = torch.log_softmax(network.lm_head(states), -1)
        logs = logs[rows, columns - 1, batch.ids[rows, columns]]
        loss = loss - (logs * torch.from_numpy(batch.advantages[rows, columns])).sum() / count
        rows, columns = np.nonzero(~np.isnan(batch.targets))
        values = states[rows, columns - 1] @ weight + bias
        error = 0.5 * (values - torch.from_numpy(batch.targets[rows, columns])) ** 2
        loss = loss + 0.7 * error.sum() / turns
        errors += error.tolist()
        told += values.tolist()
    own = [*network.parameters(), weight, bias]
    expected = torch.autograd.grad(loss, own)
    report = learner.update("alice", batches)
    assert report.metrics["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert report.metrics["value_loss"] == pytest.approx(np.mean(errors), rel=1e-5)
    assert report.metrics["value_mean"] == pytest.approx(np.mean(told), rel=1e-4)
    state = learner._learners["alice"]._optimizer.state_dict()["state"]
    assert len(state) == len(expected)
    for moments, wanted in zip(state.values(), expected, strict=True):
        torch.testing.assert_close(moments["exp_avg"] / 0.1, wanted, rtol=1e-3, atol=1e-6)
    norm = torch.cat([each.flatten() for each in expected]).norm().item()
    assert report.metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)


@SOURCES
def test_a_critic_learns_what_turns_are_worth(
    model: str, make_batch: MakeBatch, source: LoraSource | FullSource
) -> None:
    """Two prompts, one worth 1 and one worth -2; nothing is to be learned of the answers."""
    batch = make_batch([([5, 6, 7, 9], 1, 0.0), ([5, 8, 7, 9], 1, 0.0)])
    targets = np.full(batch.ids.shape, np.nan, np.float32)
    targets[:, 3] = [1.0, -2.0]
    learner = worker(model, source, normalization="sequence")
    found = [
        learner.update("alice", [replace(batch, targets=targets)]).metrics["value_loss"]
        for _ in range(60)
    ]
    assert found[0] == pytest.approx((0.5 + 2.0) / 2)
    assert found[-1] < 0.02
    rows = [row([-1, -1, -1, 0], ids) for ids in ([5, 6, 7, 9], [5, 8, 7, 9])]
    values = np.concatenate(learner.values("alice", rows))
    assert values.tolist() == pytest.approx([1.0, -2.0], abs=0.3)


def test_turns_count_alike_in_whatever_micro_batches_they_are(
    model: str, make_batch: MakeBatch, random_rows: Rows, targeted: Targeted
) -> None:
    whole = targeted(make_batch(random_rows(5)))
    assert whole.targets is not None
    parts = [
        TrainBatch(whole.policy, *(np.asarray(each)[part] for each in arrays(whole)))
        for part in (slice(0, 1), slice(1, 5))
    ]
    found = [worker(model, LORA).update("alice", each).metrics for each in ([whole], parts)]
    for name in ("loss", "value_loss", "grad_norm"):
        assert found[1][name] == pytest.approx(found[0][name], rel=1e-4)


def arrays(batch: TrainBatch) -> list[np.ndarray]:
    assert batch.targets is not None
    return [
        batch.ids,
        batch.lengths,
        batch.trained,
        batch.advantages,
        batch.logprobs,
        batch.versions,
        batch.targets,
    ]


@SOURCES
def test_a_saved_critic_says_the_same(
    model: str,
    make_batch: MakeBatch,
    random_rows: Rows,
    targeted: Targeted,
    folder: Path,
    source: LoraSource | FullSource,
) -> None:
    learner, other = worker(model, source), worker(model, source)
    learner.update("alice", [targeted(make_batch(random_rows(4)))])
    learner.save(folder)
    other.load(folder)
    for one, two in zip(learner.values("alice", ROWS), other.values("alice", ROWS), strict=True):
        assert np.array_equal(one, two)
        assert one.any() or not len(one)
    (folder / "alice" / "critic.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"'alice'.*no critic"):
        other.load(folder)


def test_what_a_critic_cannot_use_is_refused(
    model: str, make_batch: MakeBatch, targeted: Targeted
) -> None:
    learner = worker(model, LORA)
    batch = targeted(make_batch([([3, 4, 5], 1, 1.0), ([3, 4, 5, 6], 2, 1.0), ([3, 4], 0, 0.0)]))
    assert batch.targets is not None
    lacking, stray = batch.targets.copy(), batch.targets.copy()
    lacking[1, 2], stray[2, 1] = np.nan, 1.0
    for targets, message in (
        (None, "without targets"),
        (lacking, "no target"),
        (stray, "at no trained token"),
    ):
        with pytest.raises(ValueError, match=f"'alice'.*{message}"):
            learner.update("alice", [replace(batch, targets=targets)])
    assert learner.version("alice") == 0
    with pytest.raises(ValueError, match="'bob' came to policy 'alice'"):
        learner.values("alice", [row([-1, 0], policy="bob")])
    with pytest.raises(ValueError, match="nothing before it"):
        learner.values("alice", [row([0, 0])])
    report = learner.update(
        "alice", [replace(batch, targets=np.where(batch.trained, np.inf, np.nan))]
    )
    assert "critic's targets are not finite" in report.skipped


def test_values_are_only_asked_of_policies_with_a_critic(model: str) -> None:
    learner = worker(model, LORA, critic=False)
    learner.add_policy("still", FrozenSource())
    with pytest.raises(ConfigError, match="'alice' has no critic"):
        learner.values("alice", ROWS)
    with pytest.raises(ConfigError, match="'still' is frozen"):
        learner.values("still", ROWS)


def test_without_a_critic_targets_change_nothing(
    model: str, make_batch: MakeBatch, random_rows: Rows, targeted: Targeted
) -> None:
    batch = make_batch(random_rows(4))
    reports = [
        worker(model, LORA, critic=False).update("alice", [each])
        for each in (batch, targeted(batch))
    ]
    assert reports[0] == reports[1]
