"""Sums to work out, made from a seed or read from a file: one seat, with or without tools.

Seat `solver_0`. The question is `terms` whole numbers of up to `digits` digits joined by operators
drawn from `operations` ("+-*"), multiplication first; or, with `file`, a line of a JSONL of
`{"question": ..., "answer": ...}` drawn by the seed. The answer is a number as a tag, `[42]`, or
alone. A right one pays 1; a wrong one, no number or several different ones 0. With
`tools = ["calculator"]` a call is a turn, its result is seen in the next; `tries` above 1 lets a
wrong answer be mended. `reset(options={"question": ..., "answer": ...})` asks this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from opentinker.errors import ConfigError
from opentinker.options import whole
from opentinker.questions import QuestionEnv, last_number, understand_number
from opentinker.records import read_records

NAME = "arithmetic_v0"


class Arithmetic(QuestionEnv):
    """`rows` are (question, answer) pairs from a file; without them each question is made."""

    name = NAME
    words = ("7", "12", "40")

    def __init__(
        self,
        *,
        digits: int = 2,
        terms: int = 2,
        operations: str = "+-",
        file: str | None = None,
        tools: Sequence[str] = (),
        calls: int = 4,
        tries: int = 1,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.digits = whole(NAME, "digits", digits, 1, 9)
        self.terms = whole(NAME, "terms", terms, 1, 9)
        if not isinstance(operations, str) or not operations or set(operations) - set("+-*"):
            raise ConfigError(f"{NAME}: operations is {operations!r}; allowed: some of '+-*'")
        self.operations = operations
        self.rows = () if file is None else _rows(file)
        super().__init__(
            tools=tools, calls=calls, tries=tries, illegal=illegal, render_mode=render_mode
        )

    def pose(self, options: Mapping[str, Any]) -> None:
        if "question" in options:
            self.asked, self.answer = options["question"], _answer(options, "reset's options")
        elif self.rows:
            self.asked, self.answer = self.rows[self.rng.integers(len(self.rows))]
        else:
            self.asked, self.answer = self._made()

    def question(self) -> str:
        return f"{self.asked}\nAnswer with a number in brackets, like [12]."

    def score(self, answer: str) -> float:
        said = understand_number(answer).action
        return float(said is not None and abs(Fraction(said) - self.answer) <= Fraction(1, 10**6))

    def _made(self) -> tuple[str, Fraction]:
        numbers = self.rng.integers(0, 10**self.digits, self.terms)
        sum_ = str(numbers[0])
        for each in numbers[1:]:
            sum_ += f" {self.operations[self.rng.integers(len(self.operations))]} {each}"
        return f"What is {sum_}?", Fraction(_value(sum_))


def env(**options: Any) -> Arithmetic:
    return Arithmetic(**options)


def _value(sum_: str) -> int:
    """The exact value: products are taken first, then what is left is added up in order."""
    total, sign = 0, 1
    product: int | None = None
    for word in sum_.split():
        if word in "+-":
            total, product = total + sign * (product or 0), None
            sign = 1 if word == "+" else -1
        elif word != "*":
            product = int(word) if product is None else product * int(word)
    return total + sign * (product or 0)


def _rows(file: str) -> tuple[tuple[str, Fraction], ...]:
    records = read_records(file, ("question", "answer"))
    return tuple((str(row["question"]), _answer(row, f"{file}")) for row in records)


def _answer(row: Mapping[str, Any], where: str) -> Fraction:
    """The number in a row's answer; of a worked-out one, as in GSM8K, the last."""
    found = last_number(str(row.get("answer", "")))
    if found is None:
        raise ConfigError(f"{NAME}: {where} answers {row.get('answer')!r}, which has no number")
    return found
