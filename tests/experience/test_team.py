from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.experience.team import check_teams, share_rewards
from opentinker.types import Episode, EpisodeRequest, Turn


def episode(
    *turns: tuple[str, float], stage: str | Sequence[str] = "move", **beside: float
) -> Episode:
    """Turns as (seat, reward); `beside` holds the returns of seats that never had one.

    Consecutive turns of different seats in one stage are taken at once.
    """
    stages = [stage] * len(turns) if isinstance(stage, str) else stage
    returns: dict[str, float] = dict(beside)
    for seat, reward in turns:
        returns[seat] = returns.get(seat, 0.0) + reward
    record: list[Turn] = []
    at_once: set[str] = set()
    for (seat, reward), name in zip(turns, stages, strict=True):
        moment = record[-1].moment if record else 0
        if record and (record[-1].stage != name or seat in at_once):
            moment, at_once = moment + 1, set()
        at_once.add(seat)
        turn = Turn(len(record), name, seat, "alice", "", "", policy="alice", reward=reward)
        record.append(replace(turn, moment=moment))
    request = EpisodeRequest("e1", "g", 0, {})
    return Episode(request, "e", "p", tuple(record), returns, "finished")


def rewards(found: Episode) -> list[float]:
    return [turn.reward for turn in found.turns]


def test_seats_that_answer_at_once_share_round_by_round() -> None:
    """Two rounds; half of each reward is the own, half the mean of both."""
    played = episode(("a", 4.0), ("b", 0.0), ("a", -2.0), ("b", 6.0), stage="round")
    assert rewards(share_rewards(played, 0.5, [])) == [3.0, 1.0, 0.0, 4.0]
    assert rewards(share_rewards(played, 1.0, [])) == [2.0, 2.0, 2.0, 2.0]


def test_a_teammates_reward_belongs_to_the_last_turn_before_it_came() -> None:
    """a, b, a in turn; b's 4 came after its only turn, perhaps for what a did last.

    a's 2 came before its second turn, perhaps after b's: it is shared with b's turn. So are a's 6.
    """
    played = episode(("a", 2.0), ("b", 4.0), ("a", 6.0), stage=["first", "second", "third"])
    assert rewards(share_rewards(played, 1.0, [])) == [1.0, 2.0 + 1.0 + 3.0, 3.0 + 2.0]
    assert rewards(share_rewards(played, 0.5, [])) == [1.5, 0.5 * 4.0 + 3.0, 4.5 + 1.0]


def test_no_turn_misses_a_reward_that_it_may_have_caused() -> None:
    """a's 2 is held by its first turn and may have come after b's second; not after b's third."""
    stages = ["s0", "s1", "s2", "s3", "s4"]
    played = episode(("a", 2.0), ("b", 0.0), ("b", 0.0), ("a", 0.0), ("b", 0.0), stage=stages)
    assert rewards(share_rewards(played, 1.0, [])) == [1.0, 0.0, 1.0, 0.0, 0.0]


def test_a_reward_before_a_seats_first_turn_waits_for_it() -> None:
    played = episode(("a", 2.0), ("a", 0.0), ("b", 0.0), stage=["s0", "s1", "s2"])
    assert rewards(share_rewards(played, 1.0, [])) == [1.0, 0.0, 1.0]


def test_what_a_teammate_without_turns_was_paid_comes_at_the_end() -> None:
    played = episode(("a", 0.0), ("b", 0.0), ("a", 0.0), ("b", 0.0), idle=6.0)
    assert rewards(share_rewards(played, 1.0, [])) == [0.0, 0.0, 2.0, 2.0]


def test_a_seat_of_one_stage_asked_again_begins_another_moment() -> None:
    """All of (a, b, c), then c, b, a: the order within a round does not matter."""
    order = [("a", 3.0), ("b", 0.0), ("c", 0.0), ("c", 0.0), ("b", 6.0), ("a", 0.0)]
    assert rewards(share_rewards(episode(*order), 1.0, [])) == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]


def test_turns_in_one_stage_that_follow_each_other_are_not_taken_at_once() -> None:
    """A game of turns, a b a b in one stage: b's 2 came for a's second turn, not for its first."""
    played = episode(("a", 0.0), ("b", 2.0), ("a", 0.0), ("b", 0.0))
    turns = tuple(replace(turn, moment=turn.index) for turn in played.turns)
    assert rewards(share_rewards(replace(played, turns=turns), 1.0, [])) == [0.0, 1.0, 1.0, 0.0]
    assert rewards(share_rewards(played, 1.0, [])) == [1.0, 1.0, 0.0, 0.0]  # two rounds at once


