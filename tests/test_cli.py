"""The command line: what it shows, and how it says no."""

from __future__ import annotations

from pathlib import Path

import pytest

from opentinker import cli
from opentinker.recorder import Run
from opentinker.types import Episode, EpisodeRequest, Turn


def _episode(id: str, seat: str = "player_0") -> Episode:
    turn = Turn(0, "move", seat, "random", "See this.\nAnd that.", "[bet]", action="bet")
    request = EpisodeRequest(id, id, 0, {seat: "random"})
    return Episode(request, "kuhn_poker_v0", "follow_env", (turn,), {seat: 1.5}, "finished")


def _run(folder: Path) -> Run:
    run = Run.create(folder, "kuhn_poker", "")
    run.write_episodes(1, [_episode("0000001")])
    run.write_episodes(2, [_episode(f"000000{i}") for i in range(2, 7)])
    return run


def _says_no(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    [line] = shown.err.strip().splitlines()
    assert not shown.out and line.startswith("error: ")
    return line


def test_transcripts_show_the_last_step_and_as_many_as_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path)
    where = ["transcripts", "kuhn_poker", "--runs", str(tmp_path)]
    assert cli.main(where) == 0
    assert capsys.readouterr().out.count("step 2, episode") == 3
    assert cli.main([*where, "--count", "5"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("step 2, episode") == 5 and "And that." in shown
    assert cli.main([*where, "--step", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("episode 0000001") == 1 and "returns: player_0 +1.5" in shown


def test_a_run_is_named_or_its_folder_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(tmp_path)
    assert cli.main(["transcripts", str(run.folder)]) == 0
    assert "episode 0000002" in capsys.readouterr().out


def test_an_unknown_run_is_told_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path)
    line = _says_no(capsys, "transcripts", "kuhn_pokr", "--runs", str(tmp_path))
    assert "unknown run 'kuhn_pokr'; did you mean 'kuhn_poker'?" in line


def test_what_is_not_recorded_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path)
    Run.create(tmp_path, "empty", "")
    line = _says_no(capsys, "transcripts", "empty", "--runs", str(tmp_path))
    assert "'empty' has no recorded episodes" in line
    line = _says_no(capsys, "transcripts", "kuhn_poker", "--step", "9", "--runs", str(tmp_path))
    assert "no episodes of step 9; there are steps 1 to 2" in line


def test_words_in_brackets_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rich would read `[red]` as a colour."""
    turn = Turn(0, "move", "player_0", "random", "Say [red] or [/].", "[bold]")
    request = EpisodeRequest("7", "7", 0, {"player_0": "random"})
    episode = Episode(request, "e", "p", (turn,), {"player_0": 0.0}, "failed", "raised [/red]")
    Run.create(tmp_path, "r", "").write_episodes(1, [episode])
    assert cli.main(["transcripts", "r", "--runs", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("Say [red] or [/].", "says: [bold]", "raised [/red]"))


def test_a_protocol_is_drawn_as_mermaid(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["protocol", "follow_env", "--draw"]) == 0
    drawn = capsys.readouterr().out
    assert "flowchart" in drawn and "move" in drawn and "-->" in drawn
    assert cli.main(["protocol", "follow_env"]) == 0
    assert capsys.readouterr().out == "move: @current move\n"


def test_a_protocol_that_does_not_fit_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    line = _says_no(capsys, "protocol", "simultaneous", "--env", "tictactoe_v3")
    assert "follow_env" in line
    line = _says_no(capsys, "protocol", "follow_env", "--env", "kuhn_pokr_v0")
    assert "did you mean 'kuhn_poker_v0'?" in line


def test_a_file_is_no_folder_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs"
    path.write_text("")
    line = _says_no(capsys, "run", "experiment.toml", "--runs", str(path))
    assert "is a file; name a folder" in line


def test_a_wrong_override_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('name = "a"\n')
    line = _says_no(capsys, "run", str(path), "--set", "updates")
    assert "--set 'updates' is not of the form" in line
    line = _says_no(capsys, "run", str(path), "--set", "name.first=1")
    assert "'name' is a value, not a section" in line


@pytest.mark.parametrize("arguments", [["walk"], ["run"], ["transcripts", "r", "--count", "0"]])
def test_a_wrong_call_is_2_and_shows_no_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr().err
    assert "Error" in shown and "Traceback" not in shown
