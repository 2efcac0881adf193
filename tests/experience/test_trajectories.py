from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opentinker.errors import EngineError
from opentinker.experience.selection import fresh, informative, usable
from opentinker.experience.trajectories import plays, trajectories
from opentinker.types import Episode, EpisodeRequest, Outcome, Turn


def turn(
    index: int, seat: str, context: tuple[int, ...], tokens: tuple[int, ...], **kept: Any
) -> Turn:
    given: dict[str, Any] = {
        "stage": "move",
        "agent": "alice",
        "observation": "",
        "text": "",
        "policy": "alice",
        "version": 4,
        "logprobs": tuple(-0.5 for _ in tokens),
    }
    return Turn(index=index, seat=seat, context_ids=context, tokens=tokens, **(given | kept))


def episode(*turns: Turn, outcome: Outcome = "finished", name: str = "e1") -> Episode:
    request = EpisodeRequest(name, "g1", 0, {"player_0": "alice", "player_1": "bob"})
    return Episode(request, "kuhn", "follow_env", turns, {}, outcome)


def test_a_conversation_is_one_segment_of_what_was_shown_and_what_was_sampled() -> None:
    first = turn(0, "player_0", (10, 11), (20,), logprobs=(-0.25,))
    second = turn(2, "player_0", (12,), (21, 22), logprobs=(-1.0, -2.0), version=5)
    (found,) = trajectories(episode(first, second))
    assert (found.episode, found.seat, found.policy) == ("e1", "player_0", "alice")
    assert found.ids.tolist() == [10, 11, 20, 12, 21, 22]
    assert found.turn.tolist() == [-1, -1, 0, -1, 1, 1]
    assert found.logprobs.tolist() == [0, 0, -0.25, 0, -1.0, -2.0]
    assert found.versions.tolist() == [-1, -1, 4, -1, 5, 5]
    assert [each.dtype for each in (found.ids, found.turn, found.versions)] == [np.int32] * 3
    assert found.logprobs.dtype == np.float32


def test_words_of_other_seats_are_never_trained() -> None:
    """Bob's answer (30) is shown to alice as context, and trained only in bob's own trajectory."""
    said = episode(
        turn(0, "player_0", (10,), (20,)),
        turn(1, "player_1", (11, 20), (30,), policy="bob"),
        turn(2, "player_0", (30, 12), (21,)),
    )
    alice, bob = trajectories(said)
    assert [(each.seat, each.policy) for each in (alice, bob)] == [
        ("player_0", "alice"),
        ("player_1", "bob"),
    ]
    assert alice.ids[alice.turn >= 0].tolist() == [20, 21]
    assert bob.ids[bob.turn >= 0].tolist() == [30]


def test_two_seats_of_one_policy_have_trajectories_of_their_own() -> None:
    found = trajectories(episode(turn(0, "player_0", (1,), (2,)), turn(1, "player_1", (3,), (4,))))
    assert [(each.seat, each.ids.tolist(), each.turn.tolist()) for each in found] == [
        ("player_0", [1, 2], [-1, 0]),
        ("player_1", [3, 4], [-1, 0]),
    ]


def test_a_cut_window_begins_a_new_segment_and_turns_keep_their_indices() -> None:
    one, two = trajectories(
        episode(
            turn(0, "player_0", (10,), (20,), fresh=True),
            turn(1, "player_0", (11,), (21,)),
            turn(2, "player_0", (13, 14), (22, 23), fresh=True),
        )
    )
    assert one.ids.tolist() == [10, 20, 11, 21]
    assert one.turn.tolist() == [-1, 0, -1, 1]
    assert two.ids.tolist() == [13, 14, 22, 23]
    assert two.turn.tolist() == [-1, -1, 2, 2]


def test_a_turn_that_is_not_trained_is_context() -> None:
    (found,) = trajectories(
        episode(
            turn(0, "player_0", (10,), (20, 21), trainable=False),
            turn(1, "player_0", (11,), (22,)),
        )
    )
    assert found.ids.tolist() == [10, 20, 21, 11, 22]
    assert found.turn.tolist() == [-1, -1, -1, -1, 1]
    assert found.logprobs.tolist() == [0, 0, 0, 0, -0.5]
    assert found.versions.tolist() == [-1, -1, -1, -1, 4]


def test_a_segment_with_nothing_to_train_is_left_out() -> None:
    assert trajectories(episode(turn(0, "player_0", (10,), (20,), trainable=False))) == []


def test_agents_without_tokens_give_nothing() -> None:
    scripted = turn(0, "player_1", (), (), policy=None, version=None, agent="random")
    played = episode(scripted, turn(1, "player_0", (10,), (20,)))
    assert [each.seat for each in trajectories(played)] == ["player_0"]
    assert [each.seat for each in plays(played)] == ["player_0"]


def test_a_failed_episode_gives_nothing() -> None:
    failed = episode(turn(0, "player_0", (10,), (20,), reward=1.0), outcome="failed")
    assert trajectories(failed) == []
    assert plays(failed) == []


def test_a_truncated_episode_is_learned_from() -> None:
    cut = episode(turn(0, "player_0", (10,), (20,)), outcome="truncated")
    assert len(trajectories(cut)) == len(plays(cut)) == 1
    assert [play.truncated for play in plays(cut)] == [True]
    assert [play.truncated for play in plays(replace(cut, outcome="finished"))] == [False]


