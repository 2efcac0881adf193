"""Kinds of policies, update schedules and asynchrony, on real Ray and the reference engine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from opentinker.recorder import Run
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.jobs import run_experiment
from opentinker.scheduler.watcher import Silent

EXPERIMENT = """
name = "kuhn"
seed = 3
model = "tiny"
engine = "torch"
[env]
id = "kuhn_poker_v0"
options.illegal = "random"
[policies.alice]
rank = 8
[policies.bob]
{bob}
[cast]
player_0 = "alice"
player_1 = "{second}"
[sampling]
max_tokens = 4
[train]
updates = 6
episodes_per_update = 16
[evaluate]
exploitability = true
[checkpoint]
keep_last = 99
transcripts = 16
"""

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def _train(
    folder: Path, *overrides: str, bob: str = "rank = 4", second: str = "bob", runs: str = "runs"
) -> Run:
    text = EXPERIMENT.format(bob=bob, second=second)
    if second != "bob":
        text = text.replace(f"[policies.bob]\n{bob}\n", "")
    path = folder / "experiment.toml"
    path.write_text(text)
    return run_experiment(path, overrides, folder / runs, Silent())


def _moved(run: Run, policy: str) -> list[int]:
    """The steps, from the second on, whose update changed the policy's saved weights."""
    digests = []
    for checkpoint in run.checkpoints():
        files = (checkpoint / "policies" / policy).glob("*model.safetensors")
        digests.append([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])
    return [step for step in range(2, len(digests) + 1) if digests[step - 1] != digests[step - 2]]


def _rows(run: Run) -> list[dict[str, Any]]:
    return run.lines("metrics.jsonl")[1:]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Run:
    """One LoRA policy against one whole model, both trained."""
    return _train(tmp_path_factory.mktemp("mixed"), bob='kind = "full"')


def test_a_lora_and_a_whole_policy_train_in_one_run_and_each_is_proved_after_each_publish(
    mixed: Run,
) -> None:
    assert mixed.status()["state"] == "succeeded"
    assert _moved(mixed, "alice") == _moved(mixed, "bob") == [2, 3, 4, 5, 6]
    assert all(0 <= row["probe_gap"] < 1e-3 for row in mixed.lines("metrics.jsonl"))
    for row in _rows(mixed):
        assert abs(row["alice/mismatch_kl"]) < 1e-6 and abs(row["bob/mismatch_kl"]) < 1e-6
    for step, episode in mixed.episodes():
        for turn in episode.turns:
            assert turn.policy == {"player_0": "alice", "player_1": "bob"}[turn.seat]
            assert turn.version == step - 1


def test_a_whole_policy_is_saved_as_transformers_saves_a_model(mixed: Run) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = mixed.latest_checkpoint() / "policies" / "bob"
    model = AutoModelForCausalLM.from_pretrained(folder)
    base = AutoModelForCausalLM.from_pretrained(mixed.folder / "base")
    theirs = base.state_dict()
    assert any((own != theirs[name]).any() for name, own in model.state_dict().items())
    assert AutoTokenizer.from_pretrained(folder).chat_template


def test_frozen_policies_play_and_never_change(mixed: Run, tmp_path: Path) -> None:
    """An adapter, a whole model and the base itself of the run before, each as a frozen seat."""
    runs = mixed.folder.parent
    model = f"model={mixed.folder / 'base'}"
    for number, source in enumerate((f"{mixed.folder.name}:alice", f"{runs}/kuhn:bob", None)):
        bob = 'kind = "frozen"' if source is None else f'kind = "frozen"\nsource = "{source}"'
        path = tmp_path / f"{number}.toml"
        path.write_text(EXPERIMENT.format(bob=bob, second="bob").replace('kuhn"', f'f{number}"', 1))
        run = run_experiment(path, [model, "train.updates=2"], runs, Silent())
        assert run.status()["state"] == "succeeded" and _moved(run, "alice") == [2]
        assert not any(key.startswith("bob/") for row in _rows(run) for key in row)
        assert all(row["probe_gap"] < 1e-3 for row in run.lines("metrics.jsonl"))
        turns = [t for _, episode in run.episodes() for t in episode.turns]
        assert {t.version for t in turns if t.seat == "player_1"} == {0}
        assert not (run.latest_checkpoint() / "policies" / "bob").exists()


def test_seats_may_share_a_policy(tmp_path: Path, cluster: Cluster) -> None:
    run = _train(tmp_path, "train.updates=2", second="alice")
    assert _moved(run, "alice") == [2]
    assert {t.policy for _, episode in run.episodes() for t in episode.turns} == {"alice"}
    turns = sum(len(episode.turns) for step, episode in run.episodes() if step == 2)
    assert _rows(run)[-1]["alice/tokens"] >= turns  # both seats' tokens are trained on


def test_alternating_moves_one_policy_while_the_other_stands_still(
    tmp_path: Path, cluster: Cluster
) -> None:
    run = _train(tmp_path, "train.update=alternating", "train.alternate_every=2")
    # alice learns at steps 1, 2, 5, 6 and bob at 3, 4
    assert _moved(run, "alice") == [2, 5, 6] and _moved(run, "bob") == [3, 4]
    versions = [
        {t.seat: t.version for _, e in run.episodes() if _ == step for t in e.turns}
        for step in range(1, 7)
    ]
    assert [v["player_0"] for v in versions] == [0, 1, 2, 2, 2, 3]
    assert [v["player_1"] for v in versions] == [0, 0, 0, 1, 2, 2]


def test_a_policys_frequency_says_when_it_moves(tmp_path: Path, cluster: Cluster) -> None:
    run = _train(tmp_path, bob="every = 3")
    assert _moved(run, "alice") == [2, 3, 4, 5, 6] and _moved(run, "bob") == [3, 6]


def test_rollouts_ahead_of_the_learner_are_as_old_as_they_may_be_and_trained_on_once(
    tmp_path: Path, cluster: Cluster
) -> None:
    run = _train(tmp_path, "train.max_staleness=2", "train.loss=ppo_clip")
    rows = _rows(run)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for row in rows:
        assert 0 <= row["alice/staleness"] <= 2 and row["alice/stale_tokens"] == 0
    assert max(row["alice/staleness"] for row in rows) > 0
    ids = [episode.request.id for _, episode in run.episodes()]
    assert len(ids) == len(set(ids)) == 6 * 16
    for step, episode in run.episodes():
        for turn in episode.turns:
            assert turn.version is not None and step - 1 - 2 <= turn.version <= step - 1


def test_a_critic_is_trained_beside_a_lora_and_a_whole_policy(
    tmp_path: Path, cluster: Cluster
) -> None:
    run = _train(
        tmp_path,
        "train.updates=3",
        "train.credit=gae",
        "train.loss=ppo_clip",
        "train.epochs=2",
        bob='kind = "full"',
    )
    for row in _rows(run):
        for policy in ("alice", "bob"):
            assert row[f"{policy}/value_loss"] >= 0
    # nothing is known at first: the first targets are off by the returns themselves
    assert _rows(run)[0]["alice/value_loss"] > 0
