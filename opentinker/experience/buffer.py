"""Batches of episodes between those who play them and the learner: bounded, each used once."""

from __future__ import annotations

from collections.abc import Sequence

from opentinker.types import Episode


class Buffer:
    """Batches by number: batch b is trained by update b, which makes version b from b - 1.

    Batch b may be started once version b - 1 - `max_staleness` is there, so that none of its tokens
    can be older than the bound when it is trained on. `first` is the number of the first batch.
    """

    def __init__(self, max_staleness: int, first: int = 1) -> None:
        if max_staleness < 0:
            raise ValueError(f"max_staleness is {max_staleness}; allowed: 0 or more")
        self._max_staleness = max_staleness
        self._started = first - 1
        self._waiting: set[int] = set()
        self._ready: dict[int, list[Episode]] = {}
        self._seen: set[str] = set()

    @property
    def started(self) -> int:
        """The number of the batch that was started last; `first` - 1 when none was."""
        return self._started

    @property
    def outstanding(self) -> int:
        """How many batches were started and not handed out; at most `max_staleness` + 1."""
        return len(self._waiting) + len(self._ready)

    def may_start(self, version: int) -> bool:
        """Whether one more batch may be started when the learner's newest version is `version`."""
        return version >= self._started - self._max_staleness and self._has_room()

    def start(self) -> int:
        """Note that one more batch is being played, and give its number."""
        if not self._has_room():
            raise ValueError(
                f"{self.outstanding} batches are outstanding; a max_staleness of "
                f"{self._max_staleness} allows no more"
            )
        self._started += 1
        self._waiting.add(self._started)
        return self._started

    def add(self, number: int, episodes: Sequence[Episode]) -> None:
        """Keep a batch that was played.

        Raises ValueError for one that is not being played, or with an episode that was here before.
        """
        if number not in self._waiting:
            raise ValueError(f"batch {number} is not being played; {_listed(self._waiting)} are")
        own: set[str] = set()
        for name in (episode.request.id for episode in episodes):
            if name in self._seen or name in own:
                raise ValueError(
                    f"episode {name!r} of batch {number} was in the buffer before; no episode is "
                    "used twice"
                )
            own.add(name)
        self._seen |= own
        self._waiting.remove(number)
        self._ready[number] = list(episodes)

    def take(self, number: int) -> list[Episode]:
        """Hand out a batch that was added, once; ValueError for any other."""
        if number not in self._ready:
            why = "is not in the buffer"
            if number <= self._started and number not in self._waiting:
                why = "was handed out before"
            raise ValueError(f"batch {number} {why}; there are {_listed(self._ready)}")
        return self._ready.pop(number)

    def _has_room(self) -> bool:
        return self.outstanding <= self._max_staleness


def _listed(numbers: set[int] | dict[int, list[Episode]]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"
