"""The whole way of the data, on real Ray and real engines: what a run leaves, what must hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from opentinker.recorder import Run
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.jobs import run_experiment
from opentinker.scheduler.watcher import Silent
from opentinker.types import Episode

ROOT = Path(__file__).parents[2]

EXPERIMENT = """
name = "kuhn"
seed = 3
model = "tiny"
engine = "{engine}"
[env]
id = "kuhn_poker_v0"
[policies.alice]
rank = 8
kl = 0.5
reference_every = 2
[policies.bob]
rank = 4
targets = ["q_proj", "v_proj"]
entropy = [0.1, 0.0]
[cast]
player_0 = "alice"
player_1 = "bob"
[sampling]
max_tokens = 4
[train]
updates = 3
episodes_per_update = 24
[evaluate]
every = 3
episodes = 16
against = ["random", "equilibrium"]
exploitability = true
[checkpoint]
transcripts = 24
"""

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def _run(folder: Path, engine: str, cluster: Cluster, *overrides: str) -> Run:
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT.format(engine=engine))
    return run_experiment(path, overrides, folder / "runs", Silent())


@pytest.fixture(scope="module", params=["torch", pytest.param("vllm", marks=pytest.mark.vllm)])
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cluster: Cluster
) -> Run:
    folder = tmp_path_factory.mktemp(request.param)
    return _run(folder, request.param, cluster)


def _episodes(run: Run) -> list[Episode]:
    return [episode for _, episode in run.episodes()]


def test_a_run_leaves_what_the_design_says(run: Run) -> None:
    assert run.status()["state"] == "succeeded" and run.status()["step"] == 3
    rows = run.lines("metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert {p.name for p in (run.folder / "plots").glob("*.png")} >= {
        "exploitability.png",
        "rewards.png",
        "learner.png",
        "matches.png",
    }
    keys = ("reward/player_0", "illegal", "alice/entropy", "bob/mismatch_kl", "tokens_per_second")
    assert set(keys) <= rows[-1].keys()
    assert {m["against"] for m in run.lines("evaluations.jsonl")} == {"random", "equilibrium"}


def test_the_engine_answers_as_the_learner_does_after_every_publish(run: Run) -> None:
    rows = run.lines("metrics.jsonl")
    assert all(0 <= row["probe_gap"] < 1e-3 for row in rows)
    assert all(abs(row[f"{p}/mismatch_kl"]) < 1e-6 for row in rows[1:] for p in ("alice", "bob"))


def test_every_turn_tells_who_answered_at_which_version_and_what_became_of_it(run: Run) -> None:
    policies = {"player_0": "alice", "player_1": "bob"}
    for step, episode in run.episodes():
        for turn in episode.turns:
            assert turn.policy == policies[turn.seat] == turn.agent
            assert turn.version == step - 1  # what update step - 1 published
            assert turn.stage == "move" and len(turn.tokens) == len(turn.logprobs) > 0
            assert turn.legal == (turn.action is not None) and (turn.legal or turn.reason)


def test_a_seats_turn_rewards_sum_to_its_return(run: Run) -> None:
    for episode in _episodes(run):
        for seat, total in episode.returns.items():
            assert sum(t.reward for t in episode.turns if t.seat == seat) == pytest.approx(total)


def test_saved_adapters_load_in_peft(run: Run) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    policies = run.latest_checkpoint() / "policies"
    for name, rank in (("alice", 8), ("bob", 4)):
        base = AutoModelForCausalLM.from_pretrained(run.folder / "base")
        model = PeftModel.from_pretrained(base, policies / name)
        assert model.peft_config["default"].r == rank  # pyright: ignore[reportAttributeAccessIssue]
        moved = [p.abs().max().item() for n, p in model.named_parameters() if "lora_B" in n]
        assert max(moved) > 0  # B starts at zero: what was saved was trained


def _played(run: Run) -> list[tuple[Sequence[int], ...]]:
    return [tuple(turn.tokens for turn in episode.turns) for episode in _episodes(run)]


def test_same_seed_same_episodes_same_metrics_wherever_the_walk_runs(
    run: Run, tmp_path: Path, cluster: Cluster, exact: Callable[..., list[dict[str, Any]]]
) -> None:
    if 'engine = "vllm"' in (run.folder / "experiment.toml").read_text():
        pytest.skip("vLLM may flip a rare sample when its batches differ")
    again = _run(
        tmp_path, "torch", cluster, "resources.rollout=worker", f"model={run.folder / 'base'}"
    )
    assert _played(again) == _played(run)
    assert exact(again) == exact(run)


def test_a_users_own_env_from_outside_runs(tmp_path: Path, cluster: Cluster) -> None:
    path = ROOT / "experiments" / "custom_env" / "experiment.toml"
    small = ["train.updates=2", "train.episodes_per_update=16", "evaluate.episodes=8"]
    done = run_experiment(path, [*small, "engine=torch"], tmp_path, Silent())
    assert done.status()["state"] == "succeeded"
    assert {e.env for e in _episodes(done)} == {"hint_game"}


def test_an_env_that_always_fails_ends_the_job_and_says_why(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = """
from opentinker.envs.kuhn_poker_v0 import KuhnPoker
class Broken(KuhnPoker):
    def play(self, seat, action):
        if type(self).armed:
            raise ZeroDivisionError("the cards are gone")
        super().play(seat, action)
    armed = False
def env(armed=False):
    made = Broken()
    made.deal_count = 0
    Broken.armed = armed
    return made
"""
    (tmp_path / "broken_env.py").write_text(module)
    text = EXPERIMENT.format(engine="torch").replace(
        'id = "kuhn_poker_v0"', 'id = "broken_env:env"\noptions = { armed = true }'
    )
    text = text.replace("exploitability = true", "").replace(', "equilibrium"', "")
    (tmp_path / "experiment.toml").write_text(text)
    from opentinker.errors import EnvironmentFault

    with pytest.raises(EnvironmentFault, match="the cards are gone"):
        run_experiment(tmp_path / "experiment.toml", [], tmp_path / "runs", Silent())
    status = json.loads((tmp_path / "runs" / "kuhn" / "status.json").read_text())
    assert status["state"] == "failed" and "the cards are gone" in status["message"]
