"""The bandit: what each arm pays, the noise, the options that make no bandit."""

from __future__ import annotations

from typing import Any

import pytest

from opentinker.envs.bandit_v0 import best_score, env
from opentinker.errors import ConfigError
from opentinker.registry import make_env
from opentinker.testing import check_env


def pulled(context: str, arm: str, seed: int = 0, **options: Any) -> float:
    game = env(**options)
    game.reset(seed=seed, options={"context": context})
    game.step(f"[{arm}]")
    assert all(game.terminations.values())
    return game.rewards["player_0"]


def test_it_keeps_pettingzoos_contract_and_ours() -> None:
    check_env("bandit_v0", games=20)


def test_the_seat_sees_the_context_and_the_arms() -> None:
    game = env()
    game.reset(options={"context": "green"})
    assert game.observe("player_0") == "You see green. Answer [a] or [b] or [c]."
    assert game.infos["player_0"]["legal_actions"] == ["a", "b", "c"]
    assert game.infos["player_0"]["infostate"] == "green"


def test_only_the_best_arm_of_a_context_pays() -> None:
    paid = [[pulled(context, arm) for arm in "abc"] for context in ("red", "green", "blue")]
    assert paid == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_the_best_arms_can_be_given() -> None:
    options: dict[str, Any] = {
        "contexts": ["sun", "rain"],
        "arms": ["hat", "coat", "scarf"],
        "best": {"sun": "hat", "rain": "coat"},
    }
    assert pulled("rain", "coat", **options) == 1.0
    assert pulled("rain", "hat", **options) == pulled("sun", "scarf", **options) == 0.0


def test_more_contexts_than_arms_share_them() -> None:
    shared = env(contexts=("w", "x", "y", "z"), arms=("l", "r")).best
    assert shared == {"w": "l", "x": "r", "y": "l", "z": "r"}


def test_contexts_come_by_the_seed_and_evenly() -> None:
    game = env()
    seen = []
    for seed in range(600):
        game.reset(seed=seed)
        first = game.context
        game.reset(seed=seed)
        assert game.context == first
        seen.append(first)
    for context in ("red", "green", "blue"):
        assert abs(seen.count(context) - 200) < 60  # five standard deviations


def test_noise_turns_its_share_of_the_rewards_round() -> None:
    for arm, expected in (("a", 0.8), ("b", 0.2)):
        paid = [pulled("red", arm, seed, noise=0.2) for seed in range(1000)]
        assert sum(paid) / 1000 == pytest.approx(expected, abs=0.065)  # five standard deviations
    assert best_score(0.2) == 0.8
    assert best_score() == 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"contexts": []}, "contexts=..; at least 1"),
        ({"contexts": ["red", "red"]}, "all different"),
        ({"contexts": "red"}, "contexts='red'"),
        ({"arms": ["a"]}, "arms=.'a'.; at least 2"),
        ({"best": {"red": "a"}}, "each context"),
        ({"best": {"red": "a", "green": "b", "blue": "d"}}, "one of the arms"),
        ({"noise": 0.5}, "noise=0.5"),
        ({"noise": -0.1}, "noise=-0.1"),
    ],
)
def test_what_makes_no_bandit_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_env("bandit_v0", **options)


def test_an_unknown_context_is_refused() -> None:
    with pytest.raises(ConfigError, match="'pink' is not one of red, green, blue"):
        env().reset(options={"context": "pink"})
