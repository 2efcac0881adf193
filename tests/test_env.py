"""`opentinker.env` and `opentinker.answer`: reading, illegal answers, PettingZoo's bookkeeping."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opentinker.answer import IllegalRule, Reading, parse_answer, parse_rule
from opentinker.env import FreeText, ParallelTextEnv, Text, TextEnv
from opentinker.errors import ConfigError, EnvironmentFault
from opentinker.testing import check_env

ANSWERS = json.loads((Path(__file__).parent / "cases" / "answers.json").read_text())["cases"]


class Countdown(TextEnv):
    """Three seats say `stay` or `leave`; who leaves is paid the round's number and is finished."""

    seats = ("player_0", "player_1", "player_2")
    worst_reward = -9.0
    words = ("stay", "leave")

    def deal(self, options: Mapping[str, Any]) -> None:
        self.turns = 0
        self.luck = int(self.rng.integers(1000))

    def describe(self, seat: str) -> str:
        return f"{seat}, turn {self.turns}, luck {self.luck}"

    def legal(self, seat: str) -> list[str]:
        return ["stay", "leave"]

    def play(self, seat: str, action: str) -> None:
        self.turns += 1
        if action == "leave":
            self.reward(seat, self.turns)
            self.finish(seat)
        if self.turns >= 9:
            self.truncate()


class Sums(ParallelTextEnv):
    """Both say 1 or 2 at once and get the product; three rounds, player_1 leaves after two."""

    seats = ("player_0", "player_1")
    worst_reward = -5.0
    words = ("1", "2")

    def deal(self, options: Mapping[str, Any]) -> None:
        self.round = 0

    def describe(self, seat: str) -> str:
        return f"round {self.round}"

    def legal(self, seat: str) -> list[str]:
        return ["1", "2"]

    def play(self, actions: Mapping[str, str]) -> None:
        self.round += 1
        product = float(np.prod([int(action) for action in actions.values()]))
        for seat in actions:
            self.reward(seat, product)
        if self.round == 2:
            self.finish("player_1")
        if self.round == 3:
            self.truncate()


class Chat(ParallelTextEnv):
    kind = "conversation"
    seats = ("player_0", "player_1")

    def deal(self, options: Mapping[str, Any]) -> None:
        self.said: list[Mapping[str, str]] = []

    def describe(self, seat: str) -> str:
        return "Talk."

    def play(self, actions: Mapping[str, str]) -> None:
        self.said.append(dict(actions))
        if len(self.said) == 2:
            self.finish()


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: repr(case["answer"]))
def test_an_answer_is_read_as_the_case_says(case: dict[str, Any]) -> None:
    reading = parse_answer(case["answer"], case["legal"])
    assert reading.action == case["action"]
    if "why" in case:
        assert reading.reason.startswith(case["why"].split(":")[0])
    else:
        assert reading.reason == ""


def test_actions_that_differ_in_case_only_must_be_spelled_exactly() -> None:
    legal = ["bxc3", "Bxc3", "Nf3"]
    assert parse_answer("[Bxc3]", legal) == Reading("Bxc3")
    assert parse_answer("[bxc3]", legal) == Reading("bxc3")
    assert parse_answer("[BXC3]", legal).action is None
    assert parse_answer("[nf3]", legal) == Reading("Nf3")


def test_composed_and_decomposed_letters_are_the_same() -> None:
    assert parse_answer("[cafe\u0301]", ["caf\u00e9"]).action == "caf\u00e9"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("forfeit", IllegalRule(0, "forfeit")),
        ("random", IllegalRule(0, "random")),
        ("retry(2), forfeit", IllegalRule(2, "forfeit")),
        ("retry(1),penalty(0.5)", IllegalRule(1, "penalty", 0.5)),
    ],
)
def test_a_rule_is_read(text: str, rule: IllegalRule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    "text", ["", "retry(2)", "forfiet", "penalty", "penalty(x)", "penalty(-1)", "random(2)"]
)
def test_a_rule_that_can_not_be_read_is_a_config_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"illegal-answer rule"):
        parse_rule(text)


