"""The state of one walk over a protocol, and the named predicates that its edges ask.

An edge carries a predicate's NAME, so that a protocol can be written as JSON, drawn, and sent to
another process, where the same name must be registered too (by importing the module that registers
it).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from opentinker.errors import ProtocolError
from opentinker.types import Message


@dataclass(slots=True)
class WalkState:
    """What a predicate may look at; the walker alone changes it.

    `visits` counts how often each stage was entered, the running one included. `current` are the
    seats that the env selects now: one in a turn-based env, all that live in a simultaneous one.
    `turns` counts answers, `last_legal` is false when the newest move was not, and `messages` is
    the transcript.
    """

    visits: dict[str, int] = field(default_factory=dict)
    env_done: bool = False
    turns: int = 0
    last_legal: bool = True
    current: tuple[str, ...] = ()
    messages: list[Message] = field(default_factory=list)


Predicate = Callable[[WalkState], bool]
Family = Callable[[str], Predicate]

_predicates: dict[str, Predicate] = {
    "always": lambda state: True,
    "env_done": lambda state: state.env_done,
    "answer_illegal": lambda state: not state.last_legal,
}


def _named(seat: str) -> Predicate:
    """The newest message has `seat` as its first tag, or is nothing else."""

    def holds(state: WalkState) -> bool:
        text = state.messages[-1].text if state.messages else ""
        tag = re.search(r"\[([^\[\]]*)\]", text)
        return (tag[1] if tag else text).strip().casefold() == seat.casefold()

    return holds


_families: dict[str, Family] = {"named": _named}


def register_predicate_family(name: str, make: Family) -> None:
    """Make predicates known as `name(x)`, for any text x: `make(x)` is the predicate."""
    if not re.fullmatch(r"\w+", name):
        raise ProtocolError(f"a family of predicates can't be named {name!r}: use letters, '_'")
    known = _families.get(name)
    if known is not None and known is not make and _origin(known) != _origin(make):
        raise ProtocolError(f"predicates {name!r}(...) are registered already, {_origin(known)}")
    _families[name] = make


def register_predicate(name: str, holds: Predicate) -> None:
    """Make `holds` known to edges as `name`; a module that is loaded again may do so again."""
    if not name or name == "*" or name.startswith("when:"):
        raise ProtocolError(f"a predicate can't be named {name!r}: '*' and 'when:' mark edges")
    known = _predicates.get(name)
    if known is not None and known is not holds and not _reloaded(known, holds):
        raise ProtocolError(f"predicate {name!r} is registered already, as {_origin(known)}")
    _predicates[name] = holds


def predicate_names() -> list[str]:
    """The names that an edge may carry, sorted; those of a family as `name(...)`."""
    return sorted([*_predicates, *(f"{family}(...)" for family in _families)])


def find_predicate(name: str, where: str = "") -> Predicate:
    """The predicate called `name`; `where` says in the error which edge asked for it."""
    family = re.fullmatch(r"(\w+)\((.*)\)", name)
    if family is not None and family[1] in _families:
        return _families[family[1]](family[2])
    if name not in _predicates:
        near = difflib.get_close_matches(name, predicate_names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        known = ", ".join(predicate_names())
        raise ProtocolError(f"unknown predicate {name!r}{where}; known: {known}{hint}")
    return _predicates[name]


def _reloaded(known: Predicate, holds: Predicate) -> bool:
    return _origin(known) == _origin(holds) and "<lambda>" not in _origin(known)


def _origin(holds: Predicate | Family) -> str:
    return f"{holds.__module__}.{getattr(holds, '__qualname__', type(holds).__qualname__)}"
