"""Batches of episodes between those who play them and the learner: bounded, each used once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opentinker.types import Episode


class Buffer:
    """Batches by number: batch b is trained by update b, which makes version b from b - 1.

    Batch b may be started once version b - 1 - `max_staleness` is there, so that none of its tokens
    can be older than the bound when it is trained on. `first` is the number of the first batch, and
    `newest` the id of the last episode before it.

    Ids go up from batch to batch, shorter ones before longer: "9" before "10". So only the newest
    and those of the batches that are being played are remembered, however long a run is.
    """

    def __init__(self, max_staleness: int, first: int = 1, newest: str = "") -> None:
        if max_staleness < 0:
            raise ValueError(f"max_staleness is {max_staleness}; allowed: 0 or more")
        self._max_staleness = max_staleness
        self._started = first - 1
        self._newest = newest
        self._waiting: dict[int, set[str]] = {}
        self._ready: dict[int, list[Episode]] = {}

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

    def start(self, ids: Sequence[str]) -> int:
        """Note that one more batch, of episodes with these ids, is being played; gives its number.

        Raises ValueError where there is no room, or for an id that does not come after all before.
        """
        if not self._has_room():
            raise ValueError(
                f"{self.outstanding} batches are outstanding; a max_staleness of "
                f"{self._max_staleness} allows no more"
            )
        newest = self._newest
        for name in ids:
            if (len(name), name) <= (len(newest), newest):
                raise ValueError(
                    f"episode {name!r} of batch {self._started + 1} does not come after "
                    f"{newest!r}; no episode is used twice"
                )
            newest = name
        self._newest = newest
        self._started += 1
        self._waiting[self._started] = set(ids)
        return self._started

    def add(self, number: int, episodes: Sequence[Episode]) -> None:
        """Keep a batch that was played.

        Raises ValueError for one that is not being played, or whose episodes are not those that it
        was started with, each once.
        """
        if number not in self._waiting:
            raise ValueError(f"batch {number} is not being played; {_listed(self._waiting)} are")
        missing = set(self._waiting[number])
        for name in (episode.request.id for episode in episodes):
            if name not in missing:
                raise ValueError(
                    f"episode {name!r} is not of batch {number}, or came with it before; no "
                    "episode is used twice"
                )
            missing.remove(name)
        if missing:
            raise ValueError(f"batch {number} came without episode {min(missing)!r}")
        del self._waiting[number]
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


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"
