"""Gymnasium's envs as one seat: known best plays, what the seat is told, refusals."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import make_env
from opentinker.testing import check_env
from opentinker.wrappers.gym_view import write

pytest.importorskip("pygame")

TOY_TEXT = (
    "Blackjack-v1",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "Taxi-v4",
)


@pytest.mark.parametrize("id", [*TOY_TEXT, "CartPole-v1", "MountainCar-v0"])
def test_it_keeps_pettingzoos_contract_and_ours(id: str) -> None:
    check_env(partial(make_env, f"gymnasium/{id}", max_episode_steps=60), games=2)


def play(env: Any, answers: str, seed: int = 0) -> float:
    """What the seat was paid in all."""
    env.reset(seed=seed)
    total = 0.0
    for answer in answers.split():
        assert not env.terminations["player_0"]
        env.step(f"[{answer}]")
        total += env.rewards["player_0"]
    return total


def test_the_way_over_the_ice_pays_1() -> None:
    env: Any = make_env("gymnasium/FrozenLake-v1", is_slippery=False)
    assert play(env, "down down right right down right") == 1.0
    assert env.terminations["player_0"]
    assert play(env, "down right") == 0.0
    assert env.terminations["player_0"]
    assert "You are A, on H.\nThe game is over." in env.observe("player_0")


def test_the_ice_reads_as_a_map() -> None:
    env: Any = make_env("gymnasium/FrozenLake-v1", is_slippery=False)
    play(env, "right right")
    seen = env.observe("player_0")
    assert "\nS F A F\nF H F H\nF F F H\nH F F G\nYou are A, on F.\n" in seen
    assert seen.endswith("Answer one of [left] [down] [right] [up].")
    assert "slippery" not in seen
    assert env.infos["player_0"]["infostate"] == "2"
    env = make_env("gymnasium/FrozenLake-v1")
    env.reset(seed=0)
    assert "slippery" in env.observe("player_0")


def test_the_shortest_way_along_the_cliff_costs_13_and_a_fall_100() -> None:
    env: Any = make_env("gymnasium/CliffWalking-v1")
    assert play(env, "up " + "right " * 11 + "down") == -13.0
    assert env.terminations["player_0"]
    assert play(env, "right") == -100.0
    assert "A # # # # # # # # # # G" in env.observe("player_0")


def taxi_start(env: Any, seed: int) -> tuple[int, ...]:
    """Row, column, passenger and goal that the seed deals; (0, 0, 0, 1) is at R, with R to G."""
    env.reset(seed=seed)
    return tuple(map(int, env._foreign.env.unwrapped.decode(env._seen)))


def test_a_wall_is_not_driven_through_and_a_passenger_earns_20() -> None:
    env: Any = make_env("gymnasium/Taxi-v4")
    seed = next(seed for seed in range(5000) if taxi_start(env, seed) == (0, 0, 0, 1))
    env.reset(seed=seed)
    assert env.infos["player_0"]["legal_actions"] == ["south", "east", "pickup"]
    way = "pickup south south east east north north east east dropoff"
    assert play(env, way, seed) == 20 - 9
    assert "The passenger waits at G" in env.observe("player_0")


def test_sticking_on_21_is_told_and_never_loses() -> None:
    env: Any = make_env("gymnasium/Blackjack-v1")
    seeds = []
    for seed in range(200):
        env.reset(seed=seed)
        if "Your cards make 21, with an ace counted as 11." in env.observe("player_0"):
            seeds.append(seed)
    assert 2 <= len(seeds) <= 25  # 21 on two cards has the chance 2 * 1/13 * 4/13 = 0.047
    assert all(play(env, "stick", seed) >= 0.0 for seed in seeds)


def test_gymnasiums_time_limit_truncates() -> None:
    env: Any = make_env("gymnasium/FrozenLake-v1", max_episode_steps=2)
    play(env, "left left")
    assert env.truncations["player_0"] and not env.terminations["player_0"]


def test_a_copy_goes_on_as_the_game_does() -> None:
    env: Any = make_env("gymnasium/FrozenLake-v1")
    play(env, "left left")
    again = copy.deepcopy(env)
    for answer in ("right", "left", "right"):
        env.step(answer)
        again.step(answer)
        assert again.observe("player_0") == env.observe("player_0")


def test_what_can_not_be_said_or_found_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"are Box.*numbered ones"):
        make_env("gymnasium/Pendulum-v1")
    with pytest.raises(UnknownNameError, match=r"did you mean 'FrozenLake-v1'"):
        make_env("gymnasium/FrozenLak-v1")
    with pytest.raises(ConfigError, match="can't be made with"):
        make_env("gymnasium/FrozenLake-v1", colour="red")


class Echo(gymnasium.Env[Any, Any]):
    """Wants to hear what it says; words in, words out."""

    observation_space = gymnasium.spaces.Text(10)
    action_space = gymnasium.spaces.Text(10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.word = "abc"[self.np_random.integers(3)]
        return self.word, {}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.word, float(action == self.word), True, False, {}


def test_words_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = EnvSpec("Echo-v0", f"{__name__}:Echo")
    monkeypatch.setitem(gymnasium.registry, "Echo-v0", spec)
    check_env("gymnasium/Echo-v0")
    env: Any = make_env("gymnasium/Echo-v0")
    env.reset(seed=0)
    assert "legal_actions" not in env.infos["player_0"]
    word = env.observe("player_0").removeprefix("Echo. You see: ")
    env.step(word)
    assert env.rewards["player_0"] == 1.0


def test_observations_of_every_kind_are_written() -> None:
    assert write((1, {"a": [0.5, 2], "b": "text"})) == "1, a: [0.5 2]; b: text"
