"""A Lewis signalling game: sender and receiver must invent a code (Lewis 1969).

In each round `sender_0` sees one of `objects` things, drawn evenly, and says one of `signals` words
that mean nothing; `receiver_0` hears the word and names a thing. Both are paid 1 if it is the right
one, else 0. Then both learn what it was. The best that can be reached is
min(1, signals / objects) a round; without a code it is 1 / objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.env import TextEnv
from opentinker.game import Chance, Decision, Node, Terminal
from opentinker.options import whole

NAME = "signalling_v0"
SENDER, RECEIVER = SEATS = ("sender_0", "receiver_0")
OBJECTS = ("sun", "moon", "star", "tree", "fish", "bird", "rain", "fire")
SIGNALS = ("ba", "du", "ki", "lo", "me", "ru", "ta", "zo")


class Signalling(TextEnv):
    """The infostate is what the seat sees now, after what it saw in the rounds before."""

    name = NAME
    seats = SEATS
    words = (*OBJECTS[:3], *SIGNALS[:3])

    def __init__(
        self,
        *,
        objects: int = 3,
        signals: int = 3,
        rounds: int = 1,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.objects = OBJECTS[: whole(NAME, "objects", objects, 2, len(OBJECTS))]
        self.signals = SIGNALS[: whole(NAME, "signals", signals, 1, len(SIGNALS))]
        self.rounds = whole(NAME, "rounds", rounds, 1)
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        self.past: list[tuple[str, str, str]] = []
        self._draw()

    def describe(self, seat: str) -> str:
        if seat == SENDER:
            text = "You see a thing and say a word; the other one must guess the thing."
        else:
            text = "The other one sees a thing and says a word; guess the thing."
        for thing, word, guess in self.past:
            text += f"\nIt was {thing}, the word {word}, the guess {guess}."
        if len(self.past) == self.rounds:
            return f"{text}\nThe game is over."
        if seat == SENDER:
            return f"{text}\nYou see: {self.thing}. Say {_tags(self.signals)}."
        if self.word is None:
            return f"{text}\nNo word was said yet."
        return f"{text}\nThe word: {self.word}. Guess {_tags(self.objects)}."

    def legal(self, seat: str) -> Sequence[str]:
        return self.signals if seat == SENDER else self.objects

    def infostate(self, seat: str) -> str:
        past = ["-".join(each) for each in self.past]
        now = f"sees {self.thing}" if seat == SENDER else f"hears {self.word}"
        return ":".join([*past, now])

    def play(self, seat: str, action: str) -> None:
        if seat == SENDER:
            self.word = action
            return
        assert self.word is not None
        for each in SEATS:
            self.reward(each, float(action == self.thing))
        self.past.append((self.thing, self.word, action))
        if len(self.past) == self.rounds:
            self.finish()
        else:
            self._draw()

    def _draw(self) -> None:
        self.thing = self.objects[self.rng.integers(len(self.objects))]
        self.word: str | None = None


def env(**options: Any) -> Signalling:
    return Signalling(**options)


def game_tree(objects: int = 3, signals: int = 3) -> Node:
    """One round; the default is the env's."""
    things, words = OBJECTS[:objects], SIGNALS[:signals]
    return Chance(tuple((1 / objects, _sends(thing, things, words)) for thing in things))


def _sends(thing: str, things: Sequence[str], words: Sequence[str]) -> Node:
    return Decision(
        SENDER,
        f"sees {thing}",
        {
            word: Decision(
                RECEIVER,
                f"hears {word}",
                {guess: Terminal(dict.fromkeys(SEATS, float(guess == thing))) for guess in things},
            )
            for word in words
        },
    )


def _tags(names: Sequence[str]) -> str:
    return " ".join(f"[{name}]" for name in names)
