from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from opentinker.errors import CheckpointError, ConfigError, LearningError, UnknownNameError
from opentinker.learner.settings import PolicySettings, at
from opentinker.learner.worker import LearnerWorker
from opentinker.types import BASE, AdapterSpec, TrainBatch

WIDE, NARROW = AdapterSpec(8, 16.0), AdapterSpec(4, 8.0, ("q_proj", "v_proj"))
SEQUENCES = [((5, 9, 3), (30, 22)), ((7,), (8, 9, 10, 11)), ((4, 4, 4, 4, 4, 4), (1,))]

Rows = Callable[..., list]
MakeBatch = Callable[..., TrainBatch]


def worker(model: str, **settings: object) -> LearnerWorker:
    made = LearnerWorker(model)
    made.add_policy("alice", WIDE, PolicySettings(**settings))  # pyright: ignore[reportArgumentType]
    made.add_policy("bob", NARROW, PolicySettings(learning_rate=1e-2))
    return made


def state(learner: LearnerWorker, policy: str) -> list[np.ndarray]:
    return [*learner.export(policy).tensors.values(), *learner.score(policy, SEQUENCES)]


def equal(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def gap(one: list[np.ndarray], two: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, two, strict=True))


@pytest.fixture
def batch(make_batch: MakeBatch, random_rows: Rows) -> TrainBatch:
    return make_batch(random_rows(8))


def plain_logprobs(network: torch.nn.Module, temperature: float) -> list[np.ndarray]:
    """One sequence at a time, all logits, no padding."""
    found = []
    for prompt, tokens in SEQUENCES:
        ids = torch.tensor([[*prompt, *tokens]])
        with torch.no_grad():
            logits = network(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        picked = torch.log_softmax(logits / temperature, dim=-1)
        found.append(picked[range(len(tokens)), torch.tensor(tokens)].numpy())
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_scores_are_those_of_a_plain_forward(
    model: str, batch: TrainBatch, folder: Path, temperature: float
) -> None:
    learner = worker(model, learning_rate=1e-2)
    learner.update("alice", [batch])
    learner.save(folder)
    network = AutoModelForCausalLM.from_pretrained(model).eval()
    plain = plain_logprobs(network, temperature)
    adapted = plain_logprobs(PeftModel.from_pretrained(network, folder / "alice"), temperature)
    assert gap(learner.score(BASE, SEQUENCES, temperature), plain) < 1e-5
    assert gap(learner.score("alice", SEQUENCES, temperature), adapted) < 1e-5
    assert gap(plain, adapted) > 1e-3


def test_scoring_takes_no_tokens_and_no_sequences_but_no_empty_prompt(model: str) -> None:
    learner = worker(model)
    assert learner.score("alice", []) == []
    assert [len(each) for each in learner.score(BASE, [((3,), ()), ((3,), (4, 5))])] == [0, 2]
    assert [len(each) for each in learner.score(BASE, [((3,), ())])] == [0]
    with pytest.raises(ValueError, match="prompt is empty"):
        learner.score(BASE, [((), (4,))])


def test_updating_one_policy_changes_no_other_by_one_bit(model: str, batch: TrainBatch) -> None:
    learner = worker(model, learning_rate=1e-2, kl=0.5, entropy=0.1)
    bob, base = state(learner, "bob"), learner.score(BASE, SEQUENCES)
    alice = state(learner, "alice")
    for _ in range(3):
        learner.update("alice", [batch])
    assert equal(state(learner, "bob"), bob)
    assert equal(learner.score(BASE, SEQUENCES), base)
    assert not equal(state(learner, "alice"), alice)
    alice = state(learner, "alice")
    learner.update("bob", [replace(batch, policy="bob")])
    assert equal(state(learner, "alice"), alice)
    assert not equal(state(learner, "bob"), bob)


def test_saving_and_loading_equals_never_having_stopped(
    model: str, make_batch: MakeBatch, random_rows: Rows, folder: Path
) -> None:
    batches = [make_batch(random_rows(6, seed)) for seed in range(6)]
    bad = make_batch([([3, 4, 5], 1, float("nan"))])
    schedules = {"learning_rate": (1e-2, 1e-3), "kl": (1.0, 0.2), "reference_every": 2}
    learner = worker(model, **schedules)
    for step, each in enumerate([*batches[:3], bad]):
        learner.update("alice", [each], step / 6)
    learner.save(folder)
    other = worker(model, **schedules)
    other.load(folder)
    assert other.version("alice") == 4
    assert other.version("bob") == 0
    for each in batches[3:]:
        reports = [one.update("alice", [each], 0.7) for one in (learner, other)]
        assert reports[0] == reports[1]
        assert reports[0].metrics["skipped"] == 1.0
        assert reports[0].metrics["kl"] > 0 or reports[0].version % 2 == 1
        assert equal(state(learner, "alice"), state(other, "alice"))


def test_saving_over_a_checkpoint_replaces_it_whole(
    model: str, batch: TrainBatch, folder: Path
) -> None:
    learner = worker(model)
    learner.save(folder)
    (folder / "stray").touch()
    learner.update("alice", [batch])
    learner.save(folder)
    assert sorted(each.name for each in folder.iterdir()) == ["alice", "bob", "learner.json"]
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]
    other = worker(model)
    other.load(folder)
    assert other.version("alice") == 1


