from __future__ import annotations

import pickle

import pytest

from opentinker.experience.buffer import Buffer
from opentinker.types import Episode, EpisodeRequest


def batch(*names: str) -> list[Episode]:
    requests = [EpisodeRequest(name, "g", 0, {}) for name in names]
    return [Episode(request, "e", "p", (), {}, "finished") for request in requests]


def test_without_staleness_a_batch_starts_when_the_one_before_is_learned() -> None:
    buffer = Buffer(0)
    assert buffer.started == 0
    for version in range(3):
        assert buffer.may_start(version)
        number = buffer.start([f"e{version + 1}"])
        assert number == buffer.started == version + 1
        assert not buffer.may_start(version)
        buffer.add(number, batch(f"e{number}"))
        assert buffer.take(number) == batch(f"e{number}")
        assert not buffer.may_start(version)


@pytest.mark.parametrize("max_staleness", [0, 1, 3])
def test_batch_b_starts_at_version_b_less_1_less_the_bound(max_staleness: int) -> None:
    """Every batch is started as early as it may be; the versions are counted by hand."""
    buffer = Buffer(max_staleness)
    earliest: dict[int, int] = {}
    for version in range(8):
        while buffer.may_start(version):
            earliest[buffer.start([str(buffer.started + 1)])] = version
            assert buffer.outstanding <= max_staleness + 1
        learned = version + 1
        buffer.add(learned, batch(str(learned)))
        buffer.take(learned)
    assert earliest == {b: max(0, b - 1 - max_staleness) for b in range(1, 9 + max_staleness)}


def test_a_learner_that_runs_ahead_does_not_unbound_the_buffer() -> None:
    buffer = Buffer(1)
    while buffer.may_start(100):
        buffer.start([str(buffer.started)])
    assert buffer.outstanding == 2
    with pytest.raises(ValueError, match="2 batches are outstanding; a max_staleness of 1"):
        buffer.start(["2"])


def test_a_resumed_run_goes_on_at_its_own_number_and_uses_nothing_from_before() -> None:
    """Five batches of two were trained on, 0 to 9."""
    buffer = Buffer(0, first=6, newest="9")
    assert buffer.started == 5
    assert not buffer.may_start(4)
    assert buffer.may_start(5)
    for old in ("8", "9"):
        with pytest.raises(ValueError, match=f"episode '{old}' of batch 6 does not come after '9'"):
            buffer.start([old, "10"])
    assert buffer.start(["10", "11"]) == 6


def test_batches_may_be_done_in_any_order() -> None:
    buffer = Buffer(1)
    first, second = buffer.start(["a"]), buffer.start(["b"])
    buffer.add(second, batch("b"))
    with pytest.raises(ValueError, match="batch 1 is not in the buffer; there are 2"):
        buffer.take(first)
    buffer.add(first, batch("a"))
    assert buffer.take(first) == batch("a")
    assert buffer.take(second) == batch("b")
    assert buffer.outstanding == 0


def test_a_batch_is_handed_out_once() -> None:
    buffer = Buffer(0)
    buffer.add(buffer.start(["a"]), batch("a"))
    buffer.take(1)
    with pytest.raises(ValueError, match="batch 1 was handed out before; there are none"):
        buffer.take(1)
    with pytest.raises(ValueError, match="batch 2 is not in the buffer"):
        buffer.take(2)


def test_only_a_batch_that_is_being_played_is_added_and_once() -> None:
    buffer = Buffer(0)
    with pytest.raises(ValueError, match="batch 1 is not being played; none are"):
        buffer.add(1, batch("a"))
    buffer.add(buffer.start(["a"]), batch("a"))
    with pytest.raises(ValueError, match="batch 1 is not being played"):
        buffer.add(1, batch("b"))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("b", "a"), "episode 'a' is not of batch 2"),
        (("b", "b"), "episode 'b' is not of batch 2, or came with it before"),
        (("b", "c", "d"), "episode 'd' is not of batch 2"),
        (("b",), "batch 2 came without episode 'c'"),
    ],
)
def test_a_batch_is_of_the_episodes_that_it_was_started_with(
    names: tuple[str, ...], said: str
) -> None:
    buffer = Buffer(1)
    buffer.add(buffer.start(["a"]), batch("a"))
    buffer.take(1)
    number = buffer.start(["b", "c"])
    with pytest.raises(ValueError, match=said):
        buffer.add(number, batch(*names))
    buffer.add(number, batch("c", "b"))  # what was refused left nothing behind


@pytest.mark.parametrize("ids", [["7"], ["6", "8"], ["8", "8"], ["10", "9"]])
def test_no_episode_is_used_twice(ids: list[str]) -> None:
    """Also none of a batch that was handed out and forgotten long ago."""
    buffer = Buffer(1)
    for first in (0, 2, 4, 6):
        own = [str(first), str(first + 1)]
        buffer.add(buffer.start(own), batch(*own))
        buffer.take(buffer.started)
    with pytest.raises(ValueError, match="of batch 5 does not come after"):
        buffer.start(ids)
    assert buffer.start(["8", "9", "10"]) == 5  # what was refused left nothing behind


def test_what_is_remembered_does_not_grow_with_the_run() -> None:
    """Two batches of three at a time, a thousand in all."""
    buffer = Buffer(1)

    def start(number: int) -> None:
        buffer.start([f"{number:04d}-{k}" for k in range(3)])

    start(1)
    sizes = set()
    for number in range(1, 1001):
        start(number + 1)
        sizes.add(len(pickle.dumps(buffer)))
        buffer.add(number, batch(*(f"{number:04d}-{k}" for k in range(3))))
        buffer.take(number)
    assert max(sizes) - min(sizes) < 10  # the batches' own numbers have more digits


def test_a_staleness_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="max_staleness is -1; allowed: 0 or more"):
        Buffer(-1)
