"""What the envs of questions with a known answer share: one seat, tries, tools in the turn loop.

An author subclasses `QuestionEnv` and writes `pose`, `question`, `score`, and where they apply
`choices`, `understand` and `another`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from opentinker.answer import Reading, parse_answer
from opentinker.env import TextEnv
from opentinker.options import whole
from opentinker.tools import find_call, make_tools

SOLVER = "solver_0"

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?|[-+]?\.\d+")
_TAG = re.compile(r"\[([^\[\]]*)\]")


class QuestionEnv(TextEnv):
    """A question, up to `calls` tool calls (each a turn), and up to `tries` answers.

    The reward of an answer is its score, paid when it is right (1 or more) or the last. Where there
    are `choices`, an answer that is none of them forfeits with 0 after its retries, as does a call
    when none are left; else any text is an answer.
    """

    seats = (SOLVER,)
    worst_reward = 0.0

    def __init__(
        self,
        *,
        tools: Sequence[str] = (),
        calls: int = 4,
        tries: int = 1,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.tools = make_tools(self.name, tools)
        self.most_calls = whole(self.name, "calls", calls, 1)
        self.tries = whole(self.name, "tries", tries, 1)
        super().__init__(illegal=illegal, render_mode=render_mode)

    def pose(self, options: Mapping[str, Any]) -> None:
        """Choose what is asked; `options` are reset's."""
        raise NotImplementedError

    def question(self) -> str:
        """What is asked now, with how to answer."""
        raise NotImplementedError

    def score(self, answer: str) -> float:
        """What `answer` is worth, 1 for a right one."""
        raise NotImplementedError

    def choices(self) -> Sequence[str] | None:
        """The answers to choose from; None if there is no such list."""
        return None

    def understand(self, answer: str) -> Reading:
        """Make an action of a final answer."""
        return parse_answer(answer, self.choices())

    def another(self) -> bool:
        """Go on to the next question; False if there is none."""
        return False

    # The env's side.

    def deal(self, options: Mapping[str, Any]) -> None:
        self.pose(options)
        self.done = ""
        self._begin()

    def legal(self, seat: str) -> Sequence[str] | None:
        return self.choices()

    def read(self, seat: str, answer: str) -> Reading:
        if find_call(answer, self.tools) is None:
            return self.understand(answer)
        if self.called >= self.most_calls:
            return Reading(None, "no tool calls are left; give your answer.")
        return Reading(answer)

    def play(self, seat: str, action: str) -> None:
        call = find_call(action, self.tools)
        if call is not None:
            self.called += 1
            result = self.tools[call.tool](call.argument)
            self.log.append(f"{call.tool}: {call.argument} -> {result}")
            return
        self.tried += 1
        score = self.score(action)
        if score < 1.0 and self.tried < self.tries:
            self.log.append(f"Not right: {action}")
            return
        self.reward(seat, score)
        if self.another():
            self._begin()
        else:
            self.done = f"Your last answer scored {score:g}."
            self.finish()

    def describe(self, seat: str) -> str:
        if self.done or seat not in self.agents:
            return self.done or "It is over."
        lines = [self.question(), *self.log]
        left = self.most_calls - self.called
        if self.tools and left:
            usage = " or ".join(tool.usage for tool in self.tools.values())
            lines.append(f"You may use {usage} ({left} left).")
        return "\n".join(lines)

    def _begin(self) -> None:
        self.called = self.tried = 0
        self.log: list[str] = []


def understand_number(answer: str) -> Reading:
    """Read a number said as a tag, `[-12]`, or as the whole answer; not two different ones."""
    tags = [_exact(tag) for tag in _TAG.findall(answer)]
    said = list(dict.fromkeys(tag for tag in tags if tag is not None))
    if not said and (whole_answer := _exact(answer)) is not None:
        said = [whole_answer]
    if len(said) == 1:
        return Reading(str(said[0]))
    fault = "ambiguous: several numbers were said" if said else "no number was said"
    return Reading(None, f"{fault}; answer with one number as a tag, like [12].")


def last_number(text: str) -> Fraction | None:
    """The last number in `text`, as those who write out their reasoning end with it."""
    found = _NUMBER.findall(text)
    return _exact(found[-1]) if found else None


def _exact(text: str) -> Fraction | None:
    """The number that all of `text` is: 12, -3.5, 1,000 or 2/3."""
    text = text.strip()
    if not _NUMBER.fullmatch(text) or text.endswith("/0"):
        return None
    try:
        return Fraction(text.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
