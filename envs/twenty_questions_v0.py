"""Twenty questions: find a secret thing by questions that are answered yes or no.

Alone (`players = 1`): seat `guesser_0` asks one of the listed questions, `[alive]`, and the env
answers; or it guesses, `[guess cat]`. There are 16 things, told apart by their answers to 6
questions.

In two (`players = 2`): `guesser_0` asks anything in its own words, or guesses; `answerer_0` knows
the thing and answers `[yes]` or `[no]`. The env doesn't judge whether that is true.

The guesser has `turns` turns, questions and guesses together. A right guess ends the game and pays
1 less `cost` for each turn before it (never below 0); otherwise the return is 0. In two, both seats
are paid alike. `reset(options={"secret": "cat"})` takes this thing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.answer import Reading, parse_answer
from opentinker.env import TextEnv
from opentinker.options import number, one_of, whole

NAME = "twenty_questions_v0"
GUESSER, ANSWERER = "guesser_0", "answerer_0"
QUESTIONS: Mapping[str, frozenset[str]] = {
    "alive": frozenset(["cat", "dog", "cow", "eagle", "duck", "shark", "frog", "oak", "rose"]),
    "animal": frozenset(["cat", "dog", "cow", "eagle", "duck", "shark", "frog"]),
    "big": frozenset(["cow", "shark", "oak", "car", "plane", "boat", "house"]),
    "flies": frozenset(["eagle", "duck", "plane", "kite"]),
    "swims": frozenset(["duck", "shark", "frog", "boat", "dog"]),
    "at home": frozenset(["cat", "dog", "rose", "spoon", "house"]),
}
"""Each question, and the things for which its answer is yes."""
THINGS = (
    *("cat", "dog", "cow", "eagle", "duck", "shark", "frog", "oak"),
    *("rose", "car", "plane", "boat", "house", "kite", "spoon", "stone"),
)


class TwentyQuestions(TextEnv):
    name = NAME
    worst_reward = -1.0
    words = (*QUESTIONS, "guess cat", "guess oak", "yes", "no")

    def __init__(
        self,
        *,
        players: int = 1,
        turns: int = 20,
        cost: float = 0.0,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.seats = (GUESSER, ANSWERER)[: whole(NAME, "players", players, 1, 2)]
        self.turns = whole(NAME, "turns", turns, 1)
        self.cost = number(NAME, "cost", cost, 0.0, 1.0)
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        drawn = THINGS[self.rng.integers(len(THINGS))]
        self.secret = one_of(NAME, "secret", options.get("secret", drawn), THINGS)
        self.log: list[tuple[str, str]] = []
        self.open = ""
        self.outcome = ""

    def describe(self, seat: str) -> str:
        text = f"Twenty questions. The thing is one of {', '.join(THINGS)}."
        if seat == ANSWERER:
            text += f" It is: {self.secret}."
        text += "".join(f"\n{asked} {answer}." for asked, answer in self.log)
        if self.outcome:
            return f"{text}\n{self.outcome}"
        if seat == ANSWERER:
            asked = f"Asked: {self.open}\nAnswer [yes] or [no]." if self.open else "Wait."
            return f"{text}\n{asked}"
        if self.alone:
            how = f"Ask {' '.join(f'[{question}]' for question in QUESTIONS)}, or guess"
        else:
            how = "Ask a question to be answered yes or no, or guess"
        return f"{text}\nTurns left: {self.turns - len(self.log)}. {how}, as [guess {THINGS[0]}]."

    def legal(self, seat: str) -> Sequence[str] | None:
        if seat == ANSWERER:
            return ("yes", "no")
        guesses = [f"guess {thing}" for thing in THINGS]
        return [*QUESTIONS, *guesses] if self.alone else None

    def read(self, seat: str, answer: str) -> Reading:
        if seat == ANSWERER or self.alone:
            return parse_answer(answer, self._legal(seat))
        guess = re.search(r"\[\s*guess\s+(\w+)\s*\]", answer, flags=re.IGNORECASE)
        return Reading(f"guess {guess[1].lower()}" if guess else answer)

    def play(self, seat: str, action: str) -> None:
        if seat == ANSWERER:
            self._answered(action)
        elif action.startswith("guess "):
            self._guessed(action.removeprefix("guess "))
        else:
            self.open = " ".join(action.split())[:200]
            if self.alone:
                self._answered("yes" if self.secret in QUESTIONS[action] else "no")

    @property
    def alone(self) -> bool:
        return len(self.seats) == 1

    def _guessed(self, thing: str) -> None:
        right = thing == self.secret
        self.log.append((f"guess {thing}:", "right" if right else "wrong"))
        if right:
            for each in self.seats:
                self.reward(each, max(0.0, 1.0 - self.cost * (len(self.log) - 1)))
        self._ended(right)
        if not self.outcome:
            self.next(GUESSER)

    def _answered(self, answer: str) -> None:
        self.log.append((f"{self.open}:", answer))
        self.open = ""
        self._ended(False)

    def _ended(self, right: bool) -> None:
        if right or len(self.log) == self.turns:
            self.outcome = f"The game is over. It was: {self.secret}."
            self.finish()


def env(**options: Any) -> TwentyQuestions:
    return TwentyQuestions(**options)
