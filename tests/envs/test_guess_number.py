"""Guess the number: whole games by hand, the best score against every way of guessing there is."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from opentinker.envs.guess_number_v0 import best_score, env
from opentinker.errors import ConfigError
from opentinker.registry import make_env
from opentinker.testing import check_env

ANSWERS: tuple[str, ...] = ("higher", "lower")


def test_it_keeps_pettingzoos_contract_and_ours() -> None:
    check_env("guess_number_v0", games=20)


def test_a_game_by_hand() -> None:
    game = env()
    game.reset(options={"number": 6})
    assert game.observe("player_0") == (
        "Guess the number from 1 to 8. Guesses left: 4. "
        "Answer one of [1] [2] [3] [4] [5] [6] [7] [8]."
    )
    assert game.infos["player_0"]["infostate"] == "start"
    game.step("[4]")
    assert game.rewards == {"player_0": -0.1}
    game.step("[7]")
    assert game.infos["player_0"]["infostate"] == "4:higher-7:lower"
    assert game.observe("player_0") == (
        "Guess the number from 1 to 8. It is higher than 4. It is lower than 7. Guesses left: 2. "
        "Answer one of [1] [2] [3] [4] [5] [6] [7] [8]."
    )
    game.step("6")
    assert game.rewards == {"player_0": 1.0}
    assert all(game.terminations.values())
    assert "It was 6. The game is over." in game.observe("player_0")


def test_the_game_is_over_when_no_guess_is_left() -> None:
    game = env(high=4, guesses=2, cost=0.25)
    game.reset(options={"number": 1})
    game.step("[3]")
    assert not any(game.terminations.values())
    game.step("[3]")  # ruled out, and allowed
    assert game.rewards == {"player_0": -0.25}
    assert all(game.terminations.values())


def test_a_forfeit_is_worse_than_any_guessing() -> None:
    game = env(guesses=2, cost=1.0)
    game.reset(seed=0)
    game.step("nine")
    game.step("[9]")
    assert game.rewards["player_0"] == -3.0
    assert all(game.terminations.values())


def test_numbers_come_by_the_seed_and_all_of_them() -> None:
    game = env()
    drawn = set()
    for seed in range(100):
        game.reset(seed=seed)
        first = game.number
        game.reset(seed=seed)
        assert game.number == first
        drawn.add(first)
    assert drawn == set("12345678")


def test_by_default_halving_finds_every_number() -> None:
    for high in (1, 2, 3, 4, 7, 8, 15, 16):
        for number in range(1, high + 1):
            game = env(high=high)
            game.reset(options={"number": number})
            low, top = 1, high
            while not any(game.terminations.values()):
                guess = (low + top) // 2
                game.step(f"[{guess}]")
                low, top = (guess + 1, top) if guess < number else (low, guess - 1)
            assert game.rewards == {"player_0": 1.0}


@pytest.mark.parametrize(
    ("high", "guesses", "cost", "score"),
    [
        (1, 1, 0.1, 1.0),
        (2, 2, 0.1, (1.0 + 0.9) / 2),
        (3, 2, 0.1, (1.0 + 2 * 0.9) / 3),
        (3, 1, 0.5, (1.0 - 2 * 0.5) / 3),
        (7, 3, 0.1, (1.0 + 2 * 0.9 + 4 * 0.8) / 7),
        (8, 4, 0.1, (1.0 + 2 * 0.9 + 4 * 0.8 + 0.7) / 8),
    ],
)
def test_the_best_score_is_that_of_halving(
    high: int, guesses: int, cost: float, score: float
) -> None:
    assert best_score(high, guesses, cost) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    ("high", "guesses", "cost"), [(2, 3, 0.1), (3, 2, 0.1), (3, 2, 1.0), (4, 2, 0.3), (5, 2, 0.0)]
)
def test_no_way_of_guessing_scores_more_than_the_best(high: int, guesses: int, cost: float) -> None:
    """Every map from the answers so far to the next guess, each played for every number."""
    states = [each for k in range(guesses) for each in product(ANSWERS, repeat=k)]
    numbers = range(1, high + 1)
    game = env(high=high, guesses=guesses, cost=cost)

    def score(plan: Mapping[tuple[str, ...], int]) -> float:
        total = 0.0
        for number in numbers:
            game.reset(options={"number": number})
            told: tuple[str, ...] = ()
            while not any(game.terminations.values()):
                guess = plan[told]
                game.step(f"[{guess}]")
                total += game.rewards["player_0"]
                told = (*told, "higher" if number > guess else "lower")
        return total / high

    chosen = product(numbers, repeat=len(states))
    plans = (dict(zip(states, each, strict=True)) for each in chosen)
    assert max(map(score, plans)) == pytest.approx(best_score(high, guesses, cost), abs=1e-12)


@pytest.mark.parametrize(
    "options", [{"high": 0}, {"guesses": 0}, {"cost": -0.1}, {"cost": 1.5}, {"cost": float("nan")}]
)
def test_what_makes_no_game_is_refused(options: dict[str, Any]) -> None:
    [(option, value)] = options.items()
    with pytest.raises(ConfigError, match=f"{option}={value}"):
        make_env("guess_number_v0", **options)
    with pytest.raises(ConfigError, match=f"{option}={value}"):
        best_score(**options)


def test_a_number_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="number 9 is not one of 1 to 8"):
        env().reset(options={"number": 9})
