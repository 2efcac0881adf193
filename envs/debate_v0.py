"""A debate over a question with a known answer: debaters see evidence, the judge or a vote decides.

Seats `debater_0` to `debater_{debaters-1}` and, with `judge`, `judge`. A question has two or more
choices and some numbered facts. The seats speak when the protocol asks them (silence is ""); the
episode ends with the verdict. After 100 steps without one it is truncated.

With a judge: all debaters see all facts, the judge sees none. A debater that says a fact's number
as a tag, `[2]`, shows that fact, as it really is, to the judge; the first such tag of a speech
counts. The judge answers with a choice. It is paid 1 if it is right, else 0. `pay = "zero_sum"`:
each debater argues for one choice, in turn over the choices (as they are listed with
`sides = "fixed"`, drawn anew each time with "drawn"); those of the chosen side share 1, the others
share -1; nobody is paid if all or none stand on it. `pay = "together"`: each debater
is paid 1 if the judge is right, else 0. With `speech = "quote"` a fact's number is all that
debaters may say.

Without a judge: the facts are dealt out, fact k to debater k mod `debaters`, each seen by its
holder only; with `shared` all see all. Debaters talk in `speak` stages, which the env does not
hear, and vote with a choice when they are asked to move. Once all have voted, each is paid the
same: with `pay = "together"` 1 if the right choice has more votes than any other, else 0; with
`pay = "share"` the share of votes that are right.

Questions are made from the seed: `facts` balls, each red or blue, of which colour are most? Or
`file` is a JSONL of `{"question", "choices", "answer", "evidence": [...]}`, drawn by the seed; then
`facts` is not used. `reset(options={"question": {...}})` asks this one, given in the same form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.answer import Reading, parse_answer
from opentinker.env import ParallelTextEnv
from opentinker.errors import ConfigError
from opentinker.options import flag, one_of, whole
from opentinker.records import Record, read_records

NAME = "debate_v0"
JUDGE = "judge"
COLOURS = ("red", "blue")
KEYS = ("question", "choices", "answer", "evidence")
WHERE = {True: "with a judge", False: "without a judge"}
STEPS = 100


class Debate(ParallelTextEnv):
    name = NAME
    kind = "conversation"
    words = COLOURS

    def __init__(
        self,
        *,
        debaters: int = 2,
        judge: bool = True,
        facts: int | None = None,
        pay: str | None = None,
        shared: bool = False,
        speech: str = "free",
        sides: str = "drawn",
        file: str | None = None,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        count = whole(NAME, "debaters", debaters, 1)
        self.debaters = tuple(f"debater_{k}" for k in range(count))
        self.judged = flag(NAME, "judge", judge)
        least = 1 if self.judged or shared else count
        self.facts = whole(NAME, "facts", max(3, count | 1) if facts is None else facts, least)
        if self.facts % 2 == 0:
            raise ConfigError(f"{NAME}: facts is {facts!r}; allowed: an odd number")
        ways = ("zero_sum", "together") if self.judged else ("together", "share")
        self.pay = (
            ways[0] if pay is None else one_of(NAME, f"pay, {WHERE[self.judged]},", pay, ways)
        )
        self.shared = flag(NAME, "shared", shared)
        if self.judged and self.shared:
            raise ConfigError(f"{NAME}: shared is True; with a judge all debaters see all facts")
        if self.pay == "zero_sum":
            whole(NAME, "debaters, for a zero-sum debate,", debaters, 2)
        self.quoting = one_of(NAME, "speech", speech, ("free", "quote")) == "quote"
        self.drawing = one_of(NAME, "sides", sides, ("drawn", "fixed")) == "drawn"
        self.rows = () if file is None else tuple(map(_checked, read_records(file, KEYS)))
        self.seats = (*self.debaters, JUDGE) if self.judged else self.debaters
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        given = options.get("question")
        if given is not None:
            row = _checked(given)
        elif self.rows:
            row = self.rows[self.rng.integers(len(self.rows))]
        else:
            row = self._balls()
        self.question, self.answer = str(row["question"]), str(row["answer"])
        self.choices, self.evidence = list(row["choices"]), list(row["evidence"])
        order = self.rng.permutation(self.choices).tolist() if self.drawing else self.choices
        self.sides = {seat: order[k % len(order)] for k, seat in enumerate(self.debaters)}
        self.shown: list[int] = []
        self.votes: dict[str, str] = {}
        self.verdict: str | None = None
        self.steps = 0

    def describe(self, seat: str) -> str:
        if self.verdict is not None:
            return f"{self.question} The verdict was {self.verdict}; the truth is {self.answer}."
        if not self.judged:
            return f"{self.question} {self._facts(self._held(seat))} Vote {self._tags()}."
        if seat == JUDGE:
            seen = self._facts(self.shown) if self.shown else "No fact was shown."
            return f"{self.question} {seen} Answer {self._tags()}."
        task = (
            "Help the judge to the truth."
            if self.pay == "together"
            else f"Argue for {self.sides[seat]}."
        )
        numbers = " ".join(f"[{k + 1}]" for k in range(len(self.evidence)))
        facts = self._facts(range(len(self.evidence)))
        return f"{self.question} {facts} {task} To show the judge a fact, say {numbers}."

    def legal(self, seat: str) -> Sequence[str] | None:
        if seat == JUDGE or not self.judged:
            return self.choices
        return [str(k + 1) for k in range(len(self.evidence))] if self.quoting else None

    def read(self, seat: str, answer: str) -> Reading:
        return Reading("") if answer == "" else parse_answer(answer, self._legal(seat))

    def play(self, actions: Mapping[str, str]) -> None:
        self.steps += 1
        said = {seat: action for seat, action in actions.items() if action}
        if not self.judged:
            self.votes |= said
            if len(self.votes) == len(self.debaters):
                self._end(_most(list(self.votes.values()), self.choices))
        else:
            for seat in self.debaters:
                fact = self._quoted(said.get(seat, ""))
                if fact is not None and fact not in self.shown:
                    self.shown.append(fact)
            if JUDGE in said:
                self._end(said[JUDGE])
        if self.verdict is None and self.steps >= STEPS:
            self.truncate()

    def _end(self, verdict: str) -> None:
        self.verdict = verdict
        right = float(verdict == self.answer)
        if self.judged:
            self.reward(JUDGE, right)
        if self.pay == "share":
            right = list(self.votes.values()).count(self.answer) / len(self.votes)
        if self.pay != "zero_sum":
            for seat in self.debaters:
                self.reward(seat, right)
        else:
            won = [seat for seat in self.debaters if self.sides[seat] == verdict]
            lost = [seat for seat in self.debaters if self.sides[seat] != verdict]
            for side, amount in ((won, 1.0), (lost, -1.0)) if won and lost else ():
                for seat in side:
                    self.reward(seat, amount / len(side))
        self.finish()

    def _balls(self) -> Record:
        balls = [COLOURS[k] for k in self.rng.integers(0, 2, self.facts)]
        return {
            "question": f"Of {self.facts} balls, are most red or blue?",
            "choices": COLOURS,
            "answer": max(COLOURS, key=balls.count),
            "evidence": [f"ball {k} is {colour}" for k, colour in enumerate(balls, start=1)],
        }

    def _held(self, seat: str) -> range:
        first, step = (0, 1) if self.shared else (self.debaters.index(seat), len(self.debaters))
        return range(first, len(self.evidence), step)

    def _facts(self, numbers: Sequence[int]) -> str:
        return " ".join(f"Fact {k + 1}: {self.evidence[k]}." for k in numbers)

    def _tags(self) -> str:
        return " or ".join(f"[{choice}]" for choice in self.choices)

    def _quoted(self, speech: str) -> int | None:
        """The index of the first fact whose number a speech has as a tag, or is."""
        numbers = [str(k + 1) for k in range(len(self.evidence))]
        if speech in numbers:
            return numbers.index(speech)
        places = {k: speech.find(f"[{number}]") for k, number in enumerate(numbers)}
        found = [k for k, place in places.items() if place >= 0]
        return min(found, key=places.__getitem__) if found else None


def parallel_env(**options: Any) -> Debate:
    return Debate(**options)


def _most(votes: Sequence[str], choices: Sequence[str]) -> str:
    """The choice with most votes, or "a tie"."""
    counts = {choice: votes.count(choice) for choice in choices}
    best = [choice for choice in choices if counts[choice] == max(counts.values())]
    return best[0] if len(best) == 1 else "a tie"


def _checked(row: Any) -> Record:
    if not isinstance(row, Mapping) or any(key not in row for key in KEYS):
        raise ConfigError(f"{NAME}: the question {row!r} lacks some of {', '.join(KEYS)}")
    choices, evidence = row["choices"], row["evidence"]
    for key, texts in (("choices", choices), ("evidence", evidence)):
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"{NAME}: {key} is {texts!r}; allowed: a list of texts")
    if len(set(choices)) < 2 or row["answer"] not in choices or not evidence:
        raise ConfigError(
            f"{NAME}: the question {row!r} needs two or more choices, the answer among them, and "
            f"evidence"
        )
    return dict(row)
