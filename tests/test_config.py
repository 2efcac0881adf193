"""What is wrong with an experiment is said in one line, before anything is started."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opentinker import cli
from opentinker.config import dump_experiment, load_experiment, parse_experiment
from opentinker.errors import ConfigError
from opentinker.scheduler.check import check

ROOT = Path(__file__).parents[1]
SHIPPED = sorted((ROOT / "experiments").glob("*/*.toml"))

GOOD: dict[str, Any] = {
    "name": "kuhn",
    "env": {"id": "kuhn_poker_v0"},
    "policies": {"alice": {"rank": 4}, "bob": {"learning_rate": [1e-3, 1e-4]}},
    "cast": {"player_0": "alice", "player_1": "bob"},
}


def _with(path: str, value: Any) -> dict[str, Any]:
    """GOOD with one key set, or taken out where the value is None."""
    table = copy.deepcopy(GOOD)
    *parents, leaf = path.split(".")
    node = table
    for parent in parents:
        node = node.setdefault(parent, {})
    if value is None:
        del node[leaf]
    else:
        node[leaf] = value
    return table


WRONG = [
    ("trian", {}, ["unknown key 'trian'", "did you mean 'train'?"]),
    ("policies.alice.rnak", 3, ["'policies.alice.rnak'", "did you mean 'rank'?"]),
    ("policies.alice.rank", 0, ["policies.alice.rank = 0", "greater than or equal to 1"]),
    ("policies.alice.rank", "big", ["policies.alice.rank = 'big'", "integer"]),
    ("policies.alice.learning_rate", -1.0, ["policies.alice.learning_rate", "greater than 0"]),
    ("policies.base", {}, ["policies.base", "name is taken"]),
    ("engine", "vlm", ["engine = 'vlm'", "'auto', 'vllm' or 'torch'"]),
    ("job", "slf", ["unknown job 'slf'", "did you mean 'sft'?"]),
    ("job", ["rl"], ["unknown job ['rl']", "known: rl, sft, dpo"]),
    ("policies.alice.rank", True, ["policies.alice.rank = True", "integer"]),
    ("policies.alice.kind", "full", ["unknown key 'policies.alice.rank'", "known: learning_rate"]),
    ("policies.alice.kind", "fulll", ["policies.alice.kind = 'fulll'", "did you mean 'full'"]),
    ("policies.bob.alpha", 4.0, ["alpha = 4.0 without rank"]),
    ("policies.bob.kind", "frozen", ["unknown key 'policies.bob.learning_rate'"]),
    ("policies.bob.reference", "carol", ["reference of policy 'bob'", "'carol'", "base, copy"]),
    ("policies.alice.start", "no/where", ["policies.alice.start", "RUN:POLICY"]),
    ("policies.alice.start", "gone:bob", ["unknown run 'gone'"]),
    ("policies.carol", {"rank": 2}, ["policy 'carol' has no seat"]),
    ("train.loss", "ppo", ["unknown train.loss 'ppo'", "ppo_clip"]),
    ("train.credit", "gea", ["unknown train.credit 'gea'", "did you mean 'gae'"]),
    ("train.credit_options", {"gama": 1.0}, ["no option 'gama'"]),
    ("train.teams", [["player_0", "player_9"]], ["player_9", "did you mean 'player_"]),
    ("train.team", 1.5, ["train.team = 1.5", "less than or equal to 1"]),
    ("train.max_staleness", -1, ["train.max_staleness = -1"]),
    ("train.update", "alternate", ["train.update = 'alternate'", "'alternating'"]),
    ("checkpoint.keep_best", 1, ["checkpoint.keep_best = 1 needs checkpoint.metric"]),
    ("policies.alice.entropy", [0.1], ["policies.alice.entropy = [0.1]", "number"]),
    ("policies", {}, ["policies = {}"]),
    ("policies.a b", {}, ["policies.a b", "pattern"]),
    ("train.updates", 0, ["train.updates = 0", "greater than or equal to 1"]),
    ("train.updtes", 3, ["'train.updtes'", "did you mean 'updates'?"]),
    ("tiny.hidden", 33, ["tiny.hidden = 33", "multiple of 32"]),
    ("fit", {}, ["unknown key 'fit'", "known: name"]),
    ("cast.player_0", 3, ["cast.player_0 = 3: input should be a valid string, or"]),
    ("cast.player_0", {"lines": ["x"]}, ["cast.player_0 = {", "a table with the key 'kind'"]),
    ("cast", None, ["'cast' is missing"]),
    ("env.id", "kuhn_pocker_v0", ["unknown env 'kuhn_pocker_v0'", "did you mean 'kuhn_poker_v0'?"]),
    ("env.id", "no_such_module:env", ["no module 'no_such_module'"]),
    ("env.options", {"cards": 5}, ["kuhn_poker_v0", "cards", "options are"]),
    ("protocol", {"id": "folow_env"}, ["unknown protocol 'folow_env'", "'follow_env'"]),
    ("protocol", {"id": "single"}, ["'single' is for one seat", "player_0, player_1"]),
    ("protocol", {"id": "simultaneous"}, ["follow_env"]),
    ("cast.player_1", None, ["seat 'player_1' of env 'kuhn_poker_v0' has no agent"]),
    ("cast.player_2", "random", ["unknown seat in [cast] 'player_2'", "player_0, player_1"]),
    ("cast.player_1", "bbo", ["agent of seat 'player_1' 'bbo'", "did you mean 'bob'?"]),
    ("cast.player_1", "alice", ["policy 'bob' has no seat"]),
    ("train", {"credit": "rol_baseline"}, ["'rol_baseline'", "'role_baseline'"]),
    ("evaluate", {"against": ["rando"]}, ["'rando'", "did you mean 'random'?"]),
    ("model", "no/such/model", ["no model 'no/such/model'", "config.json"]),
    ("after", "teach.toml", ["no experiment file", "teach.toml"]),
    ("modules", ["nothing_here"], ["importing 'nothing_here' failed"]),
]


@pytest.mark.parametrize(("key", "value", "said"), WRONG, ids=[f"{k}={v}" for k, v, _ in WRONG])
def test_a_wrong_experiment_stops_with_one_line_and_code_2(
    key: str,
    value: Any,
    said: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(tomli_w.dumps(_with(key, value)))
    assert cli.main(["run", str(path), "--runs", str(tmp_path / "runs")]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"error: {path}") and all(each in line for each in said), line
    assert not (tmp_path / "runs").exists()


def test_a_game_without_a_tree_has_no_exact_exploitability(tmp_path: Path) -> None:
    table = _with("env.id", "tictactoe_v3")
    table["cast"] = {"player_1": "alice", "player_2": "bob"}
    table["evaluate"] = {"exploitability": True}
    with pytest.raises(ConfigError, match="has no game_tree"):
        check(tmp_path / "experiment.toml", parse_experiment(table))


def test_an_agent_without_its_options_is_refused(tmp_path: Path) -> None:
    table = _with("policies.bob", None)
    table["cast"]["player_1"] = {"kind": "scripted"}
    with pytest.raises(ConfigError, match=r"'scripted@player_1' of kind 'scripted'.*'lines'"):
        check(tmp_path / "experiment.toml", parse_experiment(table))


def test_an_experiment_that_comes_after_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, after in (("one.toml", "two.toml"), ("two.toml", "one.toml")):
        (tmp_path / name).write_text(tomli_w.dumps(_with("after", after)))
    assert cli.main(["run", str(tmp_path / "one.toml")]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "two.toml: after: 'one.toml' comes after this experiment itself" in line


def test_an_override_goes_as_deep_as_it_is_written_and_is_checked_as_the_file_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(tomli_w.dumps(GOOD))
    experiment = load_experiment(
        path, ["env.options.illegal=retry(2), forfeit", 'cast.player_1={kind="random"}', "seed = 5"]
    )
    assert experiment.job == "rl" and experiment.env.options == {"illegal": "retry(2), forfeit"}
    assert experiment.seed == 5 and not isinstance(experiment.cast["player_1"], str)
    with pytest.raises(ConfigError, match=r"train.updates = '20 x': .*integer"):
        load_experiment(path, ["train.updates=20 x"])
    with pytest.raises(ConfigError, match=r"unknown key 'trian'; did you mean 'train'"):
        load_experiment(path, ["trian.updates=20"])
    with pytest.raises(ConfigError, match="'seed' is a value, not a section"):
        load_experiment(path, ["seed=1", "seed.sub=2"])


def test_a_missing_file_names_those_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "experiment.toml").write_text("")
    assert cli.main(["run", str(tmp_path / "experimant.toml")]) == 2
    said = capsys.readouterr().err
    assert "no experiment file" in said and "experiment.toml" in said


def test_what_is_not_toml_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text("name = \n")
    with pytest.raises(ConfigError, match=r"not TOML.*line 1"):
        load_experiment(tmp_path / "experiment.toml")


def test_a_model_beside_after_is_refused_in_the_file_and_by_set(tmp_path: Path) -> None:
    """One line of a shipped experiment swaps the model; both lines would leave it open which."""
    shipped = (ROOT / "experiments" / "debate" / "experiment.toml").read_text()
    path = tmp_path / "experiment.toml"
    said = r"experiment\.toml: model = 'big' and after = 'teach\.toml'.*remove `after`.*or else"
    path.write_text('model = "big"\n' + shipped)
    with pytest.raises(ConfigError, match=said):
        load_experiment(path)
    path.write_text(shipped)
    with pytest.raises(ConfigError, match=said):
        load_experiment(path, ["model=big"])
    path.write_text(shipped.replace('after = "teach.toml"', 'model = "big"'))
    swapped = load_experiment(path)
    assert swapped.model == "big" and swapped.after is None


def test_the_resolved_experiment_of_a_later_job_reads_back_without_a_model() -> None:
    experiment = parse_experiment({**GOOD, "after": "teach.toml"})
    text = dump_experiment(experiment)
    assert "model" not in tomllib.loads(text)
    assert parse_experiment(tomllib.loads(text)) == experiment


def test_overrides_are_toml_or_bare_words(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(tomli_w.dumps(GOOD))
    settings = ["train.updates=20", "engine=torch", "policies.bob.entropy=[0.1, 0.0]"]
    experiment = load_experiment(path, settings)
    assert experiment.job == "rl"
    assert experiment.train.updates == 20 and experiment.engine == "torch"
    bob = experiment.policies["bob"]
    assert bob.kind == "lora" and bob.entropy == (0.1, 0.0)
    with pytest.raises(ConfigError, match="not of the form"):
        load_experiment(path, ["train.updates"])


def test_the_resolved_experiment_reads_back_the_same() -> None:
    experiment = parse_experiment(GOOD)
    text = dump_experiment(experiment)
    assert "episodes_per_update = 256" in text  # defaults are in
    assert parse_experiment(tomllib.loads(text)) == experiment


@pytest.mark.parametrize("path", SHIPPED, ids=[f"{p.parent.name}/{p.name}" for p in SHIPPED])
def test_every_shipped_experiment_fits_its_env(path: Path) -> None:
    checked = check(path, load_experiment(path))
    assert set(checked.cast) == set(checked.seats)
