"""A contextual bandit: one look, one choice; the smallest env in which something can be learned.

The seat is shown one of `contexts`, drawn evenly, and names one of `arms`. Each context has one
best arm, fixed by `best`: it pays 1, any other 0. With `noise` this is turned round in that share
of the games. `reset(options={"context": "red"})` shows this context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.env import TextEnv
from opentinker.errors import ConfigError


class Bandit(TextEnv):
    """One seat, one turn; the infostate is the context.

    `best` maps each context to its arm; None gives the arms out in order, over and over.
    """

    name = "bandit_v0"
    seats = ("player_0",)

    def __init__(
        self,
        *,
        contexts: Sequence[str] = ("red", "green", "blue"),
        arms: Sequence[str] = ("a", "b", "c"),
        best: Mapping[str, str] | None = None,
        noise: float = 0.0,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._contexts = _distinct("contexts", contexts, 1)
        self._arms = _distinct("arms", arms, 2)
        self.best = _best(self._contexts, self._arms, best)
        self._noise = _checked(noise)
        self.words = self._arms
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        drawn = self._contexts[self.rng.integers(len(self._contexts))]
        self.context = options.get("context", drawn)
        if self.context not in self._contexts:
            raise ConfigError(f"context {self.context!r} is not one of {', '.join(self._contexts)}")
        self._chosen = ""

    def describe(self, seat: str) -> str:
        if self._over:
            return f"You saw {self.context} and chose {self._chosen or '-'}. The game is over."
        return f"You see {self.context}. Answer {' or '.join(f'[{arm}]' for arm in self._arms)}."

    def legal(self, seat: str) -> tuple[str, ...]:
        return self._arms

    def infostate(self, seat: str) -> str:
        return self.context

    def play(self, seat: str, action: str) -> None:
        self._chosen = action
        turned = self.rng.random() < self._noise
        self.reward(seat, float((action == self.best[self.context]) != turned))
        self.finish()

    def picture(self) -> str:
        return f"saw {self.context}, best {self.best[self.context]}, chose {self._chosen or '-'}"


env = Bandit


def best_score(noise: float = 0.0) -> float:
    """The expected reward of the best arms; no way of choosing has more."""
    return 1.0 - _checked(noise)


def _distinct(option: str, names: Sequence[str], least: int) -> tuple[str, ...]:
    if isinstance(names, str) or len(names) < least or len(set(names)) < len(names):
        raise ConfigError(f"bandit_v0 with {option}={names!r}; at least {least}, all different")
    return tuple(names)


def _best(
    contexts: Sequence[str], arms: Sequence[str], best: Mapping[str, str] | None
) -> dict[str, str]:
    if best is None:
        return {context: arms[i % len(arms)] for i, context in enumerate(contexts)}
    if set(best) != set(contexts) or not set(best.values()) <= set(arms):
        raise ConfigError(
            f"bandit_v0 with best={dict(best)!r}; each context ({', '.join(contexts)}) has one of "
            f"the arms ({', '.join(arms)})"
        )
    return dict(best)


def _checked(noise: float) -> float:
    if not 0.0 <= noise < 0.5:
        raise ConfigError(f"bandit_v0 with noise={noise!r}; allowed: 0 to below 0.5")
    return noise
