"""A JSONL of tasks as an env: one seat answers, a scoring function says what the answer is worth.

Seat `solver_0`. `file` has one task a line, `{"prompt": ..., "answer": ...}` with any more keys; or
`{"turns": [{"prompt": ..., "answer": ...}, ...]}`, asked one after another. A task with `choices`,
a list of texts, is answered with one of them as a tag. The seed draws the task, from the lines
`start` to `stop` (as in a slice); `reset(options={"task": 3})` asks that one, counted from `start`.

`score` is called as `score(answer, task)` and gives a number, 1 for right: a built-in name, or
`"package.module:function"`. Built in: `exact` (the same text; case, blanks and brackets don't
matter), `contains` (the task's answer stands in it), `number` (the last number in it is the task's
last one, as in a worked-out solution). The reward of each question is its score, so a task of one
question returns at most 1. `tries` above 1 lets a wrong answer be mended; `tools` as in
`arithmetic_v0`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

from opentinker.errors import ConfigError
from opentinker.options import whole
from opentinker.questions import QuestionEnv, last_number
from opentinker.records import Record, read_records
from opentinker.registry import load_object

NAME = "tasks_v0"

Score = Callable[[str, Mapping[str, Any]], float]


class Tasks(QuestionEnv):
    """Plays one task an episode."""

    name = NAME

    def __init__(
        self,
        *,
        file: str,
        score: str | Score = "exact",
        start: int = 0,
        stop: int | None = None,
        tools: Sequence[str] = (),
        calls: int = 4,
        tries: int = 1,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        whole(NAME, "start", start, 0)
        rows = read_records(file, start=start, stop=stop)
        self.tasks = tuple(_questions(row, f"{file}, task {k}") for k, row in enumerate(rows))
        self.scorer = _scorer(score)
        needy = [task for task in self.tasks if any("answer" not in each for each in task)]
        if needy and self.scorer in SCORES.values():
            raise ConfigError(f"{NAME}: {file} has a task without 'answer': {needy[0]!r}")
        super().__init__(
            tools=tools, calls=calls, tries=tries, illegal=illegal, render_mode=render_mode
        )

    def pose(self, options: Mapping[str, Any]) -> None:
        index = options.get("task")
        if index is None:
            index = int(self.rng.integers(len(self.tasks)))
        self.task = self.tasks[whole(NAME, "task", index, 0, len(self.tasks) - 1)]
        self.at = 0

    def question(self) -> str:
        choices = self.choices()
        tags = "" if choices is None else f"\nAnswer {' or '.join(f'[{c}]' for c in choices)}."
        return f"{self.task[self.at]['prompt']}{tags}"

    def choices(self) -> Sequence[str] | None:
        return self.task[self.at].get("choices")

    def score(self, answer: str) -> float:
        return self.scorer(answer, self.task[self.at])

    def another(self) -> bool:
        if self.at + 1 == len(self.task):
            return False
        self.at += 1
        return True


def env(**options: Any) -> Tasks:
    return Tasks(**options)


def exact(answer: str, task: Mapping[str, Any]) -> float:
    return float(_plain(answer) == _plain(str(task["answer"])))


def contains(answer: str, task: Mapping[str, Any]) -> float:
    return float(_plain(str(task["answer"])) in _plain(answer))


def number(answer: str, task: Mapping[str, Any]) -> float:
    said, right = last_number(answer), last_number(str(task["answer"]))
    return float(said is not None and right is not None and abs(said - right) <= _NEAR)


SCORES: Mapping[str, Score] = {"exact": exact, "contains": contains, "number": number}

_NEAR = Fraction(1, 10**6)


def _scorer(score: str | Score) -> Score:
    if callable(score):
        return score
    if score in SCORES:
        return SCORES[score]
    if ":" not in str(score):
        raise ConfigError(
            f"{NAME}: score is {score!r}; allowed: {', '.join(map(repr, SCORES))}, or "
            f"'package.module:function'"
        )
    found: Any = load_object(score)
    if not callable(found):
        raise ConfigError(f"{NAME}: score {score!r} is {found!r}, not a function")
    return cast(Score, found)


def _questions(row: Record, where: str) -> tuple[Record, ...]:
    questions = row.get("turns", [row])
    if not isinstance(questions, list) or not questions:
        raise ConfigError(f"{where}: turns is {questions!r}; allowed: a list of at least one")
    for each in questions:
        if not isinstance(each, dict) or not isinstance(each.get("prompt"), str):
            raise ConfigError(f"{where}: {each!r} has no text under 'prompt'")
        choices = each.get("choices", [""])
        if not (isinstance(choices, list) and choices and all(isinstance(c, str) for c in choices)):
            raise ConfigError(f"{where}: choices is {choices!r}; allowed: a list of texts")
    return tuple(questions)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[\[\]]", " ", text).casefold().split())
