"""The estimators that tell the turns of one play apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from opentinker.experience import credit
from opentinker.types import Play

CASES = json.loads((Path(__file__).parents[1] / "cases" / "credit.json").read_text())


def play(
    *rewards: float,
    group: str = "g",
    seat: str = "player_0",
    env: str = "e",
    prompts: tuple[int, ...] | None = None,
) -> Play:
    turns = len(rewards)
    digests = tuple(range(turns)) if prompts is None else prompts
    array = np.array(rewards, dtype=np.float64)
    return Play("e1", group, env, seat, "alice", array, ("move",) * turns, digests)


def random_plays(seed: int, count: int = 12) -> list[Play]:
    generator = np.random.default_rng(seed)
    return [
        play(*generator.normal(size=generator.integers(1, 6)), seat=f"player_{n % 2}")
        for n in range(count)
    ]


def test_return_to_go_is_the_one_worked_by_hand() -> None:
    case = CASES["return_to_go"]
    estimator = credit.make("return_to_go", gamma=case["gamma"])
    (found,) = estimator.advantages([play(*case["turn_rewards"])]).advantages
    assert found == pytest.approx(case["returns"], abs=1e-12)


def test_return_to_go_is_the_discounted_sum() -> None:
    for gamma in (0.0, 0.3, 1.0):
        for each in random_plays(0):
            estimator = credit.make("return_to_go", gamma=gamma)
            (found,) = estimator.advantages([each]).advantages
            turns = len(each.rewards)
            brute = [
                sum(gamma ** (j - k) * each.rewards[j] for j in range(k, turns))
                for k in range(turns)
            ]
            assert found == pytest.approx(brute, abs=1e-12)


def test_a_baseline_a_turn_is_read_before_it_is_updated() -> None:
    """Returns-to-go 3, 1; then 1, 1; player_1 and another env have baselines of their own."""
    estimator = credit.make("return_to_go", baseline=True)
    plays = [play(2.0, 1.0), play(9.0, seat="player_1"), play(9.0, env="f"), play(0.0, 1.0)]
    found = estimator.advantages(plays).advantages
    assert found[0] == pytest.approx([3.0, 1.0])
    assert found[3] == pytest.approx([1.0 - 0.15, 1.0 - 0.05])
    (later,) = estimator.advantages([play(0.0, 0.0)]).advantages
    assert later == pytest.approx([-(0.95 * 0.15 + 0.05), -(0.95 * 0.05 + 0.05)])


def test_saved_baselines_a_turn_go_on_as_if_they_had_not_stopped() -> None:
    whole, first, second = (credit.make("return_to_go", baseline=True) for _ in range(3))
    whole.advantages(random_plays(1))
    first.advantages(random_plays(1))
    second.load(json.loads(json.dumps(first.state())))
    one, two = (each.advantages(random_plays(2)).advantages for each in (whole, second))
    assert [a.tolist() for a in one] == [b.tolist() for b in two]
    assert whole.state() == second.state()


def test_the_rewards_given_are_left_as_they_are() -> None:
    for name in ("return_to_go", "global_norm", "turn_level"):
        given = play(1.0, 2.0)
        credit.make(name).advantages([given])
        assert given.rewards.tolist() == [1.0, 2.0]


def test_turns_are_compared_with_the_same_turn_of_the_same_seat_as_worked_by_hand() -> None:
    """The case: player_0's turn 0 twice, its turn 1 once."""
    case = CASES["turn_level_group"]["groups"]
    found = credit.make("turn_level").advantages([play(0.0, 1.0), play(-1.0)])
    assert [each[0] for each in found.advantages] == case["player_0/turn 0"]["advantages"]
    assert found.advantages[0][1:].tolist() == case["player_0/turn 1"]["advantages"]
    assert found.metrics == {"groups": 2, "constant_groups": 1}


