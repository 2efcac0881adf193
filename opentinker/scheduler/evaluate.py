"""What policies are worth: against fixed opponents by play, and exactly by solving the game."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opentinker.analysis.infostates import StatePrompt, tabulate
from opentinker.analysis.solve import AveragePolicy, exploitability, uniform
from opentinker.game import Node, Table
from opentinker.types import Episode, EpisodeRequest

Play = Callable[[list[EpisodeRequest]], Coroutine[Any, Any, list[Episode]]]


@dataclass(frozen=True, slots=True)
class Match:
    """One policy in one seat, all other seats held by one opponent."""

    policy: str
    seat: str
    against: str
    episodes: int
    reward: float
    """mean return of the seat; NaN when no episode was usable"""
    stderr: float
    illegal: float
    """share of the seat's turns that were not legal"""


async def play_matches(
    play: Play,
    cast: Mapping[str, str],
    policies: Sequence[str],
    opponents: Sequence[str],
    episodes: int,
    seed: int,
) -> list[Match]:
    """Each policy in each of its seats against each opponent, all episodes in flight at once.

    The seeds are the same at every call, so that two evaluations differ by the policies alone.
    """
    asked = [
        (against, seat, EpisodeRequest(f"eval-{against}-{seat}-{i}", f"eval-{i}", seed + i, table))
        for against in opponents
        for seat, policy in cast.items()
        if policy in policies
        for table in [{each: policy if each == seat else against for each in cast}]
        for i in range(episodes)
    ]
    played = await play([request for _, _, request in asked])
    matches: dict[tuple[str, str], list[Episode]] = {}
    for (against, seat, _), episode in zip(asked, played, strict=True):
        matches.setdefault((against, seat), []).append(episode)
    return [_match(cast[seat], seat, against, found) for (against, seat), found in matches.items()]


def _match(policy: str, seat: str, against: str, episodes: Sequence[Episode]) -> Match:
    usable = [e for e in episodes if e.outcome != "failed"]
    returns = np.array([e.returns[seat] for e in usable], dtype=np.float64)
    turns = [turn.legal for e in usable for turn in e.turns if turn.seat == seat]
    few = len(returns) < 2
    return Match(
        policy,
        seat,
        against,
        len(returns),
        float(returns.mean()) if len(returns) else math.nan,
        math.nan if few else float(returns.std(ddof=1) / math.sqrt(len(returns))),
        1.0 - sum(turns) / len(turns) if turns else 0.0,
    )


class ExactScore:
    """Exploitability of what the cast plays now, and of the average of its iterates.

    `prompts` are those of every information state of `tree`; `cast` maps seats to policies.
    """

    def __init__(
        self, tree: Node, prompts: Mapping[str, StatePrompt], cast: Mapping[str, str]
    ) -> None:
        self._tree = tree
        self._prompts = prompts
        self._cast = cast
        self._average = AveragePolicy(tree)

    def reference(self) -> dict[str, float]:
        """What uniform play is worth, to compare with."""
        return {"uniform": exploitability(self._tree, uniform(self._tree))}

    def sequences(self, policy: str) -> tuple[list[tuple[str, str]], list[tuple[Any, Any]]]:
        """The (state, action) pairs that `policy` decides, and each one's (prompt, answer) ids."""
        names, sequences = [], []
        for name, state in self._prompts.items():
            if self._cast[state.seat] == policy:
                for action, answer in state.answers.items():
                    names.append((name, action))
                    sequences.append((state.prompt_ids, answer))
        return names, sequences

    def state(self) -> dict[str, Any]:
        """The average of iterates, as JSON values."""
        return self._average.state()

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._average.load(state)

    def measure(
        self, scores: Mapping[tuple[str, str], Sequence[float]], *, count: bool
    ) -> tuple[dict[str, float], Table]:
        """The metrics, and the table of all seats; `count` adds it to the average of iterates."""
        table, illegal = tabulate(self._prompts, scores)
        if count:
            self._average.add(table)
        mean = self._average.policy() if count else table
        metrics = {
            "exploitability": exploitability(self._tree, table),
            "exploitability_average": exploitability(self._tree, mean),
            "illegal_mass": illegal,
        }
        return metrics, table