def test_a_checkpoint_that_is_missing_torn_or_of_others_is_refused(
    model: str, folder: Path
) -> None:
    learner = worker(model)
    with pytest.raises(CheckpointError, match="no learner's checkpoint"):
        learner.load(folder)
    learner.save(folder)
    alone = LearnerWorker(model)
    alone.add_policy("alice", WIDE, PolicySettings())
    with pytest.raises(CheckpointError, match="'bob' is not in both"):
        alone.load(folder)
    other = LearnerWorker(model)
    for name in ("alice", "bob"):
        other.add_policy(name, NARROW, PolicySettings())
    with pytest.raises(CheckpointError, match="alice"):
        other.load(folder)
    for torn, content in (("optimizer.pt", b"torn"), ("counts.json", b"{")):
        whole = (folder / "alice" / torn).read_bytes()
        (folder / "alice" / torn).write_bytes(content)
        with pytest.raises(CheckpointError, match="alice"):
            learner.load(folder)
        (folder / "alice" / torn).write_bytes(whole)
    (folder / "alice" / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="alice"):
        learner.load(folder)


def test_versions_count_every_update_and_never_go_back(
    model: str, batch: TrainBatch, make_batch: MakeBatch
) -> None:
    learner = worker(model)
    empty = make_batch([([3, 4, 5], 0, 0.0)])
    reports = [learner.update("alice", each) for each in ([batch], [empty], [], [batch])]
    assert [each.version for each in reports] == [1, 2, 3, 4]
    assert [each.skipped for each in reports] == ["", "no trained token", "no trained token", ""]
    assert [each.metrics["skipped"] for each in reports] == [0, 1, 2, 2]
    assert learner.version("alice") == 4
    assert learner.version("bob") == 0


def test_names_that_cannot_be_are_refused(model: str) -> None:
    learner = worker(model)
    for name in (BASE, "alice@reference", "../alice", "", ".hidden"):
        with pytest.raises(ConfigError):
            learner.add_policy(name, WIDE, PolicySettings())
    with pytest.raises(ConfigError, match="has an adapter already"):
        learner.add_policy("alice", WIDE, PolicySettings())
    with pytest.raises(UnknownNameError, match="did you mean 'alice'"):
        learner.update("alic", [])
    with pytest.raises(UnknownNameError):
        learner.score("nobody", SEQUENCES)
    with pytest.raises(ConfigError, match="not a folder with a config"):
        LearnerWorker("some/where")


def test_what_crosses_processes_can_be_pickled(model: str, batch: TrainBatch) -> None:
    learner = worker(model)
    settings = PolicySettings(entropy=(0.1, 0.01))
    assert pickle.loads(pickle.dumps(settings)) == settings
    report = learner.update("alice", [pickle.loads(pickle.dumps(batch))])
    assert pickle.loads(pickle.dumps(report)) == report
    weights = pickle.loads(pickle.dumps(learner.export("alice")))
    assert weights.spec == WIDE


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": -1.0},
        {"entropy": (0.1, float("nan"))},
        {"temperature": 0.0},
        {"importance_cap": 0.0},
        {"max_grad_norm": -1.0},
        {"reference_every": 0},
        {"max_skipped": 0},
        {"normalization": "rows"},
        {"weight_decay": -0.1},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        PolicySettings(**wrong)


def test_an_unknown_loss_is_refused_before_anything_is_added(model: str) -> None:
    learner = LearnerWorker(model)
    with pytest.raises(UnknownNameError, match="policy_gradient"):
        learner.add_policy("alice", WIDE, PolicySettings(loss="policy_gradint"))
    learner.add_policy("alice", WIDE, PolicySettings())


def test_schedules_are_linear_and_held_at_their_ends() -> None:
    assert at(0.3, 0.5) == 0.3
    assert [at((1.0, 0.5), progress) for progress in (-1, 0, 0.5, 1, 2)] == [1, 1, 0.75, 0.5, 0.5]


def test_an_update_that_is_never_finite_ends_in_a_named_cause(
    model: str, make_batch: MakeBatch, batch: TrainBatch
) -> None:
    learner = worker(model, max_skipped=2)
    bad = make_batch([([3, 4, 5], 1, float("inf")), ([3, 4, 5], 1, 1.0)])
    before = state(learner, "alice")
    report = learner.update("alice", [batch, bad])
    assert "1 of 2 advantages are not finite" in report.skipped
    assert equal(state(learner, "alice"), before)
    assert learner.update("alice", [batch]).skipped == ""
    assert learner.update("alice", [bad]).skipped
    with pytest.raises(LearningError, match=r"'alice': 2 updates in a row.*advantages"):
        learner.update("alice", [bad])
