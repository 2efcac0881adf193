"""Team shares: a seat learns from its own rewards and from the mean of its team's."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.experience.trajectories import turn_rewards
from opentinker.types import Episode, Turn


@dataclass(frozen=True, slots=True)
class _Paid:
    """What one seat was paid, turn by turn, and when it took each turn."""

    moments: list[int]
    """[K]"""
    rewards: list[float]
    """[K]"""
    rest: float
    """what it was paid beside: everything when it never had a turn"""


def check_teams(seats: Iterable[str], teams: Sequence[Sequence[str]]) -> None:
    """Raise `ConfigError` for a team without seats, an unknown seat, or one named twice."""
    seats = list(seats)
    found: dict[str, Sequence[str]] = {}
    for team in teams:
        if not team:
            raise ConfigError("a team has no seats; leave it out, or name some")
        for seat in team:
            if seat not in seats:
                raise UnknownNameError("seat in a team", seat, seats)
            if seat in found:
                raise ConfigError(
                    f"seat {seat!r} is named twice in the teams: in {', '.join(found[seat])} and "
                    f"in {', '.join(team)}; a seat is in one team"
                )
            found[seat] = team


def share_rewards(episode: Episode, weight: float, teams: Sequence[Sequence[str]]) -> Episode:
    """The episode with each turn's reward as the seat is to learn from it.

    Turn by turn (1 - `weight`) times the own reward plus `weight` times the mean over the team, so
    that a seat's turns sum to (1 - weight) * own return + weight * mean return of its team. Without
    `teams` all seats are one; a seat in no team is alone. `returns` stay what the env paid, and
    with a weight of 0 the episode is returned as it is.

    A teammate's reward belongs to the last turn that the seat took before it came, as its own do.
    What is known of when it came: after the teammate's turn that holds it, and before the
    teammate's next one. The latest is taken, so that no turn misses a reward that it may have
    caused; at the seat's first turn where it had none before. What a teammate without turns was
    paid comes at the end.

    Raises `ConfigError` for a weight outside 0 to 1 and as `check_teams` does, ValueError for a
    reward that is not finite.
    """
    if not 0.0 <= weight <= 1.0:
        raise ConfigError(f"the team's share is {weight}; allowed: 0 <= share <= 1")
    check_teams(episode.returns, teams)
    if weight == 0.0:
        return episode
    paid = _paid(episode)
    shares: dict[str, list[float]] = {}
    for team in teams or [list(paid)]:
        for seat in team:
            shares[seat] = _shares(seat, team, paid, weight)
    numbers = dict.fromkeys(paid, 0)
    turns = []
    for turn in episode.turns:
        own = shares.get(turn.seat)
        turns.append(turn if own is None else replace(turn, reward=own[numbers[turn.seat]]))
        numbers[turn.seat] += 1
    return replace(episode, turns=tuple(turns))


def _paid(episode: Episode) -> Mapping[str, _Paid]:
    turns: dict[str, list[Turn]] = {seat: [] for seat in episode.returns}
    moments: dict[str, list[int]] = {seat: [] for seat in episode.returns}
    for turn in episode.turns:
        turns[turn.seat].append(turn)
        moments[turn.seat].append(turn.moment)
    found = {}
    for seat, total in episode.returns.items():
        rewards = turn_rewards(episode, seat, turns[seat]).tolist()
        found[seat] = _Paid(moments[seat], rewards, total - sum(rewards))
    return found


def _shares(
    seat: str, team: Sequence[str], paid: Mapping[str, _Paid], weight: float
) -> list[float]:
    """[K] what the seat's turns are worth to it; empty when it had none."""
    own = paid[seat].moments
    found = [0.0] * len(own)
    if not own:
        return found
    for name in team:
        member = paid[name]
        part = weight / len(team) + (1.0 - weight if name == seat else 0.0)
        ends = [*member.moments[1:], math.inf]
        for reward, end in zip(member.rewards, ends, strict=False):
            found[max(0, bisect_left(own, end) - 1)] += part * reward
        found[-1] += part * member.rest
    return found
