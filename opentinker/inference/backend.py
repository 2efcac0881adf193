"""What an engine's thread and the engine proper say to each other: calls, tickets, answers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from opentinker.errors import EngineError
from opentinker.inference.adapters import Adapter
from opentinker.inference.engine import EngineFacts
from opentinker.inference.whole import Shapes
from opentinker.types import Completion, FullWeights, SampleRequest


@dataclass(eq=False, slots=True)
class Ticket:
    """One request of a call, its place, and what it is bound to.

    `adapter` None is the base, or the whole weights. `version` is known when a backend takes it.
    """

    call: Call
    place: int
    request: SampleRequest
    adapter: Adapter | None
    version: int = 0


@dataclass(eq=False, slots=True)
class Call:
    """One `sample` call: its future is resolved when the last of its requests is answered."""

    future: Future[list[Completion]] = field(default_factory=Future)
    tickets: list[Ticket] = field(default_factory=list)
    answers: dict[int, Completion] = field(default_factory=dict)

    def answer(self, place: int, answer: Completion | EngineError) -> None:
        if self.future.done():
            return
        if isinstance(answer, EngineError):
            self.future.set_exception(answer)
            return
        self.answers[place] = answer
        if len(self.answers) == len(self.tickets):
            self.future.set_result([self.answers[place] for place in range(len(self.tickets))])


class Backend(Protocol):
    """The engine proper; every method runs on the host's thread.

    One that serves whole weights is never asked to `load` or `drop`, and has their `shapes`.
    """

    facts: EngineFacts
    shapes: Shapes

    def replace(self, weights: FullWeights) -> None:
        """Answer with `weights` from now on. EngineError: nothing has changed."""
        ...

    def load(self, adapter: Adapter) -> None: ...

    def drop(self, adapter: Adapter) -> None: ...

    def take(self, tickets: Sequence[Ticket]) -> None:
        """Put the requests of one call in line."""
        ...

    def step(self) -> list[tuple[Ticket, Completion | EngineError]]:
        """Work a little; what got finished by it. Nothing where `busy` is False."""
        ...

    def busy(self) -> bool: ...

    def stop(self) -> None: ...