def test_a_play_counts_all_turns_of_the_policy() -> None:
    (found,) = plays(
        episode(
            turn(0, "player_0", (10,), (20,), trainable=False, stage="talk", reward=0.5),
            turn(1, "player_0", (11,), (22,), reward=-1.0),
        )
    )
    assert (found.episode, found.group, found.env) == ("e1", "g1", "kuhn")
    assert found.rewards.tolist() == [0.5, -1.0]
    assert found.rewards.dtype == np.float64
    assert found.stages == ("talk", "move")


@pytest.mark.parametrize("fault", [{"logprobs": ()}, {"version": None}])
def test_tokens_without_logprobs_or_version_are_an_error(fault: dict) -> None:
    with pytest.raises(EngineError, match="turn 3 of seat 'player_0' in episode 'e1': 2 tokens"):
        trajectories(episode(turn(3, "player_0", (10,), (20, 21), **fault)))


def test_failed_episodes_are_dropped_and_counted() -> None:
    good, cut = episode(), episode(outcome="truncated")
    kept, counts = usable([good, episode(outcome="failed"), cut])
    assert kept == [good, cut]
    assert counts == {"episodes": 3, "failed_episodes": 1, "truncated_episodes": 1}


def test_trajectories_without_any_advantage_can_be_dropped() -> None:
    """Turn 0 alone is in the first segment, turn 1 in the second."""
    one, two = trajectories(
        episode(turn(0, "player_0", (1,), (2,)), turn(1, "player_0", (3,), (4,), fresh=True))
    )
    kept, counts = informative([one, two], {("e1", "player_0"): np.array([0.0, 0.5])})
    assert kept == [two]
    assert counts == {"zero_advantage_trajectories": 1}


def digests(*turns: Turn) -> tuple[int, ...]:
    (found,) = plays(episode(*turns))
    assert len(found.prompts) == len(turns)
    return found.prompts


def test_digests_are_equal_where_the_ids_before_the_answer_are() -> None:
    """The answer itself does not count at its own turn, and does at the next one."""
    one = digests(turn(0, "player_0", (1, 2), (3,)), turn(1, "player_0", (4,), (5,)))
    same = digests(turn(4, "player_0", (1, 2), (3,)), turn(9, "player_0", (4,), (6,)))
    other = digests(turn(0, "player_0", (1, 2), (7,)), turn(1, "player_0", (4,), (5,)))
    assert one == same
    assert one[0] == other[0] and one[1] != other[1]


def test_digests_are_of_ids_and_not_of_where_they_are_cut() -> None:
    one = digests(turn(0, "player_0", (1,), (2, 3)), turn(1, "player_0", (4,), (5,)))
    two = digests(turn(0, "player_0", (1, 2), (3,)), turn(1, "player_0", (4,), (5,)))
    assert one[1] == two[1] and one[0] != two[0]


def test_a_cut_conversation_has_the_digest_of_what_is_left() -> None:
    cut = digests(turn(0, "player_0", (1,), (2,)), turn(1, "player_0", (8, 9), (3,), fresh=True))
    assert cut[1] == digests(turn(0, "player_0", (8, 9), (4,)))[0]
    uncut = digests(turn(0, "player_0", (1,), (2,)), turn(1, "player_0", (8, 9), (3,)))
    assert cut[1] != uncut[1]


def test_digests_are_equal_if_and_only_if_the_whole_prompts_are() -> None:
    generator = np.random.default_rng(0)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(300):
        ids: tuple[int, ...] = ()
        turns, prompts = [], []
        for index in range(generator.integers(1, 4)):
            context, tokens = (
                tuple(generator.integers(1, 3, size=size).tolist())
                for size in generator.integers(1, 3, size=2)
            )
            restart = bool(generator.uniform() < 0.3)
            ids = (() if restart else ids) + context
            prompts.append(ids)
            ids += tokens
            turns.append(turn(index, "player_0", context, tokens, fresh=restart))
        for prompt, digest in zip(prompts, digests(*turns), strict=True):
            assert seen.setdefault(prompt, digest) == digest
    assert len(seen) > 50
    assert len(set(seen.values())) == len(seen)


def test_turns_without_ids_have_no_digests() -> None:
    (found,) = plays(episode(turn(0, "player_0", (), ()), turn(1, "player_0", (), ())))
    assert found.prompts == ()
    assert found.values is None


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_is_refused_at_the_entrance(reward: float) -> None:
    paid = [turn(0, "player_0", (1,), (2,)), turn(1, "player_1", (1,), (2,), reward=reward)]
    with pytest.raises(ValueError, match="seat 'player_1' in episode 'e1' was paid"):
        plays(episode(*paid))
    assert plays(episode(*paid, outcome="failed")) == []


def test_what_is_older_than_the_bound_is_dropped_and_counted() -> None:
    """Version 5 learns; with a bound of 1 a token of version 4 is kept and one of 3 is not."""
    rows = trajectories(
        episode(
            turn(0, "player_0", (1,), (2, 3), version=4),
            turn(1, "player_1", (1,), (2, 3), version=3),
            turn(2, "player_1", (4,), (5,), version=5),
        )
    )
    kept, counts = fresh(rows, 5, 1)
    assert [each.seat for each in kept] == ["player_0"]
    assert counts == {"stale_trajectories": 1, "stale_tokens": 3}
    assert fresh(rows, 5, 2) == (rows, {"stale_trajectories": 0, "stale_tokens": 0})
    assert fresh(rows, 5, 0)[1] == {"stale_trajectories": 2, "stale_tokens": 5}


def test_old_tokens_that_are_not_trained_make_nothing_stale() -> None:
    rows = trajectories(
        episode(
            turn(0, "player_0", (1,), (2,), version=0, trainable=False),
            turn(1, "player_0", (3,), (4,), version=9),
        )
    )
    assert fresh(rows, 9, 0)[0] == rows
