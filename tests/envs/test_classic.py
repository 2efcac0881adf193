"""PettingZoo's own envs behind a view: whole games by hand, conformance, names of actions."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from gymnasium.spaces import Box, Discrete, Space
from pettingzoo import AECEnv

from opentinker.analysis.solve import exploitability, nash_conv
from opentinker.envs.rps_v2 import equilibrium, game_tree
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import make_env
from opentinker.testing import check_env
from opentinker.view import PlainView, ViewedEnv, compact

FACTS = json.loads((Path(__file__).parents[1] / "cases" / "games.json").read_text())


@pytest.mark.parametrize(
    "name",
    [
        "tictactoe_v3",
        "connect_four_v3",
        "rps_v2",
        "pettingzoo/classic/leduc_holdem-v4",
        "pettingzoo/classic/texas_holdem_v4",
    ],
)
def test_it_keeps_pettingzoos_contract_and_ours(name: str) -> None:
    check_env(name)


def play(name: str, moves: str) -> Any:
    env: Any = make_env(name)
    env.reset(seed=0)
    for move in moves:
        assert not any(env.terminations.values())
        env.step(f"[{move}]")
    return env


@pytest.mark.parametrize(
    ("moves", "returns", "board"),
    [
        ("14253", {"player_1": 1.0, "player_2": -1.0}, "X X X\nO O 6\n7 8 9"),
        ("124598", {"player_1": -1.0, "player_2": 1.0}, "X O 3\nX O 6\n7 O X"),
        ("132465789", {"player_1": 0.0, "player_2": 0.0}, "X X O\nO O X\nX O X"),
    ],
)
def test_tic_tac_toe_by_hand(moves: str, returns: dict[str, float], board: str) -> None:
    env = play("tictactoe_v3", moves)
    assert env.rewards == returns
    assert all(env.terminations.values())
    assert board in env.observe("player_1")


def test_a_taken_cell_is_not_legal_and_asked_again() -> None:
    env = play("tictactoe_v3", "5")
    assert env.infos["player_2"]["legal_actions"] == list("12346789")
    assert env.infos["player_2"]["infostate"] == "....X...."
    env.step("[5]")
    assert env.agent_selection == "player_2"
    assert env.observe("player_2").startswith("not legal now: [5]")
    env.step("[5]")
    assert env.rewards == {"player_1": 0.0, "player_2": -1.0}


def test_connect_four_by_hand() -> None:
    env = play("connect_four_v3", "1213141")
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert "X . . . . . .\n" * 3 + "X O O O . . ." in env.observe("player_0")
    env = play("connect_four_v3", "777777")
    assert env.infos["player_0"]["legal_actions"] == list("123456")


def test_a_round_of_rock_paper_scissors_ends_by_the_rules_and_pays_the_winner() -> None:
    names = ("rock", "paper", "scissors")
    for i, mine in enumerate(names):
        for j, yours in enumerate(names):
            env: Any = make_env("rps_v2")
            env.reset(seed=0)
            _, paid, ended, cut, _ = env.step({"player_0": mine, "player_1": f"[{yours}]"})
            first = 0.0 if i == j else 1.0 if (i, j) in ((0, 2), (1, 0), (2, 1)) else -1.0
            assert paid == {"player_0": first, "player_1": -first}
            assert all(ended.values()) and not any(cut.values())
            leaf = game_tree().children[mine].children[yours]  # type: ignore[union-attr]
            assert leaf.returns == paid  # type: ignore[union-attr]


def test_rounds_are_told_and_named() -> None:
    env: Any = make_env("rps_v2", rounds=2)
    env.reset(seed=0)
    seen, _, ended, _, infos = env.step({"player_0": "rock", "player_1": "paper"})
    assert not any(ended.values())
    assert "Round 1: you chose rock, player_1 chose paper" in seen["player_0"]
    assert infos["player_1"]["infostate"] == "player_1:paper-rock"
    with pytest.raises(ConfigError, match="rounds=0"):
        make_env("rps_v2", rounds=0)


def test_the_tree_of_rock_paper_scissors_has_the_known_values() -> None:
    rock = {"rock": 1.0}
    third = equilibrium()["player_0"]
    plays = {"always rock": rock, "uniform": third}
    for case in FACTS["rock_paper_scissors"]["cases"]:
        table = {seat: plays[case[seat]] for seat in ("player_0", "player_1")}
        assert nash_conv(game_tree(), table) == pytest.approx(case["nash_conv"], abs=1e-12)
        assert exploitability(game_tree(), table) == pytest.approx(case["exploitability"])


@pytest.mark.parametrize("again", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_foreign_env_is_copied_in_the_middle_of_a_game(again: Any) -> None:
    env = play("connect_four_v3", "4453")
    other = again(env)
    assert other.observe("player_0") == env.observe("player_0")
    env.step("7")
    assert other.observe("player_0") != env.observe("player_0")


def test_chess_is_played_by_number() -> None:
    env: Any = make_env("pettingzoo/classic/chess-v6", illegal="random")
    env.reset(seed=0)
    assert len(env.infos["player_0"]["legal_actions"]) == 20
    assert "plane 6: all 1" in env.observe("player_0")
    env.step("e4")
    assert env.agent_selection == "player_1"
    assert len(env.infos["player_1"]["legal_actions"]) == 20


def test_arrays_are_written_short() -> None:
    assert compact([0, 1, 2]) == "[0 1 2]"
    assert compact([0] * 70 + [1, 3]) == "not 0: 70 71=3"
    assert compact([[[0]] * 2] * 3) == "[[[0]\n  [0]]\n\n [[0]\n  [0]]\n\n [[0]\n  [0]]]"
    assert len(compact(range(5000), limit=100)) < 140


def test_an_unknown_pettingzoo_name_lists_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'classic/chess-v6'"):
        make_env("pettingzoo/classic/ches-v6")


class Leaving(AECEnv):
    """A foreign env whose seats end at different times: seat k leaves with its action, paid k."""

    def __init__(self, space: Space[Any]) -> None:
        self.metadata = {"name": "leaving_v0"}
        self.possible_agents = ["player_0", "player_1", "player_2"]
        self.space = space

    def observation_space(self, agent: str) -> Space[Any]:
        return self.space

    def action_space(self, agent: str) -> Space[Any]:
        return self.space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents = self.possible_agents[:]
        self.rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {seat: {} for seat in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> list[int]:
        return [int(seat in self.agents) for seat in self.possible_agents]

    def step(self, action: int | None) -> None:
        seat = self.agent_selection
        if self.terminations[seat]:
            self._was_dead_step(action)
            return
        self._clear_rewards()
        self._cumulative_rewards[seat] = 0.0
        if action == 1:
            self.rewards[seat] = float(seat[-1])
            self.terminations[seat] = True
        self._accumulate_rewards()
        order = [each for each in self.agents if not self.terminations[each]]
        later = [each for each in order if each > seat]
        if order:
            self.agent_selection = (later or order)[0]
        self._deads_step_first()


def leaving() -> ViewedEnv:
    return ViewedEnv(partial(Leaving, Discrete(2)), PlainView(), words=("0", "1"))


def test_a_foreign_env_whose_seats_end_at_different_times_is_followed() -> None:
    check_env(leaving)
    env = leaving()
    env.reset(seed=0)
    asked, paid = [], dict.fromkeys(env.possible_agents, 0.0)
    for answer in "01011":
        while env.terminations[env.agent_selection]:
            env.step(None)
        asked.append(env.agent_selection[-1])
        env.step(answer)
        for seat, amount in env.rewards.items():
            paid[seat] += amount
    assert "".join(asked) == "01202"
    assert paid == {"player_0": 0.0, "player_1": 1.0, "player_2": 2.0}


def test_a_foreign_env_without_numbered_actions_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="takes numbered ones"):
        ViewedEnv(partial(Leaving, Box(0, 1)), PlainView())


def test_missing_packages_are_named() -> None:
    code = (
        "import sys; sys.modules['pygame'] = None\n"
        "from opentinker.registry import make_env\n"
        "make_env('tictactoe_v3')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'opentinker[classic]'" in done.stderr.splitlines()[-1]
