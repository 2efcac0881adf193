"""`opentinker.testing`: each broken part is refused in words, each sound one passes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from opentinker.agent import Answer, View
from opentinker.env import TextEnv
from opentinker.errors import ConfigError, ProtocolError
from opentinker.registry import make_env
from opentinker.testing import check_agent, check_env, check_protocol

CUSTOM = Path(__file__).parents[1] / "experiments" / "custom_env"


class Coin(TextEnv):
    """Two seats say heads or tails, once each."""

    seats = ("player_0", "player_1")

    def deal(self, options: Mapping[str, Any]) -> None:
        self.said: list[str] = []

    def describe(self, seat: str) -> str:
        return f"Said: {self.said}"

    def legal(self, seat: str) -> list[str]:
        return ["heads", "tails"]

    def play(self, seat: str, action: str) -> None:
        self.said.append(action)
        if len(self.said) == 2:
            self.finish()


def test_an_env_may_be_given_as_a_class_an_object_or_a_name() -> None:
    check_env(Coin)
    check_env(Coin())
    check_env("kuhn_poker_v0")


def test_the_custom_env_of_the_experiment_passes_and_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(CUSTOM)
    check_env("hint_game:env")
    assert len((CUSTOM / "hint_game.py").read_text().splitlines()) < 60


def test_the_best_play_of_the_custom_env_is_right_half_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(CUSTOM)
    env: Any = make_env("hint_game:env")
    returns = []
    for number in "1234":
        env.reset(seed=0, options={"number": number})
        env.step("[low]" if number in "12" else "[high]")
        env.step("[1]" if "low" in env.observe("player_1") else "[3]")
        returns.append(env.rewards)
    assert [paid["player_0"] for paid in returns] == [1.0, 0.0, 1.0, 0.0]
    assert all(paid["player_0"] == paid["player_1"] for paid in returns)


def broken(**hooks: Any) -> type[Coin]:
    """A coin with other hooks, found by pickle under its name in this module."""
    kind = type("Broken", (Coin,), {**hooks, "__module__": __name__})
    globals()["Broken"] = kind
    return kind


def endless(self: Any, seat: str, action: str) -> None:
    self.said.append(action)


def draw_from_all(self: Any, options: Any) -> None:
    self.said = []
    random.random()


def seed_all(self: Any, options: Any) -> None:
    self.said = []
    np.random.seed(0)


def keep_lambda(self: Any, options: Any) -> None:
    self.said, self.rule_of_thumb = [], lambda: None


def unseeded(self: Any, options: Any) -> None:
    self.said = [str(np.random.default_rng().random())]


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ({"play": endless}, "did not end within"),
        ({"deal": draw_from_all}, "process-wide random generator"),
        ({"deal": seed_all}, "process-wide random generator"),
        ({"deal": keep_lambda}, "can't be pickled"),
        ({"deal": unseeded}, "fails PettingZoo's seed_test"),
        ({"observe": lambda self, seat: "bare"}, "an observation is an opentinker.env.Text"),
        ({"action_space": lambda self, seat: Discrete(2)}, "must be a FreeText"),
        ({"legal": lambda self, seat: ["a [b]", "[b] a"]}, "not legal"),
    ],
)
def test_a_broken_env_is_refused_in_words(hooks: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_env(broken(**hooks), steps=100)


def test_an_env_that_seeds_is_found_out_when_the_state_is_its_own_seeds_already() -> None:
    np.random.seed(0)
    with pytest.raises(ConfigError, match="process-wide random generator"):
        check_env(broken(deal=seed_all), steps=100)


def test_what_is_no_env_is_refused() -> None:
    with pytest.raises(ConfigError, match="gave a dict"):
        check_env(dict)  # type: ignore[arg-type]


def test_pettingzoos_own_envs_are_told_what_they_lack() -> None:
    import pettingzoo

    with pytest.raises(ConfigError, match="must be a FreeText"):
        check_env(pettingzoo.make("aec", "classic/tictactoe-v3"))


def test_built_in_agents_pass() -> None:
    check_agent("random")
    check_agent("scripted", lines=["[yes]"])
    row = {"K": {"yes": 0.5, "no": 0.5}}
    view = View("player_0", "move", "?", "?", ("yes", "no"), "K")
    check_agent("tabular", table=row, views=[view, view, view])


class Says:
    def __init__(self, text: Any) -> None:
        self.text = text

    async def answer(self, view: View, sampler: Any) -> Answer:
        return Answer(self.text if isinstance(self.text, str) else str(self.text()))


def test_an_agent_that_answers_illegally_or_by_chance_is_refused() -> None:
    with pytest.raises(ConfigError, match="ambiguous"):
        check_agent(lambda seat, seed: Says("[yes] or [no]"))
    with pytest.raises(ConfigError, match="twice with the same seed"):
        check_agent(lambda seat, seed: Says(np.random.default_rng().random))
    with pytest.raises(ConfigError, match="lines"):
        check_agent("scripted")


def test_built_in_protocols_pass_over_envs_that_they_fit() -> None:
    check_protocol("follow_env", "kuhn_poker_v0")
    check_protocol("simultaneous", "rps_v2")
    check_protocol("follow_env", Coin(), window=1)


def test_a_protocol_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ProtocolError):
        check_protocol("simultaneous", "kuhn_poker_v0")
