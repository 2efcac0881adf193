"""Kuhn poker: payoffs worked by hand, the tree against known values, what the seats are shown."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from opentinker.analysis.solve import exploitability, infostates, nash_conv, uniform, values
from opentinker.envs.kuhn_poker_v0 import CARDS, env, equilibrium, game_tree, weak_play
from opentinker.errors import ConfigError
from opentinker.game import Chance, Decision, Node, Terminal
from opentinker.testing import check_env

FACTS = json.loads((Path(__file__).parents[1] / "cases" / "games.json").read_text())["kuhn_poker"]

ENDS = [
    (["check", "check"], "higher card", 1.0),
    (["bet", "call"], "higher card", 2.0),
    (["check", "bet", "call"], "higher card", 2.0),
    (["bet", "fold"], "player_0", 1.0),
    (["check", "bet", "fold"], "player_1", 1.0),
]


def test_it_keeps_pettingzoos_contract_and_ours() -> None:
    check_env("kuhn_poker_v0", games=20)


@pytest.mark.parametrize("cards", list(permutations("JQK", 2)))
@pytest.mark.parametrize(("betting", "wins", "chips"), ENDS)
def test_each_end_pays_what_the_rules_say(
    cards: tuple[str, str], betting: list[str], wins: str, chips: float
) -> None:
    game = env()
    game.reset(options={"deal": list(cards)})
    for turn, action in enumerate(betting):
        assert game.agent_selection == f"player_{turn % 2}"
        game.step(f"[{action}]")
    first = "JQK".index(cards[0]) > "JQK".index(cards[1]) if wins == "higher card" else None
    winner = wins if first is None else "player_0" if first else "player_1"
    loser = {"player_0": "player_1", "player_1": "player_0"}[winner]
    assert game.rewards == {winner: chips, loser: -chips}
    assert all(game.terminations.values())
    assert f"{winner} wins {chips:.0f}" in game.observe(loser)


def test_a_seat_sees_its_card_the_betting_and_its_actions_and_not_the_other_card() -> None:
    game = env()
    game.reset(options={"deal": ["K", "J"]})
    assert game.observe("player_0") == (
        "Kuhn poker. Cards J < Q < K. You are player_0. Your card: K. Betting so far: none. "
        "Answer [check] or [bet]."
    )
    game.step("[bet]")
    assert game.observe("player_1") == (
        "Kuhn poker. Cards J < Q < K. You are player_1. Your card: J. Betting so far: "
        "player_0 bet. Answer [fold] or [call]."
    )
    assert game.infos["player_1"]["infostate"] == "J:bet"


def test_folded_cards_are_not_shown() -> None:
    game = env()
    game.reset(options={"deal": ["K", "J"]})
    game.step("bet")
    game.step("fold")
    assert "J" not in game.observe("player_0").replace("J < Q", "")


def test_deals_follow_the_seed_and_all_six_come() -> None:
    game = env()
    deals = set()
    for seed in range(60):
        game.reset(seed=seed)
        first = game.cards
        game.reset(seed=seed)
        assert game.cards == first
        deals.add(first)
    assert deals == set(permutations(CARDS, 2))


@pytest.mark.parametrize("deal", [["J", "J"], ["A", "J"], ["J"], "JQK"])
def test_an_impossible_deal_is_refused(deal: Any) -> None:
    with pytest.raises(ConfigError, match="two different cards"):
        env().reset(options={"deal": deal})


def test_a_forfeit_costs_two_chips() -> None:
    game = env()
    game.reset(seed=0)
    game.step("I fold")
    assert game.agent_selection == "player_0"
    game.step("[fold]")
    assert game.rewards == {"player_0": -2.0, "player_1": 0.0}


def test_the_tree_is_the_env_played_in_all_ways() -> None:
    def walk(node: Node, cards: tuple[str, str], played: list[str]) -> int:
        game = env()
        game.reset(options={"deal": cards})
        for action in played:
            game.step(action)
        if isinstance(node, Terminal):
            assert game.rewards == node.returns
            return 1
        assert isinstance(node, Decision)
        info = game.infos[node.seat]
        assert game.agent_selection == node.seat
        assert (info["infostate"], info["legal_actions"]) == (node.infostate, list(node.children))
        return sum(walk(child, cards, [*played, a]) for a, child in node.children.items())

    tree = game_tree()
    assert isinstance(tree, Chance)
    deals = list(permutations("JQK", 2))
    assert sum(
        walk(child, deal, []) for (_, child), deal in zip(tree.children, deals, strict=True)
    ) == 6 * len(ENDS)


def test_the_tree_has_the_known_values() -> None:
    tree = game_tree()
    assert len(infostates(tree)) == FACTS["uniform_policy"]["infostates"]
    assert nash_conv(tree, uniform(tree)) == pytest.approx(FACTS["uniform_policy"]["nash_conv"])


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3])
def test_the_whole_family_is_in_equilibrium_and_worth_the_known_value(alpha: float) -> None:
    table = equilibrium(alpha)
    assert exploitability(game_tree(), table) == pytest.approx(0.0, abs=1e-12)
    value = values(game_tree(), table)["player_0"]
    assert value == pytest.approx(FACTS["game_value_player_0"], abs=1e-12)
    assert table["J"]["bet"] == alpha
    assert table["K"]["bet"] == 3 * alpha
    assert table["Q:check-bet"]["call"] == alpha + 1 / 3


def test_an_alpha_outside_the_family_is_refused() -> None:
    with pytest.raises(ConfigError, match="alpha"):
        equilibrium(0.5)


def test_weak_play_is_exploitable_by_a_sixth_of_a_chip() -> None:
    table = weak_play()
    assert set(table) == set(infostates(game_tree()))
    assert table["J:check-bet"] == {"fold": 0.75, "call": 0.25}
    assert table["K"] == {"check": 0.25, "bet": 0.75}
    assert exploitability(game_tree(), table) == pytest.approx(1 / 6, abs=1e-12)
