"""Whose turn it is, written out by hand."""

from __future__ import annotations

from opentinker.scheduler.schedule import due

ONE, TWO = {"alice": 1, "bob": 1}, {"alice": 1, "bob": 3}


def test_simultaneous_updates_all_at_every_step() -> None:
    assert [due(step, ONE) for step in (1, 2, 3)] == [["alice", "bob"]] * 3


def test_a_policy_of_frequency_three_is_updated_at_every_third_step() -> None:
    found = {step: due(step, TWO) for step in range(1, 8)}
    assert [step for step, names in found.items() if "bob" in names] == [3, 6]
    assert all("alice" in names for names in found.values())


def test_alternating_gives_each_policy_k_steps_while_the_others_stand_still() -> None:
    names = [due(step, ONE, 2) for step in range(1, 10)]
    a, b = ["alice"], ["bob"]
    assert names == [a, a, b, b, a, a, b, b, a]


def test_alternating_counts_a_frequency_in_the_policys_own_steps() -> None:
    names = [due(step, {"alice": 1, "bob": 3}, 2) for step in range(1, 13)]
    a, b = ["alice"], ["bob"]
    # bob's own steps are 3, 4, 7, 8, 11, 12: the third and the sixth of them count
    assert names == [a, a, [], [], a, a, b, [], a, a, [], b]