def test_text_survives_pickle_copy_and_json_and_has_a_dtype() -> None:
    text = Text("d\u00e9j\u00e0 vu\n")
    for again in (pickle.loads(pickle.dumps(text)), copy.deepcopy(text)):
        assert again == text and isinstance(again, Text) and again.dtype == np.dtype(str)
    assert json.loads(json.dumps(text)) == text


def test_free_text_holds_blanks_the_empty_string_and_any_script() -> None:
    space = FreeText(max_length=20)
    for text in ("", "two words\n", "\u4e2d\u6587 \U0001f0a1"):
        assert text in space
    assert "x" * 21 not in space
    assert 3 not in space


def test_free_text_samples_are_of_the_space_and_follow_its_seed() -> None:
    spaces = FreeText(words=["bet"]), FreeText(words=["bet"])
    for space in spaces:
        space.seed(5)
    samples = [[space.sample() for _ in range(50)] for space in spaces]
    assert samples[0] == samples[1]
    assert "[bet]" in samples[0] and len(set(samples[0])) > 10
    assert all(sample in spaces[0] for sample in samples[0])


def test_toy_envs_keep_pettingzoos_contract_and_ours() -> None:
    for env in (Countdown, Sums, Chat):
        check_env(env)


def play(env: TextEnv, *answers: str) -> None:
    for answer in answers:
        env.step(answer)


def test_seats_that_end_at_different_times_take_one_dead_step_each_and_are_not_asked_again() -> (
    None
):
    env = Countdown()
    env.reset(seed=0)
    asked = []
    while env.agents:
        seat = env.agent_selection
        done = env.terminations[seat] or env.truncations[seat]
        asked.append((seat, done))
        env.step(None if done else "[leave]" if seat == "player_1" else "[stay]")
    live = [seat for seat, done in asked if not done]
    turn = ["player_0", "player_2"]
    assert live == ["player_0", "player_1", "player_2", *turn * 3]
    dead = [seat for seat, done in asked if done]
    assert dead == ["player_1", "player_0", "player_2"]
    assert asked.index(("player_1", True)) == 2, "the dead step comes before anyone else's move"


def test_termination_and_truncation_are_told_apart() -> None:
    env = Countdown()
    env.reset(seed=0)
    play(env, "stay", "leave")
    assert env.agent_selection == "player_1"
    assert (env.terminations["player_1"], env.truncations["player_1"]) == (True, False)
    env.step(None)  # type: ignore[arg-type]
    play(env, *["stay"] * 7)
    assert env.terminations == {"player_0": False, "player_2": False}
    assert env.truncations == {"player_0": True, "player_2": True}


def test_rewards_add_up_until_the_seat_acts_again() -> None:
    class Pay(Countdown):
        def play(self, seat: str, action: str) -> None:
            for each in self.seats:
                self.reward(each, 1.0 if each == seat else 0.25)
            self.reward(seat, 0.5)

    env = Pay()
    env.reset(seed=0)
    play(env, "stay")
    assert env.rewards == {"player_0": 1.5, "player_1": 0.25, "player_2": 0.25}
    play(env, "stay", "stay")
    assert env.last()[1] == 1.5 + 0.25 + 0.25
    env.step("stay")
    assert env._cumulative_rewards["player_0"] == 1.5
    assert env.last()[1] == 1.5 + 0.25 + 0.25


def test_a_retry_asks_the_same_seat_and_begins_with_the_reason() -> None:
    env = Countdown(illegal="retry(2), forfeit")
    env.reset(seed=0)
    for answer, reason in (("hm", "no tag"), ("[fold]", "not legal now: [fold]")):
        env.step(answer)
        assert env.agent_selection == "player_0"
        assert str(env.observe("player_0")).startswith(reason)
        assert str(env.observe("player_1")).startswith("player_1")
        assert env.infos["player_0"]["legal"] is False
        assert env.infos["player_0"]["action"] is None
        assert env.infos["player_0"]["reason"].startswith(reason)
        assert env.infos["player_0"]["legal_actions"] == ["stay", "leave"]
    env.step("[stay]")
    assert env.agent_selection == "player_1"
    told = {"legal": True, "action": "stay", "reason": ""}
    assert env.infos["player_0"] == told
    env.step("[stay]")
    assert env.infos["player_0"] == told, "until the seat's next answer"
    assert str(env.observe("player_0")).startswith("player_0")


