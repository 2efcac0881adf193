"""Which turn a reward belongs to: the last that the seat took before the reward came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real

from opentinker.errors import EnvironmentFault


class RewardLedger:
    """The rewards of one episode, turn by turn.

    What a seat is paid before its first turn is kept for that turn, so that the rewards of its
    turns sum to its return. A seat that never had a turn still has a return.
    """

    def __init__(self, seats: Iterable[str]) -> None:
        self._turns: dict[str, list[float]] = {seat: [] for seat in seats}
        self._early: dict[str, float] = dict.fromkeys(self._turns, 0.0)

    def turn(self, seat: str) -> int:
        """Note that `seat` takes a turn, and give its index among the seat's turns."""
        turns = self._turns[seat]
        turns.append(0.0 if turns else self._early[seat])
        return len(turns) - 1

    def pay(self, rewards: Mapping[str, float]) -> None:
        """Add what the env paid since it was last asked; seats may be missing.

        Raises `EnvironmentFault` for a reward that is not a finite number or a seat that is not
        known.
        """
        for seat, reward in rewards.items():
            if seat not in self._turns:
                raise EnvironmentFault(
                    f"the env paid {reward!r} to unknown seat {seat!r}; "
                    f"the seats are {', '.join(self._turns)}"
                )
            if not isinstance(reward, Real) or not math.isfinite(reward):
                raise EnvironmentFault(
                    f"the env paid seat {seat!r} {reward!r}; a reward is a finite number"
                )
            turns = self._turns[seat]
            if turns:
                turns[-1] += float(reward)
            else:
                self._early[seat] += float(reward)

    def rewards(self, seat: str) -> list[float]:
        """The reward of each turn that `seat` took."""
        return list(self._turns[seat])

    def returns(self) -> dict[str, float]:
        """What each seat was paid in all: the sum, in order, of the rewards of its turns."""
        return {
            seat: sum(turns) if turns else self._early[seat] for seat, turns in self._turns.items()
        }
