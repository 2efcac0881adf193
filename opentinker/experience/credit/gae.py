"""GAE: what turned out beyond what a critic expected, exponentially averaged over turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opentinker.experience.estimator import Credit, Memoryless, turn_by_turn
from opentinker.experience.returns import alike, share, standardized
from opentinker.types import Play


class GAE(Memoryless):
    """A_k = sum over l of (gamma * lam)^l * delta_(k+l), turn by turn (arXiv 1506.02438).

    delta_k = r_k + gamma * V_(k+1) - V_k. The value after the last turn is 0; in a truncated
    episode, whose next state nobody saw, it is that of the last turn again. The critic's targets
    are A + V, before advantages are standardized over the update (`normalize`).

    A turn whose value is NaN is not the policy's to train, and is passed over: the turn with a
    value before it is taken to last until the next one that has one, so its rewards, the next
    value and the next advantage are discounted by gamma once for each turn between. It gets the
    advantage 0 and the target NaN.
    """

    needs_values: ClassVar[bool] = True

    def __init__(self, gamma: float = 1.0, lam: float = 0.95, normalize: bool = True) -> None:
        self._gamma = share("gae", "gamma", gamma)
        self._lam = share("gae", "lam", lam)
        self._normalize = normalize

    def advantages(self, plays: Sequence[Play]) -> Credit:
        values = np.concatenate([*(_values(play) for play in plays), []])
        trained = ~np.isnan(values)
        found = np.concatenate([*(self._advantages(play) for play in plays), []])
        targets = found + values
        if self._normalize:
            found[trained] = standardized(found[trained])
        return Credit(
            turn_by_turn(plays, found),
            _explained(values[trained], targets[trained]),
            turn_by_turn(plays, targets),
        )

    def _advantages(self, play: Play) -> NDArray[np.float64]:
        """[K] not standardized; 0 for a turn without a value."""
        values = _values(play)
        found = np.zeros(len(values))
        reward, discount = 0.0, 1.0
        next_value = next_advantage = 0.0
        seen = values[~np.isnan(values)]
        if play.truncated and len(seen):
            next_value = float(seen[-1])
        for k in reversed(range(len(values))):
            reward = float(play.rewards[k]) + self._gamma * reward
            discount *= self._gamma
            if np.isnan(values[k]):
                continue
            delta = reward + discount * next_value - values[k]
            found[k] = delta + discount * self._lam * next_advantage
            next_value, next_advantage = values[k], found[k]
            reward, discount = 0.0, 1.0
        return found


def _values(play: Play) -> NDArray[np.float64]:
    if play.values is None or len(play.values) != len(play.rewards):
        count = "no" if play.values is None else len(play.values)
        raise ValueError(
            f"seat {play.seat!r} in episode {play.episode!r} has {count} critic values for "
            f"{len(play.rewards)} turns"
        )
    return play.values


def _explained(values: NDArray[np.float64], targets: NDArray[np.float64]) -> dict[str, float]:
    """1 - Var(target - value) / Var(target); left out where targets do not vary."""
    if alike(targets):
        return {}
    return {"explained_variance": 1.0 - float((targets - values).var() / targets.var())}


build = GAE
