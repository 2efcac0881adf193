"""PettingZoo's rock, paper, scissors: both seats choose at once.

Seats `player_0` and `player_1`; a round pays 1 to the winner, -1 to the loser, 0 for a draw. One
round is a game unless `rounds` says otherwise; the last round is the end by the rules, so it is a
termination here, where PettingZoo (`max_cycles`, 15 by default) calls it a truncation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentinker.errors import ConfigError
from opentinker.game import Decision, Node, Terminal
from opentinker.view import Moves, ViewedParallelEnv, pettingzoo_maker

SEATS = ("player_0", "player_1")
NAMES = ("rock", "paper", "scissors")
"""In the order of PettingZoo's actions: each is beaten by the one after it."""


@dataclass(frozen=True, slots=True)
class RpsView:
    """Tells the rounds so far; the infostate is the seat, then both choices of each round."""

    rounds: int

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        other = SEATS[1 - SEATS.index(seat)]
        text = f"Rock, paper, scissors. You are {seat}. "
        for number, choices in enumerate(moves, start=1):
            text += f"Round {number}: you chose {choices[seat]}, {other} chose {choices[other]}. "
        if len(moves) >= self.rounds:
            return text + "The game is over."
        now = f"Round {len(moves) + 1} of {self.rounds}: " if self.rounds > 1 else ""
        return f"{text}{now}Answer {' or '.join(f'[{name}]' for name in NAMES)}."

    def legal(self, env: Any, seat: str) -> tuple[str, ...]:
        return NAMES

    def action(self, env: Any, seat: str, name: str) -> int:
        return NAMES.index(name)

    def infostate(self, env: Any, seat: str, moves: Moves) -> str:
        other = SEATS[1 - SEATS.index(seat)]
        return ":".join([seat, *(f"{choices[seat]}-{choices[other]}" for choices in moves)])


def parallel_env(
    *, rounds: int = 1, illegal: str | None = None, render_mode: str | None = None
) -> ViewedParallelEnv:
    if rounds < 1:
        raise ConfigError(f"rps_v2 with rounds={rounds!r}; at least 1 is played")
    return ViewedParallelEnv(
        pettingzoo_maker("parallel", "classic/rps-v2", max_cycles=rounds),
        RpsView(rounds),
        length_is_rule=True,
        words=NAMES,
        illegal=illegal,
        render_mode=render_mode,
    )


def game_tree() -> Node:
    """One round: player_0 chooses, then player_1 without knowing what."""
    return Decision(
        SEATS[0],
        SEATS[0],
        {
            mine: Decision(
                SEATS[1],
                SEATS[1],
                {yours: Terminal(_payoff(mine, yours)) for yours in NAMES},
            )
            for mine in NAMES
        },
    )


def equilibrium() -> dict[str, dict[str, float]]:
    """The only one: each a third of the time."""
    return {seat: dict.fromkeys(NAMES, 1 / 3) for seat in SEATS}


def _payoff(mine: str, yours: str) -> dict[str, float]:
    ahead = (NAMES.index(mine) - NAMES.index(yours)) % 3
    first = {0: 0.0, 1: 1.0, 2: -1.0}[ahead]
    return {SEATS[0]: first, SEATS[1]: -first}
