"""SPIRAL's role-conditioned advantage: a return against a running mean of its env and seat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from opentinker.errors import ConfigError
from opentinker.experience.estimator import Credit, every_turn
from opentinker.types import Play


class RoleBaseline:
    """R - b, then b <- decay * b + (1 - decay) * R, for each env and seat (arXiv 2506.24119).

    The baseline is read before it is updated, play after play in the order given, and starts at 0.
    """

    needs_values: ClassVar[bool] = False

    def __init__(self, decay: float = 0.95) -> None:
        if not 0.0 <= decay < 1.0:
            raise ConfigError(f"role_baseline: decay is {decay}; allowed: 0 <= decay < 1")
        self._decay = decay
        self._baselines: dict[tuple[str, str], float] = {}

    def advantages(self, plays: Sequence[Play]) -> Credit:
        values = []
        for play in plays:
            role = (play.env, play.seat)
            baseline = self._baselines.get(role, 0.0)
            total = float(play.rewards.sum())
            values.append(total - baseline)
            self._baselines[role] = self._decay * baseline + (1.0 - self._decay) * total
        metrics = {f"baseline/{env}/{seat}": b for (env, seat), b in self._baselines.items()}
        return every_turn(plays, values, metrics)

    def state(self) -> dict[str, Any]:
        return {"baselines": [[env, seat, b] for (env, seat), b in self._baselines.items()]}

    def load(self, state: Mapping[str, Any]) -> None:
        self._baselines = {(env, seat): float(b) for env, seat, b in state["baselines"]}


build = RoleBaseline
