"""A run on disk: nothing half-written is ever taken for whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opentinker import cli
from opentinker.errors import CheckpointError, ConfigError, UnknownNameError
from opentinker.recorder import Run
from opentinker.types import Episode, EpisodeRequest, Message, Turn

TURN = Turn(
    0,
    "move",
    "player_0",
    "alice",
    "Your card: K.",
    "[bet]",
    "alice",
    3,
    (1, 2, 3),
    (4, 5),
    (-0.25, -0.5),
    action="bet",
    reward=1.0,
)
EPISODE = Episode(
    EpisodeRequest("0000007", "0000007", 11, {"player_0": "alice"}, {"deal": ["K", "J"]}),
    "kuhn_poker_v0",
    "follow_env",
    (TURN,),
    {"player_0": 1.0},
    "finished",
    messages=(Message("player_0", "hello", frozenset({"player_1"}), "talk"),),
)


def _save(text: str):
    def write(folder: Path) -> None:
        (folder / "weights").write_text(text)

    return write


def test_episodes_read_back_as_they_were(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    run.write_episodes(4, [EPISODE])
    assert list(run.episodes()) == [(4, EPISODE)]


def test_a_taken_name_is_counted_up_and_nothing_is_overwritten(tmp_path: Path) -> None:
    names = [Run.create(tmp_path, "r", f"seed = {i}").folder.name for i in range(3)]
    assert names == ["r", "r-2", "r-3"]
    assert (tmp_path / "r" / "experiment.toml").read_text() == "seed = 0"


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    for step in (1, 2, 10):
        run.checkpoint(step, _save(str(step)), keep_last=2)
    assert [p.name for p in run.checkpoints()] == ["step-00002", "step-00010"]
    assert (run.latest_checkpoint() / "weights").read_text() == "10"


def test_a_torn_checkpoint_is_never_the_latest(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    run.checkpoint(1, _save("one"), keep_last=5)

    def dies(folder: Path) -> None:
        (folder / "weights").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run.checkpoint(2, dies, keep_last=5)
    assert run.latest_checkpoint().name == "step-00001"
    run.checkpoint(3, _save("three"), keep_last=5)
    (run.folder / "checkpoints" / "step-00003" / "weights").write_text("thr")  # a bad disk
    assert run.latest_checkpoint().name == "step-00001"


def test_a_manifest_that_was_torn_is_passed_over(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    for step in (1, 2):
        run.checkpoint(step, _save(str(step)), keep_last=5)
    (run.folder / "checkpoints" / "step-00002" / "manifest.json").write_text('{"step": 2, "fi')
    assert run.latest_checkpoint().name == "step-00001"


def test_a_lost_file_makes_a_checkpoint_no_whole_one(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    for step in (1, 2):
        run.checkpoint(step, _save(str(step)), keep_last=5)
    (run.folder / "checkpoints" / "step-00002" / "weights").unlink()
    assert run.latest_checkpoint().name == "step-00001"


def test_a_checkpoint_written_again_replaces_the_old_one_only_when_it_is_whole(
    tmp_path: Path,
) -> None:
    run = Run.create(tmp_path, "r", "")
    run.checkpoint(1, _save("first"), keep_last=2)

    def dies(folder: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.checkpoint(1, dies, keep_last=2)
    assert (run.latest_checkpoint() / "weights").read_text() == "first"
    run.checkpoint(1, _save("second"), keep_last=2)
    assert (run.latest_checkpoint() / "weights").read_text() == "second"
    assert [p.name for p in (run.folder / "checkpoints").iterdir()] == ["step-00001"]


def test_steps_are_counted_not_spelt(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    for step in (99_999, 100_000):
        run.checkpoint(step, _save(str(step)), keep_last=5)
        run.write_episodes(step, [EPISODE])
    assert run.latest_checkpoint().name == "step-100000"
    assert [step for step, _ in run.episodes()] == [99_999, 100_000]


def test_a_line_in_writing_is_not_read(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    assert run.lines("metrics.jsonl") == []
    run.append("metrics.jsonl", {"step": 1})
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "los')
    assert run.lines("metrics.jsonl") == [{"step": 1}]


def test_without_a_checkpoint_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no whole checkpoint"):
        Run.create(tmp_path, "r", "").latest_checkpoint()


def test_an_unknown_run_names_the_nearest(tmp_path: Path) -> None:
    Run.create(tmp_path, "kuhn_poker", "")
    with pytest.raises(UnknownNameError, match="did you mean 'kuhn_poker'"):
        Run.open(tmp_path, "kuhn_pokr")


def test_transcripts_show_what_was_seen_said_and_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Run.create(tmp_path, "r", "").write_episodes(4, [EPISODE])
    assert cli.main(["transcripts", "r", "--runs", str(tmp_path), "--episode", "7"]) == 0
    shown = capsys.readouterr().out
    for part in ("alice version 3", "sees: Your card: K.", "says: [bet]", "-> bet, reward +1"):
        assert part in shown
    assert cli.main(["transcripts", "r", "--runs", str(tmp_path), "--episode", "8"]) == 2
    assert "no episode '8'" in capsys.readouterr().err


def test_a_protocol_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["protocol", "follow_env", "--draw"]) == 0
    assert "move" in capsys.readouterr().out
    picture = tmp_path / "p.png"
    assert cli.main(["protocol", "follow_env", "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert cli.main(["protocol", "folow_env", "--draw"]) == 2
    assert "did you mean 'follow_env'?" in capsys.readouterr().err


def test_status_says_state_and_step(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    run.set_status("failed", 7, "out of cards")
    record = json.loads((run.folder / "status.json").read_text())
    assert (record["state"], record["step"], record["message"]) == ("failed", 7, "out of cards")


def test_the_best_checkpoints_are_kept_beside_the_newest(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    scores = [0.1, 0.9, None, 0.5, 0.9, 0.2, 0.3]
    for step, score in enumerate(scores, start=1):
        run.checkpoint(step, _save(str(step)), keep_last=2, keep_best=2, score=score)
    assert [path.name for path in run.checkpoints()] == [f"step-0000{n}" for n in (2, 5, 6, 7)]
    assert run.best_checkpoint().name == "step-00005"  # of two equal ones the newest


def test_no_score_is_no_best(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    run.checkpoint(1, _save("a"), keep_last=2)
    with pytest.raises(CheckpointError, match="has a score"):
        run.best_checkpoint()


def test_a_rewound_run_has_nothing_of_later_steps(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    for step in range(1, 5):
        run.append("metrics.jsonl", {"step": step, "loss": 0.1 + step / 3})
        run.write_episodes(step, [EPISODE])
        if step < 4:
            run.checkpoint(step, _save(str(step)), keep_last=9)
    before = run.lines("metrics.jsonl")
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')  # killed while it wrote
    (run.folder / "checkpoints" / "step-00004.part").mkdir()
    (run.folder / "checkpoints" / "learner.part").mkdir()
    run.rewind(2)
    assert run.lines("metrics.jsonl") == before[:2]
    assert [step for step, _ in run.episodes()] == [1, 2]
    names = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
    assert names == ["step-00001", "step-00002"]


def test_a_run_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    run.claim()
    with pytest.raises(ConfigError, match="in another process"):
        Run.open(tmp_path, "r").claim()
    run.release()
    again = Run.open(tmp_path, "r")
    again.claim()
    again.release()
