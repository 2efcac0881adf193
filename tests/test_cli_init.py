"""`opentinker init`: what it lays is sound, its experiment fits, its commands are right."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from pathlib import Path

import pytest

from opentinker import cli
from opentinker.agents.random import RandomAgent
from opentinker.config import load_experiment
from opentinker.errors import ConfigError
from opentinker.recorder import Run
from opentinker.registry import agent_factory, make_env, make_protocol
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import walk
from opentinker.rollout.worker import NoSampler
from opentinker.scheduler.check import check
from opentinker.types import EpisodeRequest

PARTS = ("envs/last_stone.py", "agents/leave_three.py", "protocols/greet_first.py")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "mine"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def test_everything_that_is_laid_is_sound(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    laid = {str(p.relative_to(project)) for p in project.rglob("*") if p.is_file()}
    assert laid == {*PARTS, "experiments/first.toml", "README.md"}
    for part in PARTS:
        assert cli.main(["check", part]) == 0, capsys.readouterr().out
    for part in PARTS[1:]:
        assert cli.main(["check", part, "--env", PARTS[0]]) == 0, capsys.readouterr().out


def test_its_experiment_fits_its_parts(project: Path) -> None:
    path = project / "experiments" / "first.toml"
    checked = check(path, load_experiment(path))
    assert checked.seats == ("player_0", "player_1")
    assert checked.cast == {"player_0": "learner", "player_1": "leave_three:make@player_1"}


def test_its_script_wins_wherever_the_game_can_be_won(project: Path) -> None:
    """Who moves first wins unless the heap is a multiple of 3; the script knows both."""
    sys.path[:0] = [str(project / "envs"), str(project / "agents"), str(project / "protocols")]
    heaps = set()
    for seed in range(40):
        env = make_env("last_stone:env")
        seats = tuple(env.possible_agents)
        agents = {
            "player_0": agent_factory("leave_three:make")(seat="player_0", seed=0),
            "player_1": RandomAgent(seed),
        }
        request = EpisodeRequest("0", "0", seed, dict.fromkeys(seats, ""))
        protocol = make_protocol("greet_first:build", seats)
        episode = asyncio.run(walk(Table(env), protocol, agents, request, NoSampler()))
        assert episode.outcome == "finished" and sum(episode.returns.values()) == 0
        [seen] = re.findall(r"(\d+) stones", episode.turns[2].observation)
        heaps.add(int(seen))
        if int(seen) % 3:
            assert episode.returns["player_0"] == 1.0
    assert heaps == {4, 5, 6, 7, 8, 9}


def test_the_commands_of_its_readme_are_commands(project: Path) -> None:
    lines = [
        line for line in (project / "README.md").read_text().splitlines() if line[:4] == "    "
    ]
    names = {each.callback.__name__ for each in cli.app.registered_commands if each.callback}
    for line in lines:
        program, command, *rest = shlex.split(line)
        assert program == "opentinker" and command in names
        assert all((project / each).is_file() for each in rest if "/" in each)
    assert len(lines) == 6


def test_a_folder_that_is_not_empty_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("mine")
    assert cli.main(["init", str(tmp_path)]) == 2
    assert "is a folder with files in it" in capsys.readouterr().err
    assert cli.main(["init", str(tmp_path / "note.txt")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]
    (tmp_path / "empty").mkdir()
    assert cli.main(["init", str(tmp_path / "empty")]) == 0
    assert (tmp_path / "empty" / "README.md").is_file()


def test_a_path_that_is_no_folder_is_told(project: Path) -> None:
    path = project / "experiments" / "first.toml"
    with pytest.raises(ConfigError, match=r"paths: '\.\./nowhere' is no folder"):
        check(path, load_experiment(path, ['paths=["../nowhere"]']))


@pytest.mark.slow
@pytest.mark.ray
def test_its_experiment_runs_an_update(project: Path, cluster: object) -> None:
    small = ["train.updates=1", "train.episodes_per_update=8", "evaluate.every=1"]
    sets = [
        word for key in (*small, "engine=torch", "evaluate.episodes=8") for word in ("--set", key)
    ]
    assert cli.main(["run", "experiments/first.toml", *sets]) == 0
    run = Run(project / "runs" / "first")
    assert run.status()["state"] == "succeeded"
    assert [row["step"] for row in run.lines("metrics.jsonl")] == [0, 1]
