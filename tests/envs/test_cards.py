"""The card games: what is legal, what is paid, and that nobody sees what is hidden."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from opentinker.errors import ConfigError
from opentinker.registry import make_env
from opentinker.testing import check_env

POKER = ("leduc_holdem_v4", "texas_holdem_v4", "texas_holdem_no_limit_v6")
WORST = {"leduc_holdem_v4": 7.0, "texas_holdem_v4": 25.0, "texas_holdem_no_limit_v6": 100.0}


def start(name: str, seed: int = 0, **options: Any) -> Any:
    env: Any = make_env(name, **options)
    env.reset(seed=seed)
    return env


def step(env: Any, *actions: str) -> None:
    for action in actions:
        env.step(f"[{action}]")


def legal(env: Any) -> set[str]:
    return set(env.infos[env.agent_selection]["legal_actions"])


def random_game(env: Any, seed: int) -> dict[str, float]:
    """What each seat was paid in all."""
    env.reset(seed=seed)
    player, paid = random.Random(seed), dict.fromkeys(env.possible_agents, 0.0)
    while not any(env.terminations.values()):
        step(env, player.choice(env.infos[env.agent_selection]["legal_actions"]))
        assert all(env._read[seat]["legal"] for seat in env.moves[-1])
        for seat, amount in env.rewards.items():
            paid[seat] += amount
    return paid


@pytest.mark.parametrize("name", [*POKER, "hanabi_v5"])
def test_the_card_games_keep_the_contract(name: str) -> None:
    check_env(name)


@pytest.mark.parametrize("name", POKER)
def test_poker_pays_one_what_the_other_loses(name: str) -> None:
    env = start(name)
    for seed in range(200):
        first, second = random_game(env, seed).values()
        assert first == -second and abs(first) <= WORST[name]
        told = re.search(r"you (won|lost) (\S+)", env.observe("player_0"))
        told_amount = 0.0 if told is None or told[2] == "nothing" else float(told[2])
        assert told_amount == pytest.approx(abs(first), rel=1e-5)


def test_leducs_legal_actions_are_those_of_the_rules() -> None:
    env = start("leduc_holdem_v4")
    first = env.agent_selection
    assert legal(env) == {"call", "raise", "fold"}  # 1 chip in against 2
    assert re.search(f"{first} 1\\b", env.observe(first))
    step(env, "raise")
    assert legal(env) == {"call", "raise", "fold"}
    step(env, "raise")
    assert legal(env) == {"call", "fold"}  # two raises a round
    assert "On the table: none yet" in env.observe(first)
    step(env, "call")
    assert legal(env) == {"check", "raise", "fold"}
    assert re.search(r"On the table: [JQK]\.", env.observe(first))
    assert "Chips bet: player_0 6, player_1 6." in env.observe(first)
    step(env, "raise")
    assert {"player_0 6", "player_1 10"} & set(re.findall(r"player_\d \d+", env.observe(first)))
    step(env, "fold")
    assert sorted(env.rewards.values()) == [-3.0, 3.0]  # 6 chips are 3 big blinds


def test_leducs_showdown_is_won_by_a_pair_then_by_the_higher_card() -> None:
    outcomes = set()
    for seed in range(60):
        env = start("leduc_holdem_v4", seed)
        step(env, "call", "check", "check", "check")
        seen = env.observe("player_0")
        mine, theirs = re.findall(r"player_\d had ([JQK])", seen)
        table = re.search(r"On the table: ([JQK])", seen)
        assert table is not None
        strength = [(card == table[1], "JQK".index(card)) for card in (mine, theirs)]
        won = (strength[0] > strength[1]) - (strength[0] < strength[1])
        assert env.rewards == {"player_0": float(won), "player_1": -float(won)}
        outcomes.add((table[1] in (mine, theirs), won))
    assert outcomes >= {(True, 1), (True, -1), (False, 1), (False, -1), (False, 0)}


@pytest.mark.parametrize("name", POKER)
def test_a_hand_is_seen_by_its_holder_only(name: str) -> None:
    env = start(name, 4)
    mine, theirs = (env.observe(seat) for seat in env.possible_agents)
    hand = re.search(r"Your cards: ([^.]*)\.", theirs)
    assert hand is not None
    if name != "leduc_holdem_v4":
        assert not set(hand[1].split()) & set(re.findall(r"[2-9TJQKA][shdc]", mine))
    assert "had" not in mine
    for seat in env.possible_agents:
        assert env.infostate(seat).startswith(seat)


def test_texas_deals_three_then_one_then_one_card() -> None:
    env = start("texas_holdem_v4")
    counts = []
    step(env, "call", "check")
    for _ in range(3):
        table = re.search(r"On the table: ([^.]*)\.", env.observe("player_0"))
        assert table is not None
        counts.append(len(table[1].split()))
        step(env, "check", "check")
    assert counts == [3, 4, 5]
    assert all(env.terminations.values()) and set(env.rewards.values()) <= {-1.0, 0.0, 1.0}


def test_without_limits_all_in_is_for_100_chips() -> None:
    env = start("texas_holdem_no_limit_v6")
    assert legal(env) == {"fold", "call", "pot", "all in"}  # half a pot of 3 would be no raise
    step(env, "all in")
    assert legal(env) == {"fold", "call"}
    step(env, "call")
    assert set(map(abs, env.rewards.values())) <= {0.0, 100.0}
    env = start("texas_holdem_no_limit_v6")
    folder = env.agent_selection
    step(env, "fold")
    assert env.rewards[folder] == -1.0  # the small blind


def test_poker_is_played_by_more_than_two() -> None:
    env = start("texas_holdem_v4", players=4)
    assert len(env.possible_agents) == 4
    assert sum(random_game(env, 3).values()) == pytest.approx(0.0)
    with pytest.raises(ConfigError, match="players is 1"):
        make_env("texas_holdem_v4", players=1)


def test_hanabi_hides_the_own_hand_and_tells_what_was_pointed_out() -> None:
    env = start("hanabi_v5")
    assert "What you know of your cards: 1 ?, 2 ?, 3 ?, 4 ?, 5 ?." in env.observe("player_0")
    hand = re.findall(r"([RYGWB][1-5]) \(knows \?\)", env.observe("player_0"))
    assert len(hand) == 5
    assert not any(action.startswith("discard") for action in legal(env))  # all hints are there
    told = {f"tell player_1 {mark}" for card in hand for mark in card}
    assert legal(env) == told | {f"play {k}" for k in range(1, 6)}
    colour = hand[0][0]
    step(env, f"tell player_1 {colour}")
    known = [f"{k} {colour if c[0] == colour else '?'}" for k, c in enumerate(hand, start=1)]
    assert f"What you know of your cards: {', '.join(known)}." in env.observe("player_1")
    assert "Hints: 7." in env.observe("player_1")
    assert f"Last move: player_0: tell player_1 {colour}." in env.observe("player_1")


def test_hanabi_pays_a_point_for_a_card_that_fits_and_takes_a_life_for_one_that_does_not() -> None:
    fits = misses = 0
    for seed in range(40):
        env = start("hanabi_v5", seed)
        others = re.findall(r"([RYGWB])([1-5]) \(knows", env.observe("player_0"))
        step(env, f"tell player_1 {others[0][0]}", "play 1")
        paid = 1.0 if others[0][1] == "1" else 0.0
        assert env.rewards == {"player_0": paid, "player_1": paid}
        assert f"Lives: {3 if paid else 2}." in env.observe("player_0")
        fits, misses = fits + (paid > 0), misses + (paid == 0)
    assert fits and misses


def test_hanabis_points_are_lost_with_the_last_life() -> None:
    env = start("hanabi_v5", lives=1)
    ended = {"lost": 0, "kept": 0}
    for seed in range(200):
        paid = random_game(env, seed)
        assert paid["player_0"] == paid["player_1"]
        told = re.search(r"over with (\d+) points", env.observe("player_0"))
        assert told is not None and float(told[1]) == paid["player_0"]
        lost = "Lives: 0." in env.observe("player_0")
        assert not lost or paid["player_0"] == 0.0
        ended["lost" if lost else "kept"] += 1
    assert ended["lost"] > 100


def test_hanabi_names_whom_it_tells_among_three() -> None:
    env = start("hanabi_v5", players=3)
    assert {action.split()[1] for action in legal(env) if action.startswith("tell")} == {
        "player_1",
        "player_2",
    }
    step(env, "play 1")
    assert {action.split()[1] for action in legal(env) if action.startswith("tell")} == {
        "player_0",
        "player_2",
    }
