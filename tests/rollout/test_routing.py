"""Requests for several engines: each to its own, answers in the order of the questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from opentinker.errors import UnknownNameError
from opentinker.rollout.routing import Route, RoutingSampler
from opentinker.types import Completion, SampleRequest, SamplingParams

ROUTES = {"alice": Route(0, "alice"), "carol": Route(0, "base"), "bob": Route(1, "bob")}


class Engine:
    """Answers with its own number and the prompt, and remembers what it was asked."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[list[str]] = []

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.asked.append([request.policy for request in requests])
        return [Completion((self.number, r.prompt_ids[0]), (0.0, 0.0), 0, "stop") for r in requests]


def _ask(*policies: str) -> tuple[list[Engine], list[Completion]]:
    engines = [Engine(0), Engine(1)]
    sampler = RoutingSampler(engines, ROUTES)
    requests = [SampleRequest(name, (i,), SamplingParams()) for i, name in enumerate(policies)]
    return engines, asyncio.run(sampler.sample(requests))


def test_each_request_goes_to_the_engine_of_its_policy_and_the_order_is_kept() -> None:
    engines, answers = _ask("bob", "alice", "carol", "bob")
    assert [answer.tokens for answer in answers] == [(1, 0), (0, 1), (0, 2), (1, 3)]
    assert [engine.asked for engine in engines] == [[["alice", "base"]], [["bob", "bob"]]]


def test_an_engine_that_nothing_is_asked_of_is_not_called() -> None:
    engines, answers = _ask("carol", "alice")
    assert [answer.tokens for answer in answers] == [(0, 0), (0, 1)]
    assert engines[0].asked == [["base", "alice"]] and not engines[1].asked


def test_a_policy_without_an_engine_is_named() -> None:
    with pytest.raises(UnknownNameError, match="'allice'; did you mean 'alice'"):
        _ask("allice")
