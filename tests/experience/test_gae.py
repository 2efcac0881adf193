from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from opentinker.experience import credit
from opentinker.types import Play

NAN = float("nan")


def play(rewards: list[float], values: list[float] | None) -> Play:
    found = None if values is None else np.array(values, dtype=np.float64)
    array = np.array(rewards, dtype=np.float64)
    return Play("e1", "g", "e", "player_0", "alice", array, ("move",) * len(array), (), found)


def gae(
    rewards: list[float], values: list[float], **options: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    found = credit.make("gae", normalize=False, **options).advantages([play(rewards, values)])
    assert found.targets is not None
    return found.advantages[0], found.targets[0]


def brute(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """The sum over l of (gamma * lam)^l * delta_(k+l), term by term."""
    ahead = [*values[1:], 0.0]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards, ahead, values, strict=True)]
    turns = range(len(rewards))
    return [sum((gamma * lam) ** (j - k) * deltas[j] for j in turns if j >= k) for k in turns]


def cut(
    rewards: list[float], values: list[float], **options: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """As `gae`, of a play that was truncated."""
    estimator = credit.make("gae", normalize=False, **options)
    found = estimator.advantages([replace(play(rewards, values), truncated=True)])
    assert found.targets is not None
    return found.advantages[0], found.targets[0]


def random_case(seed: int) -> tuple[list[float], list[float]]:
    generator = np.random.default_rng(seed)
    turns = int(generator.integers(1, 9))
    return generator.normal(size=turns).tolist(), generator.normal(size=turns).tolist()


def test_the_advantages_are_those_worked_by_hand() -> None:
    """gamma = lam = 1/2. Deltas: 1 + 1/2 * 4 - 2 = 1; 0 + 1/2 * 2 - 4 = -3; 6 - 2 = 4.

    A_2 = 4; A_1 = -3 + 4 / 4 = -2; A_0 = 1 - 2 / 4 = 1/2. Targets: A + V.
    """
    advantages, targets = gae([1.0, 0.0, 6.0], [2.0, 4.0, 2.0], gamma=0.5, lam=0.5)
    assert advantages.tolist() == [0.5, -2.0, 4.0]
    assert targets.tolist() == [2.5, 2.0, 6.0]


def test_the_advantages_are_the_double_sum_of_the_paper() -> None:
    for seed in range(50):
        rewards, values = random_case(seed)
        gamma, lam = np.random.default_rng(seed + 1000).uniform(size=2)
        advantages, targets = gae(rewards, values, gamma=gamma, lam=lam)
        assert advantages == pytest.approx(brute(rewards, values, gamma, lam), abs=1e-12)
        assert targets == pytest.approx(advantages + values, abs=1e-12)


def test_the_defaults_are_gamma_1_and_lambda_0_95() -> None:
    rewards, values = random_case(5)
    assert gae(rewards, values)[0] == pytest.approx(brute(rewards, values, 1.0, 0.95))


def test_lambda_1_is_the_return_to_go_less_the_value() -> None:
    for seed in range(20):
        rewards, values = random_case(seed)
        advantages, targets = gae(rewards, values, gamma=0.9, lam=1.0)
        turns = len(rewards)
        returns = [sum(0.9 ** (j - k) * rewards[j] for j in range(k, turns)) for k in range(turns)]
        assert advantages == pytest.approx(np.array(returns) - values, abs=1e-12)
        assert targets == pytest.approx(returns, abs=1e-12)


def test_lambda_0_is_the_error_of_one_step() -> None:
    for seed in range(20):
        rewards, values = random_case(seed)
        expected = np.array(rewards) + 0.9 * np.array([*values[1:], 0.0]) - values
        assert gae(rewards, values, gamma=0.9, lam=0.0)[0] == pytest.approx(expected, abs=1e-12)


def test_a_truncated_play_goes_on_at_its_last_value_as_worked_by_hand() -> None:
    """gamma = lam = 1/2. Deltas: 1 and -3 as above; 6 + 1/2 * 2 - 2 = 5, where an end gives 4.

    A_2 = 5; A_1 = -3 + 5 / 4 = -7/4; A_0 = 1 - 7/4 / 4 = 9/16.
    """
    advantages, targets = cut([1.0, 0.0, 6.0], [2.0, 4.0, 2.0], gamma=0.5, lam=0.5)
    assert advantages.tolist() == [0.5625, -1.75, 5.0]
    assert targets.tolist() == [2.5625, 2.25, 7.0]


def test_a_cut_after_turns_without_a_value_is_as_worked_by_hand() -> None:
    """gamma = 1/2; turn 0 lasts two turns: 1 + 4 / 2 + V_0 / 4 - V_0 = 3 + 1/2 - 2."""
    advantages, targets = cut([1.0, 4.0], [2.0, NAN], gamma=0.5)
    assert advantages.tolist() == [1.5, 0.0]
    assert targets[0] == 3.5 and np.isnan(targets[1])
    assert cut([1.0], [NAN])[0].tolist() == [0.0]


def test_to_be_cut_while_nothing_happens_is_no_loss_and_no_gain() -> None:
    """An end at which nothing is paid is one: what was expected did not come."""
    assert cut([0.0, 0.0], [0.5, 0.5], lam=1.0)[0].tolist() == [0.0, 0.0]
    assert gae([0.0, 0.0], [0.5, 0.5], lam=1.0)[0].tolist() == [-0.5, -0.5]


def test_a_turn_without_a_value_is_passed_over_as_worked_by_hand() -> None:
    """gamma = lam = 1/2; turn 1 has no value, so turn 0 lasts two turns.

    A_2 = 6 - 2 = 4. Turn 0: rewards 1 + 4 / 2 = 3, then V_2 / 4 = 1/2: delta = 3 + 1/2 - 2 = 3/2;
    A_0 = 3/2 + 1/4 * 1/2 * 4 = 2.
    """
    advantages, targets = gae([1.0, 4.0, 6.0], [2.0, NAN, 2.0], gamma=0.5, lam=0.5)
    assert advantages.tolist() == [2.0, 0.0, 4.0]
    assert targets[[0, 2]].tolist() == [4.0, 6.0]
    assert np.isnan(targets[1])


def test_turns_without_values_leave_returns_to_go_as_they_are() -> None:
    """With lambda 1 the target of any turn is its discounted return-to-go, whatever is passed over;
    what is paid at the end, at turns without a value, belongs to the last that has one."""
    for seed in range(30):
        rewards, values = random_case(seed)
        passed = np.random.default_rng(seed).uniform(size=len(values)) < 0.5
        holed = np.where(passed, NAN, values).tolist()
        advantages, targets = gae(rewards, holed, gamma=0.8, lam=1.0)
        whole = gae(rewards, values, gamma=0.8, lam=1.0)[1]
        assert targets[~passed] == pytest.approx(whole[~passed], abs=1e-12)
        assert np.isnan(targets[passed]).all()
        assert not advantages[passed].any()


def test_advantages_are_standardized_over_the_update_and_targets_are_not() -> None:
    plays = [play([1.0, 0.0, 6.0], [2.0, 4.0, 2.0]), play([1.0, 2.0], [0.5, NAN])]
    raw = credit.make("gae", normalize=False).advantages(plays)
    found = credit.make("gae").advantages(plays)
    trained = np.array([True, True, True, True, False])
    together = np.concatenate(found.advantages)
    before = np.concatenate(raw.advantages)[trained]
    expected = (before - before.mean()) / before.std()
    assert together[trained] == pytest.approx(expected, abs=1e-12)
    assert together[4] == 0.0
    assert found.targets is not None and raw.targets is not None
    for one, two in zip(found.targets, raw.targets, strict=True):
        assert np.array_equal(one, two, equal_nan=True)


def test_equal_advantages_standardize_to_0() -> None:
    found = credit.make("gae").advantages([play([1.0], [0.5]), play([1.5], [1.0])])
    assert [each.tolist() for each in found.advantages] == [[0.0], [0.0]]


def test_the_explained_variance_is_1_for_a_perfect_critic_and_0_for_a_constant_one() -> None:
    estimator = credit.make("gae", lam=1.0)
    perfect = [play([1.0], [1.0]), play([3.0], [3.0])]
    constant = [play([1.0], [2.0]), play([3.0], [2.0])]
    halfway = [play([1.0], [1.5]), play([3.0], [2.5])]
    for plays, expected in ((perfect, 1.0), (constant, 0.0), (halfway, 0.75)):
        assert estimator.advantages(plays).metrics == {
            "explained_variance": pytest.approx(expected)
        }


def test_there_is_no_explained_variance_where_nothing_varies() -> None:
    assert credit.make("gae").advantages([play([1.0], [0.0]), play([1.0], [0.0])]).metrics == {}


def test_a_play_without_a_value_anywhere_teaches_nothing() -> None:
    advantages, targets = gae([1.0, 2.0], [NAN, NAN])
    assert advantages.tolist() == [0.0, 0.0]
    assert np.isnan(targets).all()


@pytest.mark.parametrize(("values", "count"), [(None, "no"), ([1.0], "1")])
def test_a_play_without_its_values_is_refused(values: list[float] | None, count: str) -> None:
    with pytest.raises(
        ValueError, match=f"seat 'player_0' in episode 'e1' has {count} critic values for 2 turns"
    ):
        credit.make("gae").advantages([play([0.0, 1.0], values)])


def test_values_given_are_left_as_they_are() -> None:
    given = play([1.0, 2.0], [0.5, 0.25])
    credit.make("gae").advantages([given])
    assert given.values is not None and given.values.tolist() == [0.5, 0.25]
