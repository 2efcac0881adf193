"""The contract of an agent: who sits in a seat and answers for it.

An agent object lives for one episode in one seat, so it may keep what it saw. The walker makes it
by calling the registered factory, asks it turn by turn, and builds the `Turn` from its `Answer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from opentinker.types import Completion, Sampler


@dataclass(frozen=True, slots=True)
class View:
    """All that a seat may know when it is asked.

    `prompt` is the text to answer: the stage's template filled in, the words heard since the seat's
    last turn, and the observation. `legal_actions` is None for free text. `infostate` is the env's
    own name of what the seat knows, where it has one (tabular agents and solvers read it).
    `window` is how many past turns of its own the seat may see; None is all, 0 is none.
    """

    seat: str
    stage: str
    prompt: str
    observation: str
    legal_actions: tuple[str, ...] | None = None
    infostate: str | None = None
    window: int | None = None
    system: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent said; a policy's answer carries its ids, as sent and as sampled."""

    text: str
    policy: str | None = None
    completion: Completion | None = None
    context_ids: tuple[int, ...] = field(default=())
    fresh: bool = False


class Agent(Protocol):
    """Answers for one seat in one episode."""

    async def answer(self, view: View, sampler: Sampler) -> Answer: ...


class AgentFactory(Protocol):
    """Makes an agent for `seat`; `seed` is of this episode and seat, so play can be repeated."""

    def __call__(self, *, seat: str, seed: int) -> Agent: ...
