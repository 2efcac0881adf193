"""What is checked before Ray or an engine starts, beyond what `tests/test_config.py` shows."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opentinker import cli
from opentinker.config import parse_experiment
from opentinker.errors import ConfigError
from opentinker.experiment import RLExperiment
from opentinker.scheduler.check import Checked, check
from opentinker.scheduler.sources import policy_settings
from opentinker.types import SamplingParams

KUHN: dict[str, Any] = {
    "name": "kuhn",
    "env": {"id": "kuhn_poker_v0"},
    "policies": {"alice": {}, "bob": {}},
    "cast": {"player_0": "alice", "player_1": "bob"},
}


def _check(folder: Path, **changes: Any) -> Checked:
    return check(folder / "experiment.toml", parse_experiment({**KUHN, **changes}))


def test_a_checked_experiment_tells_who_plays_and_how(tmp_path: Path) -> None:
    checked = _check(
        tmp_path,
        policies={"alice": {}},
        cast={"player_0": "alice", "player_1": {"kind": "scripted", "lines": ["[bet]"]}},
        agents={"bold": {"kind": "scripted", "lines": ["[call]"]}},
        sampling={"max_tokens": 5, "temperature": 0.5},
        evaluate={"against": ["bold", "random", "equilibrium"]},
        limits={"turns": 9},
        seed=4,
    )
    assert checked.seats == ("player_0", "player_1")
    assert checked.cast == {"player_0": "alice", "player_1": "scripted@player_1"}
    assert checked.policy_seats("alice") == ["player_0"] and checked.after is None
    plan = checked.plan
    assert plan.policies == {"alice": SamplingParams(5, 0.5)}
    assert set(plan.agents) == {"scripted@player_1", "bold", "random", "equilibrium"}
    assert plan.agents["bold"].options == {"lines": ["[call]"]}
    assert (plan.seed, plan.limits.turns, plan.protocol) == (4, 9, "follow_env")
    assert pickle.loads(pickle.dumps(plan)) == plan  # it goes to a worker


def test_one_policy_may_sit_in_several_seats(tmp_path: Path) -> None:
    checked = _check(
        tmp_path, policies={"alice": {}}, cast={"player_0": "alice", "player_1": "alice"}
    )
    assert checked.policy_seats("alice") == ["player_0", "player_1"]


def test_the_tree_is_there_where_the_env_has_one(tmp_path: Path) -> None:
    assert _check(tmp_path).tree is not None
    seats = {"player_1": "alice", "player_2": "bob"}
    assert _check(tmp_path, env={"id": "tictactoe_v3"}, cast=seats).tree is None


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    (
        {
            "env": {"id": "tictactoe_v3"},
            "cast": {"player_1": "alice", "player_2": "bob"},
            "protocol": {"id": "simultaneous"},
        },
        ["asks @all to move at once, but the env is turn-based", "use follow_env"],
    ),
    (
        {"env": {"id": "tictactoe_v3"}},
        ["unknown seat in [cast] 'player_0'", "known: player_1, player_2"],
    ),
    ({"protocol": {"id": "follow_env", "options": {"rounds": 3}}}, ["follow_env", "'rounds'"]),
    ({"env": {"id": "kuhn_poker_v0", "options": {"illegal": "resign"}}}, ["'resign'", "forfeit"]),
    ({"evaluate": {"against": ["alice"]}}, ["agent in evaluate.against 'alice'"]),
    (
        {
            "env": {"id": "connect_four_v3"},
            "evaluate": {"against": ["equilibrium"]},
        },
        ["no equilibrium()"],
    ),
    ({"agents": {"x": {"kind": "scripted"}}, "evaluate": {"against": ["x"]}}, ["'x'", "'lines'"]),
    (
        {"agents": {"x": {"kind": "scripted", "lines": []}}, "evaluate": {"against": ["x"]}},
        ["scripted agent needs `lines`"],
    ),
    (
        {"agents": {"x": {"kind": "scriptd"}}, "evaluate": {"against": ["x"]}},
        ["unknown agent 'scriptd'", "did you mean 'scripted'?"],
    ),
    ({"cast": {"player_0": "alice", "player_1": "policy"}}, ["agent of seat 'player_1' 'policy'"]),
    ({"train": {"credit": "group_relativ"}}, ["'group_relativ'", "did you mean 'group_relative'?"]),
    (
        {"train": {"credit_options": {"decay_": 1}}},
        ["train.credit_options: credit 'role_baseline' has no option 'decay_'; it has decay"],
    ),
    (
        {"train": {"credit_options": {"decay": 1.5}}},
        ["train.credit_options: ", "decay is 1.5; allowed: 0 <= decay < 1"],
    ),
    (
        {"train": {"loss": "ppo_clip", "loss_options": {"epsilon": 0.2}}},
        ["train.loss_options: loss 'ppo_clip' has no option 'epsilon'; it has epsilon_low"],
    ),
    (
        {"train": {"loss": "gspo", "loss_options": {"epsilon_low": 1.5}}},
        ["train.loss_options: loss 'gspo': epsilon_low is 1.5", "above 0, at most 1"],
    ),
    (
        {"train": {"loss": "cross_entropy", "max_staleness": 1}},
        ["loss 'cross_entropy' has no option 'importance_cap'; it has none"],
    ),
    (
        {"train": {"importance_cap": 2.0, "loss_options": {"importance_cap": 3.0}}},
        ["train.importance_cap = 2.0", "loss_options"],
    ),
    ({"env": {"id": "opentinker.envs.kuhn_poker_v0:enw"}}, ["enw", "did you mean 'env'?"]),
    ({"model": "nobody/nothing"}, ["no model 'nobody/nothing'", "'tiny'"]),
    ({"after": "nothing.toml"}, ["after: no experiment file", "nothing.toml"]),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said[0] for _, said in WRONG])
def test_what_does_not_fit_is_one_line_and_code_2(
    changes: dict[str, Any], said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(tomli_w.dumps({**KUHN, **changes}))
    assert cli.main(["run", str(path), "--runs", str(tmp_path / "runs")]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"error: {path}") and all(each in line for each in said), line
    assert not (tmp_path / "runs").exists()


def test_a_fault_in_what_comes_before_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "teach.toml").write_text(tomli_w.dumps({**KUHN, "cast": {"player_0": "alice"}}))
    with pytest.raises(ConfigError, match=r"^\S+/teach\.toml: seat 'player_1'"):
        _check(tmp_path, after="teach.toml")


def test_modules_beside_the_file_are_found_and_their_names_known(tmp_path: Path) -> None:
    (tmp_path / "names_of_a_test.py").write_text(
        "import opentinker\n"
        "from opentinker.envs.kuhn_poker_v0 import env\n"
        "opentinker.register_env('my_kuhn-v0', env)\n"
    )
    checked = _check(tmp_path, modules=["names_of_a_test"], env={"id": "my_kuhn-v0"})
    assert checked.plan.modules == ("names_of_a_test",) and checked.plan.env == "my_kuhn-v0"


def test_a_cap_among_the_losss_options_takes_the_place_of_the_one_of_stale_tokens(
    tmp_path: Path,
) -> None:
    train = {"max_staleness": 1, "loss_options": {"importance_cap": 5.0}}
    experiment = _check(tmp_path, train=train).experiment
    assert isinstance(experiment, RLExperiment)
    assert policy_settings(experiment, "alice", critic=False).importance_cap is None


def test_a_check_that_fails_has_started_no_ray_and_loaded_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(tomli_w.dumps({**KUHN, "model": "nobody/nothing"}))  # the last thing checked
    code = (
        "import sys\nfrom opentinker import cli\nfrom opentinker.learner import losses\n"
        "assert all(map(losses.make, losses.names()))\n"
        f"assert cli.main(['run', {str(path)!r}]) == 2\n"
        "assert not {'torch', 'vllm'} & set(sys.modules)\n"
        "import ray\nassert not ray.is_initialized()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
