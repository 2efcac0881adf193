from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opentinker.errors import EnvironmentFault
from opentinker.rewards import RewardLedger

CASE = json.loads((Path(__file__).parent / "cases" / "credit.json").read_text())["turn_rewards"]


def test_rewards_between_turns_belong_to_the_last_turn() -> None:
    ledger = RewardLedger(("a", "b"))
    for move in CASE["moves"]:
        ledger.turn(move["seat"])
        ledger.pay(move["rewards"])
    known: dict[str, list[float]] = {"a": [], "b": []}
    for turn in CASE["turns"]:
        known[turn["seat"]].append(turn["reward"])
    assert {seat: ledger.rewards(seat) for seat in known} == known
    assert ledger.returns() == CASE["returns"]


def test_turns_are_counted_by_seat() -> None:
    ledger = RewardLedger(("a", "b"))
    assert [ledger.turn("a"), ledger.turn("b"), ledger.turn("a")] == [0, 0, 1]


def test_a_reward_before_the_first_turn_is_kept_for_it() -> None:
    ledger = RewardLedger(("a", "b"))
    ledger.pay({"b": 0.5})
    assert ledger.returns() == {"a": 0.0, "b": 0.5}
    ledger.turn("b")
    ledger.pay({"b": 1.0})
    assert ledger.rewards("b") == [1.5]
    assert ledger.returns() == {"a": 0.0, "b": 1.5}


def test_a_seat_that_ended_early_is_still_paid_for_its_last_turn() -> None:
    """a is out after one move, b plays on, and the pot is paid at the end."""
    ledger = RewardLedger(("a", "b"))
    ledger.turn("a")
    ledger.pay({"a": -1.0, "b": 0.0})
    for _ in range(2):
        ledger.turn("b")
        ledger.pay({"b": 1.0})
    ledger.pay({"a": -2.0, "b": 3.0})
    assert ledger.rewards("a") == [-3.0]
    assert ledger.rewards("b") == [1.0, 4.0]
    assert ledger.returns() == {"a": -3.0, "b": 5.0}


def test_turn_rewards_sum_to_the_return_exactly() -> None:
    ledger = RewardLedger(("a",))
    for reward in np.random.default_rng(0).normal(size=200):
        if reward > 0:
            ledger.turn("a")
        ledger.pay({"a": reward})
    assert sum(ledger.rewards("a")) == ledger.returns()["a"]


@pytest.mark.parametrize("number", [2, np.float32(2), np.int64(2)])
def test_every_kind_of_number_is_a_reward(number: float) -> None:
    ledger = RewardLedger(("a",))
    ledger.turn("a")
    ledger.pay({"a": number})
    assert ledger.rewards("a") == [2.0]
    assert type(ledger.rewards("a")[0]) is float


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "well done", None, np.float32("nan")]
)
def test_a_reward_that_is_no_finite_number_is_a_fault_of_the_env(value: Any) -> None:
    with pytest.raises(EnvironmentFault, match=r"seat 'a'.*a reward is a finite number") as caught:
        RewardLedger(("a",)).pay({"a": value})
    assert repr(value) in str(caught.value)


def test_a_reward_for_an_unknown_seat_is_a_fault_of_the_env() -> None:
    with pytest.raises(EnvironmentFault, match="unknown seat 'c'; the seats are a, b"):
        RewardLedger(("a", "b")).pay({"c": 1.0})
