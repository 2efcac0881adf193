"""`opentinker play`: a person's answers, told when they are not legal, up to the returns."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from opentinker import cli

AGENT = """
from opentinker.agent import Answer

class Rock:
    async def answer(self, view, sampler):
        return Answer("[rock]")

def make(*, seat, seed):
    return Rock()
"""


def _play(*arguments: str, typed: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["play", *arguments], input=typed)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_a_game_is_played_to_its_returns() -> None:
    """A fold after a check and a bet costs the ante of one chip, whatever the cards are."""
    bets = "player_1={kind = 'scripted', lines = ['[bet]']}"
    code, shown = _play("kuhn_poker_v0", "--against", bets, typed="[check]\n[fold]\n")
    assert code == 0 and "You are player_0" in shown
    assert "legal: [check] [bet]" in shown and "legal: [fold] [call]" in shown
    assert "finished; returns: player_0 -1, player_1 +1" in shown


def test_an_illegal_answer_is_told_and_costs_nothing() -> None:
    folds = "{kind = 'scripted', lines = ['[fold]']}"
    typed = "raise\n[call]\n\nBET\n"
    code, shown = _play("kuhn_poker_v0", "--against", folds, typed=typed)
    assert code == 0
    assert "no tag; say one of [check] [bet]." in shown
    assert "not legal now: [call]" in shown and "empty answer" in shown
    assert "finished; returns: player_0 +1, player_1 -1" in shown


def test_the_other_seat_can_be_taken_and_the_others_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "always_rock.py"
    path.write_text(AGENT)
    arguments = ["rps_v2", "--as", "player_1", "--against", f"player_0={path}"]
    code, shown = _play(*arguments, typed="[paper]\n" * 200)
    assert code == 0 and "You are player_1" in shown
    assert "finished; returns: player_0 -1, player_1 +1" in shown


def test_the_equilibrium_and_chance_play_too_and_a_seed_repeats_the_game() -> None:
    for agent in ("equilibrium", "random"):
        arguments = ["kuhn_poker_v0", "--as", "player_1", "--against", agent, "--seed", "3"]
        first = _play(*arguments, typed="[call]\n[check]\n[bet]\n" * 3)
        assert first == _play(*arguments, typed="[call]\n[check]\n[bet]\n" * 3)
        assert first[0] == 0 and "returns: " in first[1]


def test_the_end_of_the_input_ends_the_game() -> None:
    code, shown = _play("kuhn_poker_v0", typed="")
    assert code == 1 and "you left; the game is not finished" in shown and "returns" not in shown
    code, shown = _play("rps_v2", typed="")
    assert code == 1 and "you left; the game is not finished" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["kuhn_pokr_v0"], "did you mean 'kuhn_poker_v0'?"),
        (["kuhn_poker_v0", "--as", "player_2"], "did you mean 'player_"),
        (["kuhn_poker_v0", "--against", "player_2=random"], "unknown seat in --against"),
        (["kuhn_poker_v0", "--against", "player_0=random"], "unknown seat in --against"),
        (["kuhn_poker_v0", "--against", "randm"], "did you mean 'random'?"),
        (["kuhn_poker_v0", "--against", "scripted"], "missing a required argument: 'lines'"),
        (["kuhn_poker_v0", "--against", "{lines = 3}"], "is no agent ('kind')"),
        (["tictactoe_v3", "--against", "equilibrium"], "has no equilibrium()"),
        (["kuhn_poker_v0", "--options", "size=3"], "can't be made with {'size': 3}"),
    ],
)
def test_what_cannot_be_played_is_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["play", *arguments]) == 2
    assert words in capsys.readouterr().err
