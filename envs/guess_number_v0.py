"""Guess the number: one seat, a number from 1 to `high`; each wrong guess is told where it is.

All numbers are equally likely. The right guess pays 1 and ends the game; a wrong one costs `cost`
and is answered higher or lower; after `guesses` wrong ones the game is over, too. Any number may be
guessed at any time, also one that is ruled out. By default there are just enough guesses for
halving to find every number. `reset(options={"number": 3})` sets the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from opentinker.env import TextEnv
from opentinker.errors import ConfigError


class GuessNumber(TextEnv):
    """The infostate is `"start"`, then the guesses with their answers, as `"4:higher-6:lower"`."""

    name = "guess_number_v0"
    seats = ("player_0",)

    def __init__(
        self,
        *,
        high: int = 8,
        guesses: int | None = None,
        cost: float = 0.1,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._guesses = _checked(high, guesses, cost)
        self._cost = cost
        self._numbers = tuple(str(number) for number in range(1, high + 1))
        self.words = self._numbers
        self.worst_reward = -1.0 - cost * self._guesses  # no way of guessing loses as much
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        drawn = self._numbers[self.rng.integers(len(self._numbers))]
        self.number = str(options.get("number", drawn))
        if self.number not in self._numbers:
            raise ConfigError(f"number {self.number} is not one of 1 to {self._numbers[-1]}")
        self._told: list[tuple[str, str]] = []

    def describe(self, seat: str) -> str:
        text = f"Guess the number from 1 to {self._numbers[-1]}. "
        text += "".join(f"It is {answer} than {guess}. " for guess, answer in self._told)
        if self._over:
            return f"{text}It was {self.number}. The game is over."
        numbers = " ".join(f"[{number}]" for number in self._numbers)
        left = self._guesses - len(self._told)
        return f"{text}Guesses left: {left}. Answer one of {numbers}."

    def legal(self, seat: str) -> tuple[str, ...]:
        return self._numbers

    def infostate(self, seat: str) -> str:
        return "-".join(f"{guess}:{answer}" for guess, answer in self._told) or "start"

    def play(self, seat: str, action: str) -> None:
        if action == self.number:
            self.reward(seat, 1.0)
            self.finish()
            return
        answer = "higher" if int(self.number) > int(action) else "lower"
        self._told.append((action, answer))
        self.reward(seat, -self._cost)
        if len(self._told) == self._guesses:
            self.finish()

    def picture(self) -> str:
        wrong = " ".join(guess for guess, _ in self._told)
        return f"number {self.number}, wrong guesses {wrong or '-'}"


env = GuessNumber


def best_score(high: int = 8, guesses: int | None = None, cost: float = 0.1) -> float:
    """The largest expected return of any way of guessing, by dynamic programming.

    What counts is how many numbers are still possible and how many guesses are left: a number that
    is ruled out is never worth a guess.
    """

    @cache
    def total(possible: int, left: int) -> float:
        """The most that can still be had, summed over the possible numbers."""
        if not possible or not left:
            return 0.0
        splits = range(possible)
        later = max(total(i, left - 1) + total(possible - 1 - i, left - 1) for i in splits)
        return 1.0 - cost * (possible - 1) + later

    return total(high, _checked(high, guesses, cost)) / high


def _checked(high: int, guesses: int | None, cost: float) -> int:
    """How many guesses there are; ConfigError for options that make no game."""
    for option, value in (("high", high), ("guesses", guesses)):
        if value is not None and value < 1:
            raise ConfigError(f"guess_number_v0 with {option}={value!r}; at least 1 is needed")
    if not 0.0 <= cost <= 1.0:
        raise ConfigError(f"guess_number_v0 with cost={cost!r}; allowed: 0 to 1")
    return high.bit_length() if guesses is None else guesses