def test_retries_are_counted_anew_at_each_move() -> None:
    env = Countdown(illegal="retry(1), forfeit")
    env.reset(seed=0)
    for _ in range(6):
        play(env, "hm", "stay")
    assert not any(env.terminations.values())


def test_a_forfeit_costs_the_offender_the_worst_reward_and_nobody_else_anything() -> None:
    env = Countdown(illegal="retry(1), forfeit")
    env.reset(seed=0)
    play(env, "stay", "hm", "hm")
    assert env.rewards == {"player_0": 0.0, "player_1": -9.0, "player_2": 0.0}
    assert all(env.terminations.values()) and not any(env.truncations.values())
    assert env.infos["player_1"]["legal"] is False


def test_a_penalty_is_paid_for_each_illegal_answer_and_then_a_random_action_is_played() -> None:
    env = Countdown(illegal="retry(1), penalty(0.5)")
    env.reset(seed=0)
    env.step("hm")
    assert env.rewards["player_0"] == -0.5 and env.turns == 0
    env.step("hm")
    assert env.turns == 1
    paid = 1.0 if env.terminations["player_0"] else 0.0
    assert env.rewards["player_0"] == -0.5 + paid
    assert env.infos["player_0"]["legal"] is False


def test_a_random_action_is_drawn_from_the_games_own_seed() -> None:
    def turns(seed: int) -> list[bool]:
        env = Countdown(illegal="random")
        env.reset(seed=seed)
        for _ in range(3):
            while env.terminations[env.agent_selection]:
                env.step(None)  # type: ignore[arg-type]
            env.step("hm")
        return [env.agents == env.possible_agents, env.turns == 3, "player_0" in env.agents]

    assert turns(1) == turns(1)
    assert len({tuple(turns(seed)) for seed in range(20)}) > 1


def test_games_follow_the_seed_and_unseeded_ones_go_on_from_the_last() -> None:
    env, other = Countdown(), Countdown()
    lucks = []
    for each in (env, other):
        each.reset(seed=3)
        first = each.luck
        each.reset()
        lucks.append((first, each.luck, each.seed))
    assert lucks[0] == lucks[1]
    other.reset(seed=lucks[0][2])
    assert other.luck == lucks[0][1], "the seed that an unseeded game drew gives it again"


@pytest.mark.parametrize("amount", ["won", None, float("nan"), float("inf"), True, [1.0]])
def test_a_reward_that_is_no_finite_number_is_a_fault(amount: Any) -> None:
    class Bad(Countdown):
        def play(self, seat: str, action: str) -> None:
            self.reward(seat, amount)

    env = Bad()
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="a reward is a finite number"):
        env.step("stay")


@pytest.mark.parametrize("answer", [None, 3, b"stay"])
def test_an_answer_that_is_no_text_is_a_fault(answer: Any) -> None:
    env = Countdown()
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="an answer is a text"):
        env.step(answer)


def test_breaches_of_the_contract_are_faults_that_name_the_seat() -> None:
    class ToTheDead(Countdown):
        def play(self, seat: str, action: str) -> None:
            self.finish(seat)
            self.next(seat)

    class ToNobody(Countdown):
        def play(self, seat: str, action: str) -> None:
            self.reward("player_7", 1.0)

    class NoActions(Countdown):
        def legal(self, seat: str) -> list[str]:
            return []

    for kind, words in ((ToTheDead, "'player_0', who is finished"), (ToNobody, "'player_7'")):
        env = kind()
        env.reset(seed=0)
        with pytest.raises(EnvironmentFault, match=words):
            env.step("stay")
    with pytest.raises(EnvironmentFault, match="'player_0'"):
        NoActions().reset(seed=0)


