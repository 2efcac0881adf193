from __future__ import annotations

import pickle

import numpy as np
import pytest

from opentinker.experience.packing import pack, padding_share
from opentinker.types import Trajectory


def row(name: str, turn: list[int], first_id: int = 1, policy: str = "alice") -> Trajectory:
    owner = np.array(turn, dtype=np.int32)
    return Trajectory(
        episode=name,
        seat="player_0",
        policy=policy,
        ids=np.arange(first_id, first_id + len(turn), dtype=np.int32),
        turn=owner,
        logprobs=np.where(owner >= 0, np.float32(-0.5), np.float32(0)),
        versions=np.where(owner >= 0, np.int32(7), np.int32(-1)),
    )


def worth(*names: str, turns: int = 2) -> dict:
    return {(name, "player_0"): np.arange(1.0, turns + 1) for name in names}


def test_a_batch_holds_ids_masks_and_advantages_as_worked_by_hand() -> None:
    short, long = row("short", [-1, 0], first_id=50), row("long", [-1, 0, -1, 1], first_id=10)
    credit = {("short", "player_0"): np.array([3.0]), ("long", "player_0"): np.array([-1.0, 0.5])}
    (batch,) = pack([short, long], credit, token_budget=8)
    assert batch.policy == "alice"
    assert batch.ids.tolist() == [[10, 11, 12, 13], [50, 51, 0, 0]]
    assert batch.lengths.tolist() == [4, 2]
    assert batch.trained.tolist() == [[False, True, False, True], [False, True, False, False]]
    assert batch.advantages.tolist() == [[0.0, -1.0, 0.0, 0.5], [0.0, 3.0, 0.0, 0.0]]
    assert batch.logprobs.tolist() == [[0.0, -0.5, 0.0, -0.5], [0.0, -0.5, 0.0, 0.0]]
    assert batch.versions.tolist() == [[-1, 7, -1, 7], [-1, 7, -1, -1]]
    kinds = (
        batch.ids,
        batch.lengths,
        batch.trained,
        batch.advantages,
        batch.logprobs,
        batch.versions,
    )
    assert [str(each.dtype) for each in kinds] == [
        "int32",
        "int32",
        "bool",
        "float32",
        "float32",
        "int32",
    ]


def test_no_batch_outgrows_the_budget_padding_included() -> None:
    lengths = np.random.default_rng(0).integers(2, 60, size=200)
    rows = [row(str(n), [-1] * (k - 1) + [0]) for n, k in enumerate(lengths)]
    batches = pack(rows, worth(*map(str, range(200))), token_budget=256)
    assert all(batch.ids.size <= 256 for batch in batches)
    assert sum(len(batch.ids) for batch in batches) == 200
    assert sum(int(batch.lengths.sum()) for batch in batches) == lengths.sum()
    assert sum(int(batch.trained.sum()) for batch in batches) == 200
    assert padding_share(batches) < 0.1


def test_rows_are_no_more_than_asked() -> None:
    rows = [row(name, [-1, 0]) for name in "abcde"]
    batches = pack(rows, worth(*"abcde"), token_budget=1000, max_rows=2)
    assert [len(batch.ids) for batch in batches] == [2, 2, 1]


def test_a_trajectory_longer_than_the_budget_gets_a_batch_of_its_own() -> None:
    rows = [row("a", [-1, 0]), row("b", [-1] * 9 + [0]), row("c", [-1, 0])]
    assert [batch.ids.shape for batch in pack(rows, worth(*"abc"), token_budget=4)] == [
        (1, 10),
        (2, 2),
    ]


def test_equally_long_rows_keep_their_order() -> None:
    rows = [row(name, [-1, 0, 1], first_id=10 * n) for n, name in enumerate("abcd")]
    (batch,) = pack(rows, worth(*"abcd"), token_budget=12)
    assert batch.ids[:, 0].tolist() == [0, 10, 20, 30]


def test_packing_twice_gives_the_same_bytes() -> None:
    lengths = np.random.default_rng(1).integers(2, 9, size=50)
    rows = [row(str(n), [-1] * (k - 1) + [0]) for n, k in enumerate(lengths)]
    once, twice = (pack(rows, worth(*map(str, range(50))), token_budget=64) for _ in range(2))
    assert pickle.dumps(once) == pickle.dumps(twice)


def test_padding_is_counted() -> None:
    batches = pack([row("a", [-1, 0, -1, 1]), row("b", [-1, 0])], worth("a", "b"), token_budget=8)
    assert padding_share(batches) == pytest.approx(2 / 8)
    assert padding_share([]) == 0.0


def test_nothing_packs_into_nothing() -> None:
    assert pack([], {}, token_budget=8) == []


def test_two_policies_in_one_batch_are_refused() -> None:
    rows = [row("a", [0]), row("b", [0], policy="bob")]
    with pytest.raises(ValueError, match="these are of alice, bob"):
        pack(rows, worth("a", "b"), token_budget=8)


def test_a_turn_without_an_advantage_is_refused() -> None:
    with pytest.raises(ValueError, match="episode 'a' needs an advantage for turn 2; there are 2"):
        pack([row("a", [-1, 2])], worth("a"), token_budget=8)
    with pytest.raises(
        ValueError, match="episode 'a' needs an advantage for turn 0; there are none"
    ):
        pack([row("a", [-1, 0])], {}, token_budget=8)


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="token_budget 0"):
        pack([row("a", [0])], worth("a"), token_budget=0)


def test_a_critics_targets_stand_at_the_first_trained_token_of_each_turn() -> None:
    """Turn 1 is not trained here; turn 3 follows turn 2 with nothing between."""
    rows = [row("long", [-1, 0, 0, -1, -1, 2, 2, 3, 3]), row("short", [-1, 0, 0])]
    targets = {
        ("long", "player_0"): np.array([0.5, np.nan, -1.5, 2.0]),
        ("short", "player_0"): np.array([4.0]),
    }
    (batch,) = pack(rows, worth("long", "short", turns=4), token_budget=18, targets=targets)
    assert batch.targets is not None and batch.targets.dtype == np.float32
    nan = np.nan
    expected = [
        [nan, 0.5, nan, nan, nan, -1.5, nan, 2.0, nan],
        [nan, 4.0, nan, nan, nan, nan, nan, nan, nan],
    ]
    assert np.array_equal(batch.targets, np.array(expected, dtype=np.float32), equal_nan=True)


def test_without_a_critic_there_are_no_targets() -> None:
    assert pack([row("a", [-1, 0])], worth("a"), token_budget=8)[0].targets is None


def test_every_trained_turn_has_one_target_and_nothing_else_has() -> None:
    generator = np.random.default_rng(2)
    rows, targets, count = [], {}, 0
    for n in range(40):
        turns = [
            each
            for k in range(generator.integers(1, 5))
            for each in [-1] * generator.integers(1, 4) + [k] * generator.integers(1, 4)
        ]
        rows.append(row(str(n), turns))
        targets[str(n), "player_0"] = generator.normal(size=4)
        count += len(set(turns)) - 1
    batches = pack(rows, worth(*map(str, range(40)), turns=4), token_budget=64, targets=targets)
    placed = 0
    for batch in batches:
        assert batch.targets is not None
        there = ~np.isnan(batch.targets)
        assert not (there & ~batch.trained).any()
        placed += int(there.sum())
    assert placed == count


def test_a_turn_without_a_target_is_refused() -> None:
    with pytest.raises(ValueError, match="episode 'a' needs a critic's target for turn 0; there"):
        pack([row("a", [-1, 0])], worth("a"), token_budget=8, targets={})
