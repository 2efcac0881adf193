"""`opentinker play --against RUN:POLICY`: what a run's policy learned is what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from rich.console import Console
from typer.testing import CliRunner

from opentinker import cli
from opentinker.commands.playing import play
from opentinker.learner.fitted import Fitted
from opentinker.learner.fitting import FitSettings
from opentinker.learner.supervised import supervise
from opentinker.learner.tiny_model import make_tiny
from opentinker.recorder import Run
from opentinker.rendering import Renderer
from opentinker.scheduler.checkpoints import MODEL
from opentinker.types import AdapterSpec

SHOWN = (
    "Kuhn poker. Cards J < Q < K. You are player_{seat}. Your card: {card}. "
    "Betting so far: {bets}. Answer {ways}."
)
ENV = {"id": "kuhn_poker_v0", "options": {"illegal": "penalty(5)"}}
PROTOCOL = {"id": "follow_env", "options": {"prompt": "Think. {observation}"}}
EXPERIMENT: dict[str, Any] = {
    "name": "kuhn",
    "env": ENV,
    "protocol": PROTOCOL,
    "policies": {"alice": {}, "bob": {"kind": "full"}},
    "cast": {"player_0": "alice", "player_1": "bob"},
    "sampling": {"max_tokens": 4, "temperature": 0.01},
}


def _texts() -> list[str]:
    """What player_1 is shown after a bet, in the run's protocol."""
    ways = "[fold] or [call]"
    shown = [SHOWN.format(seat=1, card=card, bets="player_0 bet", ways=ways) for card in "JQK"]
    return [f"Think. {text}" for text in shown]


def _taught(base: Path, folder: Path, answer: str, adapter: AdapterSpec | None) -> None:
    """Weights over `base` that say `answer`, whatever the card is."""
    renderer = Renderer.load(base)
    said = renderer.answer_ids(answer)
    examples = []
    for text in _texts():
        asked = renderer.opening(text)
        weights = np.array([0.0] * len(asked) + [1.0] * len(said), np.float32)
        examples.append((np.array([*asked, *said], np.int32), weights))
    fitted = Fitted(str(base), adapter=adapter)
    settings = FitSettings(steps=40, learning_rate=2e-2, validation=0.0)
    *_, last = supervise(fitted, examples, settings)
    assert last["loss"] < 0.4
    fitted.save(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose adapter alice was taught to call, its whole model bob to fold."""
    runs = tmp_path_factory.mktemp("runs")
    run = Run.create(runs, "kuhn", tomli_w.dumps(EXPERIMENT))
    base = make_tiny(run.folder / "base", [*_texts(), "[call]", "[fold]"])
    run.write_json(MODEL, {"folder": "base"})

    def write(folder: Path) -> None:
        _taught(base, folder / "policies" / "alice", "[call]", AdapterSpec(8, 16.0))
        _taught(base, folder / "policies" / "bob", "[fold]", None)

    run.checkpoint(3, write, keep_last=1)
    Run.create(runs, "young", tomli_w.dumps({**EXPERIMENT, "name": "young"}))
    fit = {"name": "taught", "job": "sft", "data": {"file": "a.jsonl"}}
    Run.create(runs, "taught", tomli_w.dumps(fit))
    return runs


def _play(runs: Path, *arguments: str, typed: str) -> str:
    command = ["play", *arguments, "--runs", str(runs)]
    done = CliRunner().invoke(cli.app, command, input=typed)
    assert done.exception is None and done.exit_code == 0, (done.output, done.exception)
    return done.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("against", "moved", "paid"),
    [
        # seed 0 deals player_0 the king, player_1 the jack: a called bet wins 2, a folded one 1
        ("kuhn:alice", "player_1 call", "player_0 +2, player_1 -2"),
        ("player_1=kuhn:bob", "player_1 fold", "player_0 +1, player_1 -1"),
    ],
)
def test_an_adapter_and_a_whole_model_answer_as_they_were_taught(
    against: str, moved: str, paid: str, runs: Path
) -> None:
    shown = _play(runs, "kuhn_poker_v0", "--against", against, typed="[bet]\n")
    assert f"player_1 is {against.removeprefix('player_1=')}" in shown and "step 3" in shown
    assert moved in shown and f"returns: {paid}" in shown
    assert "answered" not in shown  # it was legal


def test_the_runs_protocol_and_env_options_hold_and_what_is_given_goes_first(runs: Path) -> None:
    one = ["kuhn_poker_v0", "--against", "kuhn:alice"]
    shown = _play(runs, *one, typed="[bet]\n")
    assert "Think. Kuhn poker" in shown and "options illegal='penalty(5)'" in shown
    assert "was trained otherwise" not in shown
    shown = _play(
        runs, *one, "--protocol", "follow_env", "--options", "illegal=random", typed="[bet]\n"
    )
    assert "Think. Kuhn poker" not in shown and "options illegal='random'" in shown
    assert "kuhn:alice was trained otherwise: protocol follow_env prompt='Think." in shown


def test_the_turns_are_the_policys_own_and_others_sit_beside_it(runs: Path) -> None:
    """Three seats: the person, a policy of a run of another env, a script."""
    answers = iter(["[5]", "[5]"])
    console = Console(quiet=True)
    console.input = lambda *_, **__: next(answers)  # pyright: ignore[reportAttributeAccessIssue]
    episode = play(
        console,
        "public_goods_v0",
        "player_0",
        ["random", "player_1=kuhn:alice"],
        seed=0,
        protocol=None,
        options={"players": 3, "rounds": 2, "illegal": "random"},
        runs=runs,
    )
    assert episode.outcome == "finished" and episode.protocol == "follow_env"
    own = [turn for turn in episode.turns if turn.seat == "player_1"]
    assert [turn.policy for turn in own] == ["kuhn:alice"] * 2
    assert all(turn.tokens and len(turn.tokens) == len(turn.logprobs) for turn in own)
    assert {turn.policy for turn in episode.turns if turn.seat != "player_1"} == {None}
    assert sum(turn.reward for turn in own) == pytest.approx(episode.returns["player_1"])


def test_a_policy_trained_on_another_env_may_play_and_it_is_said(runs: Path) -> None:
    shown = _play(runs, "rps_v2", "--against", "kuhn:alice", typed="[rock]\n" * 200)
    assert "kuhn:alice was trained on kuhn_poker_v0, not on rps_v2" in shown
    assert "returns: " in shown


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("khun:alice", "unknown run 'khun'; did you mean 'kuhn'?"),
        ("player_1=khun:alice", "unknown run 'khun'; did you mean 'kuhn'?"),
        ("kuhn:alcie", "unknown policy 'alcie'; did you mean 'alice'? known: alice, bob"),
        ("kuhn:", "unknown policy ''"),
        ("young:alice", "has no whole checkpoint"),
        ("taught:alice", "is of the job 'sft', which has no policies"),
        ("opentinker.agents.random:mak", "did you mean 'make'?"),
    ],
)
def test_a_policy_that_is_not_there_is_one_line_and_2(
    against: str, said: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["play", "kuhn_poker_v0", "--against", against, "--runs", str(runs)]
    assert cli.main(command) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert said in line
