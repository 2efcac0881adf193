"""REINFORCE: what was paid from each turn on, discounted, less a running mean where asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from opentinker.experience.estimator import Credit
from opentinker.experience.returns import returns_to_go, share
from opentinker.types import Play

DECAY = 0.95
"""of the running means, as in SPIRAL (arXiv 2506.24119)"""


class ReturnToGo:
    """G_k = r_k + gamma * G_(k+1), turn by turn (Williams 1992).

    With `baseline`, G_k - b and then b <- 0.95 * b + 0.05 * G_k, for each env, seat and turn index:
    the baseline is read before it is updated, play after play in the order given, and starts at 0.
    """

    needs_values: ClassVar[bool] = False

    def __init__(self, gamma: float = 1.0, baseline: bool = False) -> None:
        self._gamma = share("return_to_go", "gamma", gamma)
        self._baseline = baseline
        self._baselines: dict[tuple[str, str, int], float] = {}

    def advantages(self, plays: Sequence[Play]) -> Credit:
        found = []
        for play in plays:
            values = returns_to_go(play.rewards, self._gamma)
            if self._baseline:
                for k, value in enumerate(values.tolist()):
                    values[k] -= self._read_and_update((play.env, play.seat, k), value)
            found.append(values)
        return Credit(found)

    def state(self) -> dict[str, Any]:
        return {"baselines": [[*where, b] for where, b in self._baselines.items()]}

    def load(self, state: Mapping[str, Any]) -> None:
        self._baselines = {(env, seat, k): float(b) for env, seat, k, b in state["baselines"]}

    def _read_and_update(self, where: tuple[str, str, int], value: float) -> float:
        baseline = self._baselines.get(where, 0.0)
        self._baselines[where] = DECAY * baseline + (1.0 - DECAY) * value
        return baseline


build = ReturnToGo
