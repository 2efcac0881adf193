"""The state of one walk over a protocol, and the named predicates that its edges ask.

An edge carries a predicate's NAME, so that a protocol can be written as JSON, drawn, and sent to
another process, where the same name must be registered too (by importing the module that registers
it).
"""

from __future__ import annotations

import difflib
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

_predicates: dict[str, Predicate] = {
    "always": lambda state: True,
    "env_done": lambda state: state.env_done,
    "answer_illegal": lambda state: not state.last_legal,
}


def register_predicate(name: str, holds: Predicate) -> None:
    """Make `holds` known to edges as `name`; a module that is loaded again may do so again."""
    if not name or name == "*" or name.startswith("when:"):
        raise ProtocolError(f"a predicate can't be named {name!r}: '*' and 'when:' mark edges")
    known = _predicates.get(name)
    if known is not None and known is not holds and not _reloaded(known, holds):
        raise ProtocolError(f"predicate {name!r} is registered already, as {_origin(known)}")
    _predicates[name] = holds


def predicate_names() -> list[str]:
    """The names that an edge may carry, sorted."""
    return sorted(_predicates)


def find_predicate(name: str, where: str = "") -> Predicate:
    """The predicate called `name`; `where` says in the error which edge asked for it."""
    if name not in _predicates:
        near = difflib.get_close_matches(name, _predicates, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        known = ", ".join(predicate_names())
        raise ProtocolError(f"unknown predicate {name!r}{where}; known: {known}{hint}")
    return _predicates[name]


def _reloaded(known: Predicate, holds: Predicate) -> bool:
    return _origin(known) == _origin(holds) and "<lambda>" not in _origin(known)


def _origin(holds: Predicate) -> str:
    return f"{holds.__module__}.{getattr(holds, '__qualname__', type(holds).__qualname__)}"
