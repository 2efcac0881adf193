"""OpenSpiel's games by name: exact returns, chance of their own, both kinds, clear refusals."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from pettingzoo import ParallelEnv

from opentinker.envs.kuhn_poker_v0 import CARDS
from opentinker.envs.kuhn_poker_v0 import env as our_kuhn
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import make_env
from opentinker.testing import check_env
from opentinker.view import ask
from opentinker.wrappers.openspiel import REFUSED, load_game, playable
from opentinker.wrappers.spiel_view import name_actions

pyspiel: Any = pytest.importorskip("pyspiel")

QUICK = ("kuhn_poker", "tic_tac_toe", "goofspiel", "pathfinding", "cliff_walking", "matrix_pd")
SUMMED = (
    "2048",
    "backgammon",
    "bargaining",
    "cliff_walking",
    "coin_game",
    "coop_box_pushing",
    "goofspiel",
    "leduc_poker",
    "markov_soccer",
    "negotiation",
    "oh_hell",
    "pathfinding",
    "repeated_leduc_poker",
    "stones_and_gems",
    "tarok",
)


@pytest.mark.parametrize("name", QUICK)
def test_it_keeps_pettingzoos_contract_and_ours(name: str) -> None:
    check_env(partial(make_env, f"openspiel/{name}", max_turns=60, plain=True), games=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(playable()) - {*QUICK, "bridge"}))
def test_every_other_game_that_is_offered_keeps_it(name: str) -> None:
    check_env(partial(make_env, f"openspiel/{name}", max_turns=60, plain=True), games=2)


@pytest.mark.slow
def test_bridge_is_played() -> None:
    """Its double-dummy tables take seconds a deal, too long for the whole of `check_env`."""
    returns = play(make_env("openspiel/bridge"), seed=0)[0]
    assert returns["player_0"] == returns["player_2"] == -returns["player_1"]


def test_what_is_offered_and_what_is_not() -> None:
    every = {kind.short_name for kind in pyspiel.registered_games() if kind.default_loadable}
    assert set(playable()) == every - REFUSED.keys()
    assert len(every) == 113 and len(playable()) == 108


def play(env: Any, seed: int, limit: int = 5000) -> tuple[dict[str, float], Any]:
    """What random legal play pays each seat, summed step by step, and the env at the end."""
    player = random.Random(seed)
    seen = env.reset(seed=seed)
    infos = seen[1] if seen else env.infos
    returns = dict.fromkeys(env.possible_agents, 0.0)
    for _ in range(limit):
        if not env.agents:
            return returns, env
        if isinstance(env, ParallelEnv):
            moves = {seat: player.choice(infos[seat]["legal_actions"]) for seat in env.agents}
            _, paid, _, _, infos = env.step(moves)
        else:
            seat = env.agent_selection
            over = env.terminations[seat] or env.truncations[seat]
            env.step(None if over else player.choice(env.infos[seat]["legal_actions"]))
            paid = {} if over else env.rewards
        for seat, amount in paid.items():
            returns[seat] += amount
    raise AssertionError("it did not end")


@pytest.mark.parametrize("name", SUMMED)
def test_what_is_paid_sums_to_the_returns_of_the_game(name: str) -> None:
    for seed in range(3):
        paid, env = play(make_env(f"openspiel/{name}"), seed)
        assert list(paid.values()) == pytest.approx(env._state.returns(), abs=1e-9)


def test_our_kuhn_poker_is_openspiels_in_every_terminal_history() -> None:
    theirs: Any = load_game("kuhn_poker", {})
    words = {"Pass": ("check", "fold"), "Bet": ("bet", "call")}
    ends = 0

    def walk(state: Any, ours: Any, played: list[str]) -> None:
        nonlocal ends
        if state.is_terminal():
            ends += 1
            assert list(ours.rewards.values()) == state.returns()
            assert all(ours.terminations.values())
            return
        player = state.current_player()
        seat = f"player_{player}"
        assert ours.agent_selection == seat
        legal = ours.infos[seat]["legal_actions"]
        actions = state.legal_actions()
        assert len(legal) == len(actions)
        for number in actions:
            [name] = set(words[state.action_to_string(player, number)]) & set(legal)
            after = copy.deepcopy(ours)
            after.step(name)
            walk(state.child(number), after, [*played, name])

    for deal in permutations(range(3), 2):
        state, ours = theirs.new_initial_state(), our_kuhn()
        for card in deal:
            state.apply_action(card)
        ours.reset(options={"deal": [CARDS[card] for card in deal]})
        walk(state, ours, [])
    assert ends == 30


def test_a_seat_is_told_what_it_knows_and_what_it_may_answer() -> None:
    env: Any = make_env("openspiel/tic_tac_toe", plain=True)
    env.reset(seed=0)
    env.step("[x(1,1)]")
    assert env.observe("player_1").startswith("Tic Tac Toe. You are player_1.\n...\n.x.\n...\n")
    assert env.observe("player_1").count("[o(") == 8
    assert env.observe("player_0").endswith("player_1 is to move.")
    assert env.infos["player_1"]["infostate"] == "player_1|4"


def test_the_end_is_told_to_each() -> None:
    env: Any = make_env("openspiel/matrix_pd", plain=True)
    env.reset(seed=0)
    seen, paid, ended, *_ = env.step({"player_0": "Cooperate", "player_1": "[Defect]"})
    assert paid == {"player_0": 0.0, "player_1": 10.0}
    assert all(ended.values())
    assert seen["player_1"].endswith("The game is over. You got 10.")


def test_chance_is_the_seeds_and_not_every_game_is_alike() -> None:
    for name in ("leduc_poker", "negotiation", "bridge_uncontested_bidding"):
        env: Any = make_env(f"openspiel/{name}")
        starts = []
        for seed in (1, 1, 2, 3, 4, 5):
            env.reset(seed=seed)
            starts.append(env.observe(env.agent_selection))
        assert starts[0] == starts[1]
        assert len(set(starts)) > 2


@pytest.mark.parametrize("name", ["backgammon", "negotiation", "goofspiel"])
def test_a_copy_goes_on_as_the_game_does(name: str) -> None:
    env: Any = make_env(f"openspiel/{name}", max_turns=9)
    play(env, 3)
    for again in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert str(again._state) == str(env._state)
        assert play(again, 4)[0] == play(copy.deepcopy(env), 4)[0]


def test_a_turn_limit_truncates() -> None:
    env: Any = make_env("openspiel/chess", max_turns=2, plain=True)
    env.reset(seed=0)
    env.step("[e4]")
    env.step("[e5]")
    assert all(env.truncations.values()) and not any(env.terminations.values())
    assert "cut short after 2 turns" in env.observe("player_0")
    with pytest.raises(ConfigError, match="max_turns=0"):
        make_env("openspiel/chess", max_turns=0)


def test_a_forfeit_costs_the_least_that_the_game_pays_or_what_is_said() -> None:
    for options, cost in (({}, -13.0), ({"worst_reward": 0.0}, 0.0)):
        env: Any = make_env("openspiel/leduc_poker", illegal="forfeit", **options)
        env.reset(seed=0)
        env.step("I don't know")
        assert env.rewards == {"player_0": cost, "player_1": 0.0}


def test_parameters_are_the_games_own() -> None:
    env: Any = make_env("openspiel/kuhn_poker", players=3)
    assert env.possible_agents == ["player_0", "player_1", "player_2"]
    env = make_env("openspiel/misere", game="tic_tac_toe()")
    env.reset(seed=0)
    for number in (0, 3, 1, 4, 2):
        env.step(f"{'x' if number < 3 else 'o'}({number // 3},{number % 3})")
    assert env.rewards == {"player_0": -1.0, "player_1": 1.0}


def test_what_can_not_be_made_is_said_in_words() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'kuhn_poker'"):
        make_env("openspiel/kuhn_pokr")
    with pytest.raises(ConfigError, match="mean-field game"):
        make_env("openspiel/mfg_garnet")
    with pytest.raises(UnknownNameError, match=r"did you mean 'players'"):
        make_env("openspiel/kuhn_poker", player=3)
    with pytest.raises(ConfigError, match="can't be made with"):
        make_env("openspiel/kuhn_poker", players=1)


def test_names_of_actions_are_plain_and_each_another() -> None:
    written = {3: "Bid [1, 2]", 4: "", 5: "a\n b", 6: "a b", 7: ", Say"}
    assert name_actions(written) == {"Bid (1, 2)": 3, "#4": 4, "a b": 5, "a b #6": 6, "Say": 7}


def test_a_long_list_of_answers_is_cut_and_counted() -> None:
    assert ask(dict.fromkeys("ab", 0)) == "Answer one of [a] [b]."
    assert ask({"roll": 0}) == "Answer [roll]."
    assert ask(dict.fromkeys(map(str, range(150)), 0)).endswith("[99] ... (150 in all).")


def test_a_missing_library_is_named_with_the_words_that_install_it() -> None:
    code = (
        "import sys; sys.modules['pyspiel'] = None\n"
        "from opentinker.registry import make_env\n"
        "make_env('openspiel/kuhn_poker')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'opentinker[openspiel]'" in done.stderr.splitlines()[-1]
