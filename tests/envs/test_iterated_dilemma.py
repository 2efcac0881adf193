"""The iterated prisoner's dilemma: payoffs by hand, what is shown, what makes no dilemma."""

from __future__ import annotations

from typing import Any

import pytest

from opentinker.envs.iterated_dilemma_v0 import parallel_env
from opentinker.errors import ConfigError
from opentinker.registry import make_env
from opentinker.testing import check_env

NAMES = {"C": "cooperate", "D": "defect"}


def play(first: str, second: str, **options: Any) -> tuple[Any, Any, list[tuple[float, float]]]:
    """The env after these choices, what it last gave, and what it paid each round."""
    game = parallel_env(**options)
    game.reset(seed=0)
    last, paid = None, []
    for mine, yours in zip(first, second, strict=True):
        last = game.step({"player_0": f"[{NAMES[mine]}]", "player_1": NAMES[yours]})
        paid.append((last[1]["player_0"], last[1]["player_1"]))
    return game, last, paid


def test_it_keeps_pettingzoos_contract_and_ours() -> None:
    check_env("iterated_dilemma_v0", games=20)


def test_a_round_pays_what_the_matrix_says() -> None:
    _, _, paid = play("CCDD", "CDCD", rounds=4)
    assert paid == [(3.0, 3.0), (0.0, 5.0), (5.0, 0.0), (1.0, 1.0)]


def test_the_payoffs_can_be_others() -> None:
    harsh: dict[str, Any] = {"temptation": 1.5, "reward": 1.0, "punishment": -1.0, "sucker": -2.0}
    _, _, paid = play("CCDD", "CDCD", rounds=4, **harsh)
    assert paid == [(1.0, 1.0), (-2.0, 1.5), (1.5, -2.0), (-1.0, -1.0)]


def test_the_last_round_is_the_end_by_the_rules() -> None:
    game, (seen, _, ended, cut, _), _ = play("CCCCC", "DDDDD")
    assert ended == {"player_0": True, "player_1": True}
    assert not any(cut.values())
    assert game.agents == []
    assert seen["player_0"].endswith("The game is over.")
    _, (_, _, ended, _, _), _ = play("CCCC", "DDDD")
    assert not any(ended.values())


def test_each_seat_sees_the_payoffs_and_all_rounds_from_its_side() -> None:
    _, (seen, _, _, _, infos), _ = play("CD", "DD", rounds=3)
    assert seen["player_0"] == (
        "Prisoner's dilemma. You are player_0. Paid: cooperate cooperate 3, cooperate defect 0, "
        "defect cooperate 5, defect defect 1. Round 1: you cooperate, they defect. "
        "Round 2: you defect, they defect. Round 3 of 3: Answer [cooperate] or [defect]."
    )
    assert "Round 1: you defect, they cooperate." in seen["player_1"]
    assert infos["player_0"]["infostate"] == "player_0:3:cooperate-defect:defect-defect"
    assert infos["player_1"]["infostate"] == "player_1:3:defect-cooperate:defect-defect"
    assert infos["player_0"]["legal_actions"] == ["cooperate", "defect"]


@pytest.mark.parametrize(
    ("memory", "shown", "infostate"),
    [
        (0, [], "player_0:4"),
        (1, [3], "player_0:4:defect-cooperate"),
        (2, [2, 3], "player_0:4:cooperate-defect:defect-cooperate"),
        (9, [1, 2, 3], "player_0:4:cooperate-cooperate:cooperate-defect:defect-cooperate"),
    ],
)
def test_memory_shows_the_last_rounds_only(memory: int, shown: list[int], infostate: str) -> None:
    _, (seen, _, _, _, infos), _ = play("CCD", "CDC", memory=memory)
    assert [k for k in range(1, 5) if f"Round {k}: you" in seen["player_0"]] == shown
    assert infos["player_0"]["infostate"] == infostate


def test_a_forfeit_costs_more_than_being_the_sucker_to_the_end() -> None:
    usual: dict[str, Any] = {}
    harsh: dict[str, Any] = {"temptation": 1.5, "reward": 1.0, "punishment": -1.0, "sucker": -2.0}
    for rounds, payoffs, least in ((5, usual, -1.0), (3, harsh, -7.0)):
        game = parallel_env(rounds=rounds, **payoffs)
        game.reset(seed=0)
        seen, paid, ended, _, _ = game.step({"player_0": "I pass", "player_1": "defect"})
        assert paid == {"player_0": least, "player_1": 0.0}
        assert all(ended.values())
        assert seen["player_1"].endswith("The game is over.")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 0}, "rounds=0; at least 1"),
        ({"memory": -1}, "memory=-1; at least 0"),
        ({"temptation": 3.0}, "temptation=3.0, reward=3.0"),
        ({"punishment": 3.5}, "T > R > P > S"),
        ({"sucker": 1.0}, "sucker=1.0"),
        ({"temptation": 6.0}, "2R > T"),
        ({"reward": float("nan")}, "reward=nan"),
    ],
)
def test_what_makes_no_dilemma_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_env("iterated_dilemma_v0", **options)
