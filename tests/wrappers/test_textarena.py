"""TextArena's games: conformance, their own random numbers, turn caps, rewards by the rules."""

from __future__ import annotations

import copy
import random
import re
from functools import partial
from typing import Any

import pytest

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import make_env
from opentinker.testing import check_env
from opentinker.wrappers.textarena import playable
from opentinker.wrappers.textarena_games import REFUSED, SEATS, refusal

registration: Any = pytest.importorskip("textarena.envs.registration")

QUICK = ("KuhnPoker-v0", "Nim-v0", "TicTacToe-v0")


@pytest.mark.parametrize("id", QUICK)
def test_it_keeps_pettingzoos_contract_and_ours(id: str) -> None:
    check_env(partial(make_env, f"textarena/{id}", max_turns=20), games=2)


@pytest.mark.slow
@pytest.mark.parametrize("id", sorted(set(playable()) - set(QUICK)))
def test_every_other_game_that_is_offered_keeps_it(id: str) -> None:
    check_env(partial(make_env, f"textarena/{id}", max_turns=20), games=2)


def play(env: Any, answers: str, seed: int = 0) -> None:
    env.reset(seed=seed)
    for answer in answers.split():
        assert not any(env.terminations.values())
        env.step(f"[{answer}]")


def test_tic_tac_toe_by_hand() -> None:
    env: Any = make_env("textarena/TicTacToe-v0")
    play(env, "0 3 1 4 2")
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert all(env.terminations.values())
    assert "The game is over." in env.observe("player_1")


def test_a_seat_sees_the_rules_and_what_is_new() -> None:
    env: Any = make_env("textarena/TicTacToe-v0")
    play(env, "4")
    seen = env.observe("player_1")
    assert seen.startswith("You are Player 1 in Tic Tac Toe.")
    assert "Player 0: [4]" in seen
    env.step("[0]")
    assert "Player 1: [0]" in env.observe("player_0")
    assert "Player 0: [4]" not in env.observe("player_1")


def test_games_side_by_side_do_not_disturb_one_another_nor_anyone_else() -> None:
    def alone(seed: int) -> list[str]:
        env: Any = make_env("textarena/KuhnPoker-v0")
        env.reset(seed=seed)
        seen = []
        for _ in range(6):
            if any(env.terminations.values()):
                break
            seen.append(env.observe(env.agent_selection))
            env.step("[check]")
        return seen

    expected = [alone(1), alone(2)]
    before = random.getstate()
    games: list[Any] = [make_env("textarena/KuhnPoker-v0") for _ in range(2)]
    for seed, game in enumerate(games, start=1):
        game.reset(seed=seed)
    seen: list[list[str]] = [[], []]
    for _ in range(6):
        for game, lines in zip(games, seen, strict=True):
            if not any(game.terminations.values()):
                lines.append(game.observe(game.agent_selection))
                game.step("[check]")
    assert seen == expected
    assert random.getstate() == before


def test_a_turn_limit_truncates() -> None:
    env: Any = make_env("textarena/TicTacToe-v0", max_turns=2)
    play(env, "0 1")
    assert all(env.truncations.values()) and not any(env.terminations.values())
    assert "cut short after 2 turns" in env.observe("player_0")


def test_long_news_is_cut_to_its_end() -> None:
    env: Any = make_env("textarena/TicTacToe-v0", max_letters=10)
    play(env, "0")
    assert "\n... " in env.observe("player_1")
    assert len(env.observe("player_1").split("\n... ")[1]) == 10


def test_a_copy_goes_on_as_the_game_does() -> None:
    env: Any = make_env("textarena/TicTacToe-v0")
    play(env, "0 3 1 4")
    again = copy.deepcopy(env)
    again.step("[2]")
    assert again.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert not any(env.terminations.values())


def test_of_every_game_is_known_whether_it_can_be_played_or_why_not() -> None:
    ids = {re.sub("(-raw|-train)+$", "", id) for id in registration.ENV_REGISTRY}
    assert not SEATS.keys() & REFUSED.keys()
    assert set(playable()) == {id for id in ids if not refusal(id)}
    assert len(ids) == 238 and len(playable()) == 174
    for id in ids - set(playable()):
        with pytest.raises(ConfigError, match=r"can't be played here: (it|its|dealing) "):
            make_env(f"textarena/{id}")


def test_what_a_game_prints_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    env: Any = make_env("textarena/LogicPuzzle-v0")
    play(env, "no yes")
    assert capsys.readouterr().out == ""


def test_what_can_not_be_made_is_said_in_words() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'TicTacToe-v0'"):
        make_env("textarena/TicTacTo-v0")
    with pytest.raises(UnknownNameError, match=r"did you mean 'Nim-v0-large'"):
        make_env("textarena/Nim-v0-larg")
    with pytest.raises(ConfigError, match="word lists"):
        make_env("textarena/Wordle-v0")
    with pytest.raises(ConfigError, match="it takes 2 to 2"):
        make_env("textarena/TicTacToe-v0", seats=3)
    with pytest.raises(ConfigError, match="can't be made with"):
        make_env("textarena/TicTacToe-v0", colour="red")
    with pytest.raises(ConfigError, match="max_turns=0"):
        make_env("textarena/TicTacToe-v0", max_turns=0)
