"""One seat of a multi-agent env as a Gymnasium env: values by hand, Gymnasium's own checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import opentinker
from opentinker import SingleAgentEnv
from opentinker.agents.scripted import ScriptedAgent
from opentinker.env import TextEnv
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.rollout.worker import AgentSpec

CASES = [
    ("kuhn_poker_v0", "player_0"),
    ("kuhn_poker_v0", "player_1"),
    ("rps_v2", "player_1"),
    ("tictactoe_v3", "player_2"),
    ("public_goods_v0", "player_1"),
    ("debate_v0", "judge"),
    ("werewolf_v0", "player_2"),
    ("guess_number_v0", "player_0"),
]


@pytest.fixture
def registered(request: pytest.FixtureRequest) -> Iterator[str]:
    name, seat = request.param
    id = f"OneSeat/{name.replace('_', '')}-v0"
    gymnasium.register(
        id, entry_point="opentinker:SingleAgentEnv", kwargs={"env": name, "seat": seat}
    )
    yield id
    del gymnasium.registry[id]


@pytest.mark.parametrize("registered", CASES, indirect=True, ids=lambda case: "-".join(case))
def test_it_passes_gymnasiums_checks(registered: str) -> None:
    """With a spec, so that making, rendering and closing are checked too."""
    check_env(gymnasium.make(registered, render_mode="ansi").unwrapped)


def kuhn(seat: str, *lines: str) -> SingleAgentEnv:
    return SingleAgentEnv("kuhn_poker_v0", seat, others=AgentSpec("scripted", {"lines": lines}))


def value(env: SingleAgentEnv, *answers: str) -> float:
    """The mean return over the six deals when the seat says `answers`."""
    total = 0.0
    for deal in permutations("JQK", 2):
        env.reset(seed=0, options={"deal": deal})
        steps = [env.step(answer) for answer in answers]
        total += sum(reward for _, reward, *_ in steps)
        assert steps[-1][2:4] == (True, False)
    return total / 6


def test_kuhn_poker_is_worth_what_a_hand_count_says() -> None:
    """Always betting wins 1 from who always folds, and 0 on average from who always calls.

    Checking into one who always checks is a showdown for 1, worth 0; check and fold to one who
    always bets costs 1. As player_1, calling one who always bets is worth 0, folding costs 1.
    """
    assert value(kuhn("player_0", "[fold]"), "[bet]") == 1.0
    assert value(kuhn("player_0", "[call]"), "[bet]") == 0.0
    assert value(kuhn("player_0", "[check]"), "[check]") == 0.0
    assert value(kuhn("player_0", "[bet]"), "[check]", "[fold]") == -1.0
    assert value(kuhn("player_1", "[bet]"), "[call]") == 0.0
    assert value(kuhn("player_1", "[bet]"), "[fold]") == -1.0
    assert value(kuhn("player_1", "[check]"), "[check]") == 0.0


def test_each_step_tells_the_seats_next_turn() -> None:
    env = kuhn("player_0", "[bet]")
    seen, info = env.reset(seed=0, options={"deal": ["K", "J"]})
    assert "Your card: K" in seen and info["legal_actions"] == ["check", "bet"]
    seen, reward, ended, cut, info = env.step("I [check].")
    assert "player_0 check, player_1 bet" in seen and (reward, ended, cut) == (0.0, False, False)
    assert info["infostate"] == "K:check-bet" and info["legal_actions"] == ["fold", "call"]
    seen, reward, ended, cut, info = env.step("[call]")
    assert "player_0 wins 2" in seen and (reward, ended, cut) == (2.0, True, False)
    assert info["action"] == "call"
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step("[call]")


def test_an_illegal_answer_meets_the_envs_rule() -> None:
    env = SingleAgentEnv("kuhn_poker_v0", "player_0", illegal="retry(1), forfeit")
    env.reset(seed=0)
    seen, reward, ended, _, info = env.step("[raise]")
    assert seen.startswith("not legal now: [raise]") and (reward, ended) == (0.0, False)
    assert info["legal"] is False
    assert env.step("[raise]")[1:3] == (-2.0, True)
    env = SingleAgentEnv("tictactoe_v3", "player_1", illegal="retry(9), penalty(0.25)")
    env.reset(seed=0)
    assert env.step("[0]")[1:3] == (-0.25, False)


def test_rock_paper_scissors_is_played_at_once() -> None:
    env = SingleAgentEnv(
        "rps_v2",
        "player_1",
        others={"player_0": AgentSpec("scripted", {"lines": ["[rock]", "[paper]"]})},
        rounds=3,
    )
    for _ in range(2):  # a script begins again with each game
        env.reset(seed=0)
        assert env.step("[paper]")[1:3] == (1.0, False)
        assert env.step("[paper]")[1:3] == (0.0, False)
        assert env.step("[scissors]")[1:3] == (-1.0, True)


def test_tic_tac_toe_is_lost_to_a_script_and_never_won_from_minimax() -> None:
    env = SingleAgentEnv("tictactoe_v3", "player_2", others=ScriptedAgent(["[1]", "[2]", "[3]"]))
    seen, _ = env.reset(seed=0)
    assert "X 2 3" in seen
    assert env.step("[5]")[1:3] == (0.0, False)
    assert env.step("[9]")[1:3] == (-1.0, True)
    perfect = AgentSpec("minimax", {"game": "tictactoe_v3"})
    env = SingleAgentEnv("tictactoe_v3", "player_1", others=perfect)
    env.action_space.seed(0)
    for seed in range(30):
        _, info = env.reset(seed=seed)
        ended, reward = False, 0.0
        while not ended:
            _, reward, ended, _, info = env.step(f"[{info['legal_actions'][seed % 3 - 1]}]")
        assert reward <= 0.0


def test_a_seed_repeats_the_game_and_the_others_play() -> None:
    def line(env: SingleAgentEnv, seed: int | None) -> list[Any]:
        _, info = env.reset(seed=seed)
        told: list[Any] = []
        ended = False
        while not ended:
            seen, reward, ended, _, info = env.step(info["legal_actions"][0])
            told.append((seen, reward))
        return told

    env = SingleAgentEnv("tictactoe_v3", "player_1")
    games = [line(env, seed) for seed in range(8)]
    assert games == [line(env, seed) for seed in range(8)]
    assert any(game != games[0] for game in games)
    line(env, 7)
    after = [line(env, None) for _ in range(5)]
    line(env, 7)
    assert after == [line(env, None) for _ in range(5)]


class Quitting(TextEnv):
    """a_0 moves once; `[stop]` ends the game, `[out]` takes b_0 out of it, `[cut]` cuts it."""

    name = "quitting_v0"
    seats = ("a_0", "b_0")

    def deal(self, options: Any) -> None:
        """Nothing is dealt."""

    def describe(self, seat: str) -> str:
        return "Say on, stop, out or cut."

    def legal(self, seat: str) -> list[str]:
        return ["on", "stop", "out", "cut"]

    def play(self, seat: str, action: str) -> None:
        self.reward("b_0", 0.5)
        if action == "stop":
            self.finish()
        if action == "out":
            self.finish("b_0")
        if action == "cut":
            self.truncate("b_0")


@pytest.mark.parametrize(
    ("said", "ended", "cut"), [("stop", True, False), ("out", True, False), ("cut", False, True)]
)
def test_a_game_that_is_over_before_the_seat_moves_pays_in_its_first_step(
    said: str, ended: bool, cut: bool
) -> None:
    env = SingleAgentEnv(Quitting(), "b_0", others=ScriptedAgent([f"[{said}]"]))
    env.reset(seed=0)
    assert env.step("anything")[1:4] == (0.5, ended, cut)


def test_all_that_is_paid_between_two_turns_is_summed() -> None:
    env = SingleAgentEnv(Quitting(), "b_0", others=ScriptedAgent(["[on]"]))
    env.reset(seed=0)
    # for the other's first move, its own, and the other's second
    assert env.step("[on]")[1:4] == (1.5, False, False)
    assert env.step("[on]")[1:4] == (1.0, False, False)
    assert env.step("[out]")[1:4] == (0.5, True, False)


def test_it_works_inside_a_running_event_loop() -> None:
    async def play() -> float:
        env = kuhn("player_1", "[bet]")
        env.reset(seed=0)
        return env.step("[fold]")[1]

    assert asyncio.run(play()) == -1.0


def test_wrong_seats_others_and_options_are_refused_in_words() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'player_1'"):
        SingleAgentEnv("kuhn_poker_v0", "player_2")
    with pytest.raises(ConfigError, match="given for player_0; the other seats are player_1"):
        SingleAgentEnv("kuhn_poker_v0", "player_0", others={"player_0": "random"})
    with pytest.raises(UnknownNameError, match="unknown agent 'randm'"):
        SingleAgentEnv("kuhn_poker_v0", "player_0", others="randm")
    with pytest.raises(ConfigError, match="takes no options"):
        SingleAgentEnv(Quitting(), "a_0", rounds=3)
    assert "SingleAgentEnv" in opentinker.__all__
