"""A policy in a seat: it renders what it sees, asks the engine, and keeps the ids."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from opentinker.agent import Answer, View
from opentinker.errors import ContextFull
from opentinker.rendering import Conversation, Renderer
from opentinker.types import Sampler, SampleRequest, SamplingParams


def turn_seed(*parts: object) -> int:
    """A 32-bit seed of a request, from what names it: the same in every process."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


class PolicyAgent:
    """Answers with what `policy` samples; `version` None follows the newest published one.

    `context` is how many ids the model takes, prompt and answer together; None is any number. A
    prompt that leaves no room for an answer raises `ContextFull`.
    """

    def __init__(
        self,
        policy: str,
        renderer: Renderer,
        params: SamplingParams,
        *,
        seed: int,
        version: int | None = None,
        context: int | None = None,
    ) -> None:
        self._policy = policy
        self._renderer = renderer
        self._params = params
        self._seed = seed
        self._version = version
        self._context = context
        self._conversation: Conversation | None = None
        self._turns = 0

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        if self._conversation is None:
            self._conversation = Conversation(self._renderer, view.system)
        conversation = self._conversation
        context, fresh = conversation.ask(view.prompt, view.window)
        if self._context is not None and len(conversation.ids) >= self._context:
            raise ContextFull(
                f"the conversation of seat {view.seat!r} has {len(conversation.ids)} tokens, the "
                f"model's context {self._context}; give the protocol a `window`, or a longer one"
            )
        params = replace(self._params, seed=turn_seed(self._seed, self._turns))
        self._turns += 1
        request = SampleRequest(self._policy, tuple(conversation.ids), params, self._version)
        [completion] = await sampler.sample([request])
        text = conversation.complete(completion)
        return Answer(text, self._policy, completion, context, fresh)
