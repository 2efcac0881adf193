"""How an answer becomes an action: the strict reading of tags, and the rule for what can't be read.

An action is said as a tag, `[bet]`, anywhere in the answer, or by an answer that is the action and
nothing else. Case and blanks around it don't matter, unless two legal actions differ only in them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from opentinker.errors import ConfigError

Then = Literal["forfeit", "penalty", "random"]

_TAG = re.compile(r"\[([^\[\]]*)\]")
_RULE = re.compile(
    r"(?:retry\((?P<retries>\d+)\)\s*,\s*)?(?P<then>[a-z]+)(?:\((?P<cost>[^()]*)\))?"
)
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer was taken for: an action, or None and the reason, as told to the seat."""

    action: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IllegalRule:
    """What follows an illegal answer: `retries` new tries with the reason told, then `then`.

    `forfeit` ends the game for all, the offender loses. `random` plays a random legal action.
    `penalty` takes `penalty` from the offender at each illegal answer, then plays at random.
    """

    retries: int = 0
    then: Then = "forfeit"
    penalty: float = 0.0


def parse_answer(answer: str, legal: Sequence[str] | None) -> Reading:
    """Read `answer` as one of the `legal` actions; if None (free text), it is the action."""
    if legal is None:
        return Reading(answer)
    whole = _find(answer, legal)
    if whole is not None:
        return Reading(whole)
    tags = _TAG.findall(answer)
    found = list(dict.fromkeys(a for a in (_find(tag, legal) for tag in tags) if a is not None))
    if len(found) == 1:
        return Reading(found[0])
    if found:
        return Reading(None, f"ambiguous: {_tags(found)} were all said; say one tag only.")
    return Reading(None, f"{_fault(answer, tags)}; say one of {_tags(legal)}.")


def parse_rule(text: str) -> IllegalRule:
    """The rule of `"retry(2), forfeit"`, `"penalty(0.5)"`, `"random"`, ...; else ConfigError."""
    match = _RULE.fullmatch(text.strip())
    if match is None or match["then"] not in get_args(Then):
        raise ConfigError(
            f"illegal-answer rule {text!r} is not understood; write forfeit, random or penalty(x), "
            f"with retry(n) before it if wanted, as in 'retry(2), forfeit'"
        )
    then: Then = match["then"]  # type: ignore[assignment]
    if (then == "penalty") != (match["cost"] is not None):
        raise ConfigError(f"illegal-answer rule {text!r}: penalty, and only it, takes a number")
    return IllegalRule(int(match["retries"] or 0), then, _cost(text, match["cost"]))


def _cost(text: str, written: str | None) -> float:
    if written is None:
        return 0.0
    try:
        cost = float(written)
    except ValueError:
        cost = -1.0
    if not 0.0 <= cost < float("inf"):
        raise ConfigError(f"illegal-answer rule {text!r}: penalty takes a number of at least 0")
    return cost


def _find(said: str, legal: Sequence[str]) -> str | None:
    """The legal action that `said` spells; exact spelling first, then without case."""
    said = said.strip()
    if said in legal:
        return said
    key = _key(said)
    same = [action for action in legal if _key(action) == key]
    return same[0] if len(same) == 1 else None


def _key(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip()).casefold()


def _fault(answer: str, tags: Sequence[str]) -> str:
    if not answer.strip():
        return "empty answer"
    if any(tag.strip() for tag in tags):
        return f"not legal now: {_tags([tag.strip() for tag in tags if tag.strip()])}"
    if tags:
        return "empty tag"
    return "tag not closed" if "[" in answer else "no tag"


def _tags(actions: Sequence[str]) -> str:
    shown = " ".join(f"[{action}]" for action in actions[:_SHOWN])
    return shown if len(actions) <= _SHOWN else f"{shown} ({len(actions)} in all)"
