"""What there is to learn from played episodes: the best conversations, and preferences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.finetuning import DataSection, Transcripts
from opentinker.recorder import Run
from opentinker.scheduler.dataset import Answer, Chat, Pair
from opentinker.types import Episode, Turn


@dataclass(frozen=True, slots=True)
class Part:
    """One seat's part of one episode."""

    episode: Episode
    seat: str
    turns: tuple[Turn, ...]

    @property
    def paid(self) -> float:
        return self.episode.returns[self.seat]


def parts(episodes: Iterable[Episode]) -> list[Part]:
    """Every seat's part of every episode that did not fail, in order."""
    found = []
    for episode in episodes:
        if episode.outcome != "failed":
            for seat in episode.returns:
                turns = tuple(turn for turn in episode.turns if turn.seat == seat)
                if turns:
                    found.append(Part(episode, seat, turns))
    return found


def chosen(run: Run, data: Transcripts) -> list[Part]:
    """What `data` chooses of a run's transcripts, oldest first.

    Without `policies`, the parts of policies, not those of scripts. ConfigError names what there
    is where nothing is left.
    """
    recorded = list(run.episodes())
    if not recorded:
        raise ConfigError(f"data.run: {run.folder} has no transcripts")
    steps = sorted({step for step, _ in recorded})[-(data.last_steps or 0) :]
    found = parts(episode for step, episode in recorded if step in steps)
    seats, names = {part.seat for part in found}, {part.turns[0].agent for part in found}
    for what, wanted, known in (("seat", data.seats, seats), ("policy", data.policies, names)):
        for name in wanted:
            if name not in known:
                raise UnknownNameError(f"{what} in data", name, known, f"of {run.folder}")
    found = [
        part
        for part in found
        if (not data.seats or part.seat in data.seats)
        and (part.turns[0].agent in data.policies if data.policies else part.turns[0].policy)
    ]
    if not found:
        raise ConfigError(
            f"data.run: {run.folder} has no turns of a policy to choose from; data.policies may "
            f"name any of {', '.join(sorted(names)) or 'its cast'}"
        )
    return found


def best(found: Sequence[Part], data: DataSection) -> list[Part]:
    """Rejection sampling: the parts that paid `min_reward`, among the `top` share of their seat's.

    The share is of the parts with the same env and seat, rounded up, of equal returns the newest.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, part in enumerate(found):
        groups[part.episode.env, part.seat].append(place)
    kept: set[int] = set()
    for places in groups.values():
        ordered = sorted(places, key=lambda place: (found[place].paid, place), reverse=True)
        kept |= set(ordered[: math.ceil((data.top or 1.0) * len(ordered) - 1e-9)])
    least = -math.inf if data.min_reward is None else data.min_reward
    left = [part for place, part in enumerate(found) if place in kept and part.paid >= least]
    if not left:
        highest = max(part.paid for part in found)
        raise ConfigError(
            f"data.min_reward = {least:g}: no part of an episode paid as much; the most is "
            f"{highest:g}"
        )
    return left


def chats(found: Iterable[Part]) -> list[Chat]:
    """Each part as a conversation; an answer that was illegal or cut short is context only.

    A protocol's window is not kept to: the conversation is whole. Parts without an answer to learn
    are left out.
    """
    made = [
        Chat(
            tuple(turn.observation for turn in part.turns),
            tuple(Answer(turn.text, float(_good(turn))) for turn in part.turns),
        )
        for part in found
    ]
    return [chat for chat in made if any(answer.weight for answer in chat.answers)]


def pairs(found: Iterable[Part]) -> list[Pair]:
    """Preferences between the answers of one seat in episodes of one group.

    Of every two such parts whose returns differ, the first turn at which their answers differ, if
    all that the seat was shown up to there is the same: the answer of the part that was paid more
    is chosen. A chosen answer must be legal, and neither may have been cut short.
    """
    groups: dict[tuple[str, str, str], list[Part]] = defaultdict(list)
    for part in found:
        groups[part.episode.env, part.episode.request.group, part.seat].append(part)
    made: list[Pair] = []
    for members in groups.values():
        for one, other in combinations(members, 2):
            if one.paid != other.paid:
                better, worse = (one, other) if one.paid > other.paid else (other, one)
                made += _first_difference(better, worse)
    if not made:
        raise ConfigError(
            "data.run: no two episodes of one group differ in a seat's first other answer and in "
            "its return; a run with train.group_size above 1 has such groups"
        )
    return made


def _first_difference(better: Part, worse: Part) -> list[Pair]:
    """The pair that the two parts make, if any."""
    before: list[Turn] = []
    for good, bad in zip(better.turns, worse.turns, strict=False):
        if good.observation != bad.observation:
            return []
        if good.text != bad.text:
            if not _good(good) or bad.finish != "stop":
                return []
            asked = (*(turn.observation for turn in before), good.observation)
            said = tuple(Answer(turn.text) for turn in before)
            return [Pair(asked, said, good.text, bad.text)]
        before.append(good)
    return []


def _good(turn: Turn) -> bool:
    return turn.legal and turn.trainable and turn.finish == "stop"
