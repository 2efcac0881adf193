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
from opentinker.learner.settings import (
    FrozenSource,
    FullSource,
    LoraSource,
    PolicySettings,
    Source,
    at,
)
from opentinker.learner.worker import LearnerWorker
from opentinker.types import BASE, AdapterSpec, TrainBatch

WIDE, NARROW = AdapterSpec(8, 16.0), AdapterSpec(4, 8.0, ("q_proj", "v_proj"))
SEQUENCES = [((5, 9, 3), (30, 22)), ((7,), (8, 9, 10, 11)), ((4, 4, 4, 4, 4, 4), (1,))]

Rows = Callable[..., list]
MakeBatch = Callable[..., TrainBatch]


def worker(model: str, **settings: object) -> LearnerWorker:
    made = LearnerWorker(model)
    made.add_policy("alice", LoraSource(WIDE), PolicySettings(**settings))  # pyright: ignore[reportArgumentType]
    made.add_policy("bob", LoraSource(NARROW), PolicySettings(learning_rate=1e-2))
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


KINDS: dict[str, tuple[Source, dict]] = {
    "lora": (LoraSource(WIDE), {"kl": 0.3, "reference_every": 2}),
    "critic": (LoraSource(NARROW, "gaussian"), {"critic": True, "loss": "ppo_clip", "epochs": 2}),
    "full": (FullSource(), {"kl": 0.1, "reference_every": 3, "loss": "gspo"}),
    "full_critic": (
        FullSource(),
        {"critic": True, "kl": 0.1, "reference": "still", "loss": "cispo", "minibatches": 2},
    ),
    "pulled": (LoraSource(WIDE), {"kl": 0.2, "reference": "base"}),
}


def mixed(model: str, other_model: str) -> LearnerWorker:
    """Every kind of policy side by side."""
    made = LearnerWorker(model)
    made.add_policy("still", FrozenSource(other_model))
    made.add_policy("alias", FrozenSource())
    for name, (source, settings) in KINDS.items():
        made.add_policy(name, source, PolicySettings(learning_rate=5e-3, **settings))
    return made


def test_updating_one_kind_of_policy_changes_no_other_by_one_bit(
    model: str, other_model: str, make_batch: MakeBatch, random_rows: Rows, targeted: Callable
) -> None:
    learner = mixed(model, other_model)
    names = [*KINDS, "still", "alias", BASE]
    for name in KINDS:
        before = {each: learner.score(each, SEQUENCES) for each in names}
        batches = [targeted(make_batch(random_rows(4, seed), policy=name)) for seed in (1, 2)]
        assert learner.update(name, batches).skipped == ""
        for each in names:
            assert equal(learner.score(each, SEQUENCES), before[each]) == (each != name), each
    assert {each: learner.version(each) for each in names} == {
        **dict.fromkeys(KINDS, 1),
        **dict.fromkeys(("still", "alias", BASE), 0),
    }


@pytest.mark.parametrize("policy", KINDS)
def test_every_kind_goes_on_as_if_it_had_never_stopped(
    model: str,
    other_model: str,
    make_batch: MakeBatch,
    random_rows: Rows,
    targeted: Callable,
    folder: Path,
    policy: str,
) -> None:
    batches = [
        [targeted(make_batch(random_rows(4, seed + more), policy=policy)) for more in (0, 50)]
        for seed in range(6)
    ]
    learner = mixed(model, other_model)
    for each in batches[:3]:
        learner.update(policy, each, 0.2)
    learner.save(folder)
    other = mixed(model, other_model)
    other.load(folder)
    for each in batches[3:]:
        reports = [one.update(policy, each, 0.7) for one in (learner, other)]
        assert reports[0] == reports[1]
        assert equal(state(learner, policy), state(other, policy))
    assert learner.version(policy) == 6


def test_frozen_policies_are_no_part_of_a_checkpoint(
    model: str, other_model: str, folder: Path
) -> None:
    learner = mixed(model, other_model)
    learner.save(folder)
    assert sorted(each.name for each in folder.iterdir()) == sorted([*KINDS, "learner.json"])