def test_stepping_without_a_game_or_a_finished_seat_with_an_action_is_a_fault() -> None:
    env = Countdown()
    with pytest.raises(EnvironmentFault, match="call reset"):
        env.step("stay")
    env.reset(seed=0)
    env.step("leave")
    with pytest.raises(EnvironmentFault, match="takes None from 'player_0'"):
        env.step("stay")


def test_wrong_settings_are_config_errors() -> None:
    with pytest.raises(ConfigError, match="render_mode 'human'"):
        Countdown(render_mode="human")
    with pytest.raises(ConfigError, match="names no seats"):
        type("Empty", (Countdown,), {"seats": ()})()


def test_a_fault_is_picklable() -> None:
    fault = pickle.loads(pickle.dumps(Countdown().fault("broke")))
    assert isinstance(fault, EnvironmentFault) and str(fault) == "Countdown broke"


@pytest.mark.parametrize("again", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_in_the_middle_of_a_game_goes_on_as_the_first(again: Any) -> None:
    env = Countdown(illegal="random")
    env.reset(seed=0)
    play(env, "stay", "stay")
    other = again(env)
    for each in (env, other):
        play(each, "hm")
    assert (env.turns, env.agents, env.rewards) == (other.turns, other.agents, other.rewards)
    assert env.infos == other.infos


def test_all_seats_move_at_once_and_end_at_different_times() -> None:
    env = Sums()
    env.reset(seed=0)
    _, rewards, *_ = env.step({"player_0": "[2]", "player_1": "2"})
    assert rewards == {"player_0": 4.0, "player_1": 4.0}
    _, _, ended, cut, infos = env.step({"player_0": "[1]", "player_1": "[2]"})
    assert ended == {"player_0": False, "player_1": True} and not any(cut.values())
    assert infos["player_1"] == {"legal": True, "action": "2", "reason": ""}
    assert infos["player_0"]["legal_actions"] == ["1", "2"]
    assert env.agents == ["player_0"]
    with pytest.raises(EnvironmentFault, match="'player_1'"):
        env.step({"player_0": "[1]", "player_1": "[2]"})
    _, rewards, ended, cut, _ = env.step({"player_0": "[2]"})
    assert (rewards, ended, cut) == ({"player_0": 2.0}, {"player_0": False}, {"player_0": True})
    assert env.agents == []


def test_an_illegal_answer_among_simultaneous_ones_forfeits_for_the_offender_alone() -> None:
    env = Sums()
    env.reset(seed=0)
    _, rewards, ended, _, infos = env.step({"player_0": "[3]", "player_1": "[2]"})
    assert rewards == {"player_0": -5.0, "player_1": 0.0}
    assert all(ended.values()) and env.agents == []
    assert (infos["player_0"]["legal"], infos["player_1"]["legal"]) == (False, True)


def test_an_illegal_answer_among_simultaneous_ones_can_be_played_at_random_for_a_price() -> None:
    env = Sums(illegal="retry(3), penalty(0.25)")
    env.reset(seed=0)
    _, rewards, ended, _, _ = env.step({"player_1": "[1]", "player_0": "hm"})
    assert rewards["player_1"] in (1.0, 2.0)
    assert rewards["player_0"] == rewards["player_1"] - 0.25
    assert not any(ended.values())


def test_a_seat_that_is_left_out_of_a_conversation_is_silent() -> None:
    env = Chat()
    _, infos = env.reset(seed=0)
    assert infos == {"player_0": {}, "player_1": {}}
    _, _, _, _, infos = env.step({"player_0": "Hello,\n[there]"})
    assert env.said == [{"player_0": "Hello,\n[there]", "player_1": ""}]
    assert infos["player_1"] == {"legal": True, "action": "", "reason": ""}
