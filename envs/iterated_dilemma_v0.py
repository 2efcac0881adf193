"""The iterated prisoner's dilemma: both seats choose at once, round after round.

A round pays `reward` (3) to each if both cooperate and `punishment` (1) to each if both defect,
else `temptation` (5) to the one that defects and `sucker` (0) to the other. With T > R > P > S and
2R > T + S (Axelrod 1984) defecting pays more whatever the other does, and the two together have the
most when both cooperate. Each is shown the rounds before, all or the last `memory`. There are
`rounds` of them, which both know, so the last is the end by the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentinker.env import ParallelTextEnv
from opentinker.errors import ConfigError

SEATS = ("player_0", "player_1")
ACTIONS = ("cooperate", "defect")


class IteratedDilemma(ParallelTextEnv):
    """The infostate is seat, round, and the rounds that are shown, the own choice first.

    As `"player_0:1"` or `"player_1:2:defect-cooperate"`.
    """

    name = "iterated_dilemma_v0"
    seats = SEATS
    words = ACTIONS

    def __init__(
        self,
        *,
        rounds: int = 5,
        memory: int | None = None,
        temptation: float = 5.0,
        reward: float = 3.0,
        punishment: float = 1.0,
        sucker: float = 0.0,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        for option, value, least in (("rounds", rounds, 1), ("memory", memory, 0)):
            if value is not None and value < least:
                raise ConfigError(f"{self.name} with {option}={value!r}; at least {least}")
        if not temptation > reward > punishment > sucker or not 2 * reward > temptation + sucker:
            raise ConfigError(
                f"{self.name} with temptation={temptation!r}, reward={reward!r}, punishment="
                f"{punishment!r}, sucker={sucker!r}; a dilemma has T > R > P > S and 2R > T + S"
            )
        self._rounds = rounds
        self._memory = rounds if memory is None else memory
        self._pays = {
            ("cooperate", "cooperate"): reward,
            ("cooperate", "defect"): sucker,
            ("defect", "cooperate"): temptation,
            ("defect", "defect"): punishment,
        }
        self.worst_reward = min(0.0, rounds * sucker) - 1.0  # less than a sucker gets to the end
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        self._played: list[Mapping[str, str]] = []

    def describe(self, seat: str) -> str:
        text = f"Prisoner's dilemma. You are {seat}. Paid: "
        text += ", ".join(f"{mine} {yours} {x:g}" for (mine, yours), x in self._pays.items()) + ". "
        for number, (mine, yours) in self._shown(seat):
            text += f"Round {number}: you {mine}, they {yours}. "
        if self._over:
            return text + "The game is over."
        text += f"Round {len(self._played) + 1} of {self._rounds}: "
        return text + "Answer [cooperate] or [defect]."

    def legal(self, seat: str) -> tuple[str, ...]:
        return ACTIONS

    def infostate(self, seat: str) -> str:
        shown = ("-".join(choices) for _, choices in self._shown(seat))
        return ":".join([seat, str(len(self._played) + 1), *shown])

    def play(self, actions: Mapping[str, str]) -> None:
        self._played.append(actions)
        for seat in SEATS:
            self.reward(seat, self._pays[_seen(seat, actions)])
        if len(self._played) == self._rounds:
            self.finish()

    def picture(self) -> str:
        return "; ".join("-".join(_seen(SEATS[0], actions)) for actions in self._played) or "-"

    def _shown(self, seat: str) -> list[tuple[int, tuple[str, str]]]:
        """The rounds that the seat is shown, with their numbers."""
        first = max(0, len(self._played) - self._memory)
        return [(k + 1, _seen(seat, self._played[k])) for k in range(first, len(self._played))]


parallel_env = IteratedDilemma


def _seen(seat: str, actions: Mapping[str, str]) -> tuple[str, str]:
    """The own choice, and the other's."""
    return actions[seat], actions[SEATS[1 - SEATS.index(seat)]]