def test_frozen_policies_answer_and_are_exported_and_never_learn(
    model: str, other_model: str, batch: TrainBatch
) -> None:
    learner = mixed(model, other_model)
    network = AutoModelForCausalLM.from_pretrained(other_model).eval()
    assert gap(learner.score("still", SEQUENCES), plain_logprobs(network, 1.0)) < 1e-5
    assert equal(learner.score("alias", SEQUENCES), learner.score(BASE, SEQUENCES))
    exported = learner.export("still").tensors
    theirs = network.state_dict()
    assert exported.keys() == theirs.keys()
    assert all(np.array_equal(exported[name], theirs[name].numpy()) for name in theirs)
    for name in ("alias", BASE):
        with pytest.raises(ConfigError, match="no weights of its own to export"):
            learner.export(name)
    with pytest.raises(ConfigError, match="'still' is frozen: it never learns"):
        learner.update("still", [batch])


def test_who_learns_has_settings_and_who_does_not_has_none(model: str) -> None:
    learner = LearnerWorker(model)
    with pytest.raises(ConfigError, match="'still' is frozen, and was given settings"):
        learner.add_policy("still", FrozenSource(), PolicySettings())
    for source in (LoraSource(WIDE), FullSource()):
        with pytest.raises(ConfigError, match="'alice' learns, and was given no settings"):
            learner.add_policy("alice", source)


def test_a_checkpoint_of_another_kind_of_policy_is_refused(model: str, folder: Path) -> None:
    sources = (LoraSource(WIDE), FullSource())
    learners = [LearnerWorker(model), LearnerWorker(model)]
    for learner, source in zip(learners, sources, strict=True):
        learner.add_policy("alice", source, PolicySettings())
    for one, other in (learners, learners[::-1]):
        one.save(folder)
        with pytest.raises(CheckpointError, match="alice"):
            other.load(folder)


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
    alone.add_policy("alice", LoraSource(WIDE), PolicySettings())
    with pytest.raises(CheckpointError, match="'bob' is not in both"):
        alone.load(folder)
    other = LearnerWorker(model)
    for name in ("alice", "bob"):
        other.add_policy(name, LoraSource(NARROW), PolicySettings())
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
    for name in (BASE, "copy", "alice@copy", "../alice", "", ".hidden"):
        with pytest.raises(ConfigError):
            learner.add_policy(name, LoraSource(WIDE), PolicySettings())
    with pytest.raises(ConfigError, match="is there already"):
        learner.add_policy("alice", LoraSource(WIDE), PolicySettings())
    with pytest.raises(UnknownNameError, match="did you mean 'alice'"):
        learner.update("alic", [])
    with pytest.raises(UnknownNameError):
        learner.score("nobody", SEQUENCES)
    with pytest.raises(ConfigError, match="not a folder with a config"):
        LearnerWorker("some/where")


def test_what_crosses_processes_can_be_pickled(model: str, batch: TrainBatch) -> None:
    learner = worker(model)
    settings = PolicySettings(entropy=(0.1, 0.01), loss_options={"importance_cap": 2.0})
    for source in (LoraSource(WIDE, "gaussian", "some/where"), FullSource(), FrozenSource("x")):
        assert pickle.loads(pickle.dumps(source)) == source
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
        {"epochs": 0},
        {"minibatches": 0},
        {"value_coefficient": -1.0},
        {"normalization_tokens": 0},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        PolicySettings(**wrong)


def test_constant_normalization_needs_its_constant() -> None:
    with pytest.raises(ConfigError, match="without normalization_tokens"):
        PolicySettings(normalization="constant")
    assert PolicySettings(normalization="constant", normalization_tokens=8).epochs == 1


def test_an_unknown_loss_is_refused_before_anything_is_added(model: str) -> None:
    learner = LearnerWorker(model)
    with pytest.raises(UnknownNameError, match="policy_gradient"):
        learner.add_policy("alice", LoraSource(WIDE), PolicySettings(loss="policy_gradint"))
    learner.add_policy("alice", LoraSource(WIDE), PolicySettings())


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