def test_teams_do_not_share_with_one_another_and_a_seat_in_no_team_is_alone() -> None:
    played = episode(("a", 4.0), ("b", 0.0), ("c", 10.0), ("d", 20.0), ("e", 7.0))
    shared = share_rewards(played, 1.0, [["a", "b"], ["d", "c"]])
    assert rewards(shared) == [2.0, 2.0, 15.0, 15.0, 7.0]
    assert shared.turns[4] is played.turns[4]


def test_returns_stay_what_the_env_paid() -> None:
    played = episode(("a", 4.0), ("b", 0.0))
    assert share_rewards(played, 1.0, []).returns == {"a": 4.0, "b": 0.0}
    assert rewards(played) == [4.0, 0.0]


def test_a_weight_of_0_gives_back_the_same_episode() -> None:
    played = episode(("a", 4.0), ("b", 0.0))
    assert share_rewards(played, 0.0, [["a", "b"]]) is played


def test_an_episode_without_turns_has_nothing_to_share() -> None:
    assert share_rewards(episode(a=1.0, b=0.0), 0.5, []).turns == ()


def _random(generator: np.random.Generator) -> tuple[Episode, list[list[str]]]:
    seats = list("abcdef")[: generator.integers(1, 7)]
    turns, stages = [], []
    for stage in generator.choice(["talk", "move"], size=generator.integers(0, 12)):
        asked = generator.permutation(seats)[: generator.integers(1, len(seats) + 1)]
        for seat in asked:
            turns.append((str(seat), float(generator.normal())))
            stages.append(str(stage))
    beside = {seat: float(generator.normal()) for seat in seats if seat not in dict(turns)}
    shuffled = [str(seat) for seat in generator.permutation(seats)]
    cut = int(generator.integers(0, len(seats) + 1))
    teams = [team for team in (shuffled[: cut // 2], shuffled[cut // 2 : cut]) if team]
    return episode(*turns, stage=stages, **beside), teams


def _sums(found: Episode) -> Mapping[str, float]:
    totals: dict[str, float] = {}
    for turn in found.turns:
        totals[turn.seat] = totals.get(turn.seat, 0.0) + turn.reward
    return totals


def test_turns_sum_to_the_share_of_the_own_and_of_the_teams_mean_return() -> None:
    generator = np.random.default_rng(0)
    for _ in range(300):
        played, teams = _random(generator)
        weight = float(generator.uniform(0.01, 1.0))
        shared = share_rewards(played, weight, teams)
        for seat, total in _sums(shared).items():
            if teams:
                team = next((team for team in teams if seat in team), [seat])
            else:
                team = list(played.returns)
            mean = sum(played.returns[name] for name in team) / len(team)
            expected = (1.0 - weight) * played.returns[seat] + weight * mean
            assert total == pytest.approx(expected, abs=1e-12)


def test_with_the_whole_weight_members_with_turns_earn_the_same() -> None:
    generator = np.random.default_rng(1)
    for _ in range(100):
        played, _ = _random(generator)
        sums = list(_sums(share_rewards(played, 1.0, [])).values())
        assert sums == pytest.approx([sums[0]] * len(sums) if sums else [], abs=1e-12)


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside_0_to_1_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match=f"team's share is {weight}; allowed: 0"):
        share_rewards(episode(("a", 1.0)), weight, [])


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_an_unknown_seat_in_a_team_is_refused_with_the_nearest(weight: float) -> None:
    played = episode(("player_0", 1.0), ("player_1", 0.0))
    with pytest.raises(UnknownNameError, match="'player_2'; did you mean 'player_"):
        share_rewards(played, weight, [["player_0", "player_2"]])


def test_a_seat_in_two_teams_is_refused() -> None:
    check_teams("abc", [["a", "b"], ["c"]])
    check_teams("abc", [])
    with pytest.raises(ConfigError, match="'b' is named twice in the teams: in a, b and in b, c"):
        check_teams("abc", [["a", "b"], ["b", "c"]])
    with pytest.raises(ConfigError, match="'a' is named twice"):
        check_teams("abc", [["a", "a"]])
    with pytest.raises(ConfigError, match="a team has no seats"):
        check_teams("abc", [["a"], []])


def test_a_reward_that_is_not_finite_is_found_where_it_was_paid() -> None:
    played = episode(("a", 1.0), ("b", float("nan")))
    with pytest.raises(ValueError, match=r"seat 'b' in episode 'e1' was paid \[nan\]"):
        share_rewards(played, 0.5, [])