def test_turns_after_different_prompts_are_never_compared_unless_asked() -> None:
    """Turn 1 was asked after 7 twice, after 8 once; its returns are 4, 2 and -6."""
    plays = [
        play(0.0, 4.0, prompts=(5, 7)),
        play(0.0, -6.0, prompts=(5, 8)),
        play(0.0, 2.0, prompts=(5, 7)),
    ]
    found = credit.make("turn_level", std=False).advantages(plays)
    assert [each.tolist() for each in found.advantages] == [[4.0, 1.0], [-6.0, 0.0], [2.0, -1.0]]
    assert found.metrics == {"groups": 3, "constant_groups": 1}
    mixed = credit.make("turn_level", std=False, same_prompt=False).advantages(plays)
    assert [each.tolist() for each in mixed.advantages] == [[4.0, 4.0], [-6.0, -6.0], [2.0, 2.0]]
    assert mixed.metrics == {"groups": 2, "constant_groups": 0}


def test_turn_groups_never_mix_starts_seats_or_turn_indices() -> None:
    """One digest everywhere, so that nothing but start, seat and index keeps them apart."""
    plays = [
        play(1.0, 1.0, prompts=(3, 3)),
        play(5.0, seat="player_1", prompts=(3,)),
        play(7.0, group="h", prompts=(3,)),
    ]
    found = credit.make("turn_level").advantages(plays)
    assert [each.tolist() for each in found.advantages] == [[0.0, 0.0], [0.0], [0.0]]
    assert found.metrics == {"groups": 4, "constant_groups": 4}


def test_turn_level_discounts_what_comes_later() -> None:
    plays = [play(0.0, 2.0), play(0.0, 0.0)]
    found = credit.make("turn_level", gamma=0.5, std=False).advantages(plays)
    assert found.advantages[0] == pytest.approx([0.5, 1.0])


def test_turn_level_with_one_turn_a_play_is_group_relative() -> None:
    totals = CASES["group_relative"]["rewards"]
    found = credit.make("turn_level").advantages([play(total) for total in totals])
    expected = CASES["group_relative"]["advantages"]
    assert np.concatenate(found.advantages) == pytest.approx(expected, abs=1e-12)


def test_turn_level_needs_digests_to_tell_prompts_apart() -> None:
    with pytest.raises(ValueError, match="episode 'e1' has 0 digests of prompts for 2 turns"):
        credit.make("turn_level").advantages([play(1.0, 2.0, prompts=())])
    credit.make("turn_level", same_prompt=False).advantages([play(1.0, 2.0, prompts=())])


def test_global_norm_standardizes_over_all_turns_of_the_update() -> None:
    """Returns-to-go 3, 1 and -1 of two plays and seats: mean 1, variance 8 / 3."""
    plays = [play(2.0, 1.0), play(-1.0, group="h", seat="player_1")]
    found = credit.make("global_norm").advantages(plays)
    scale = (3 / 8) ** 0.5
    assert found.advantages[0] == pytest.approx([2.0 * scale, 0.0])
    assert found.advantages[1] == pytest.approx([-2.0 * scale])


def test_global_norm_has_mean_0_and_std_1() -> None:
    for seed in range(20):
        found = credit.make("global_norm", gamma=0.7).advantages(random_plays(seed))
        together = np.concatenate(found.advantages)
        assert together.mean() == pytest.approx(0.0, abs=1e-12)
        assert together.std() == pytest.approx(1.0)


def test_global_norm_of_equal_returns_is_0() -> None:
    found = credit.make("global_norm").advantages([play(0.3), play(0.1 + 0.2)])
    assert [each.tolist() for each in found.advantages] == [[0.0], [0.0]]


@pytest.mark.parametrize("name", ["turn_level", "return_to_go", "global_norm"])
def test_every_turn_has_an_advantage_of_its_own(name: str) -> None:
    plays = random_plays(3)
    found = credit.make(name).advantages(plays)
    assert [each.shape for each in found.advantages] == [each.rewards.shape for each in plays]
    assert all(each.dtype == np.float64 for each in found.advantages)
    assert found.targets is None
