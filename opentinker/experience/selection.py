"""Which episodes and which trajectories are learned from, and how many were not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from opentinker.types import Episode, Trajectory


def usable(episodes: Iterable[Episode]) -> tuple[list[Episode], Mapping[str, float]]:
    """The episodes that did not fail, and how many there were, failed, or were truncated."""
    episodes = list(episodes)
    kept = [episode for episode in episodes if episode.outcome != "failed"]
    counts = {
        "episodes": len(episodes),
        "failed_episodes": len(episodes) - len(kept),
        "truncated_episodes": sum(episode.outcome == "truncated" for episode in kept),
    }
    return kept, counts


def informative(
    trajectories: Sequence[Trajectory],
    advantages: Mapping[tuple[str, str], NDArray[np.float64]],
) -> tuple[list[Trajectory], Mapping[str, float]]:
    """The trajectories with some trained token whose advantage is not 0, and how many were dropped.

    `advantages` holds [K] for each (episode, seat). A loss with an entropy or KL term learns from
    the dropped ones too: this is a choice, not a rule.
    """
    kept = [
        each for each in trajectories if advantages[each.episode, each.seat][_turns(each)].any()
    ]
    return kept, {"zero_advantage_trajectories": len(trajectories) - len(kept)}


def fresh(
    trajectories: Sequence[Trajectory], version: int, max_staleness: int
) -> tuple[list[Trajectory], Mapping[str, float]]:
    """The trajectories without a trained token older than `version` - `max_staleness`.

    `version` is the policy's newest one, which the update starts from. The metrics count the
    trajectories that were dropped, and the trained tokens that went with them.
    """
    kept, stale = [], []
    for each in trajectories:
        trained = each.versions[each.turn >= 0]
        (stale if (trained < version - max_staleness).any() else kept).append(each)
    return kept, {
        "stale_trajectories": len(stale),
        "stale_tokens": sum(len(_turns(each)) for each in stale),
    }


def _turns(trajectory: Trajectory) -> NDArray[np.int32]:
    return trajectory.turn[trajectory.turn >= 0]
