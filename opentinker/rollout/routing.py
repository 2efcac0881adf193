"""One sampler in front of several engines: each request goes to the one that serves its policy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opentinker.errors import UnknownNameError
from opentinker.types import Completion, Sampler, SampleRequest


@dataclass(frozen=True, slots=True)
class Route:
    """The number of the engine that serves a policy, and the name under which it does."""

    engine: int
    name: str


class RoutingSampler:
    """Sends requests by `routes` to `engines`; the answers come in the order of the requests."""

    def __init__(self, engines: Sequence[Sampler], routes: Mapping[str, Route]) -> None:
        self._engines = engines
        self._routes = routes

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        sorted_: list[list[int]] = [[] for _ in self._engines]
        asked = []
        for place, request in enumerate(requests):
            route = self._routes.get(request.policy)
            if route is None:
                raise UnknownNameError("policy", request.policy, self._routes)
            sorted_[route.engine].append(place)
            same = route.name == request.policy
            asked.append(request if same else replace(request, policy=route.name))
        used = [engine for engine, places in enumerate(sorted_) if places]
        if len(used) == 1:
            return await self._engines[used[0]].sample(asked)
        answers = await asyncio.gather(
            *(self._engines[e].sample([asked[place] for place in sorted_[e]]) for e in used)
        )
        found: dict[int, Completion] = {}
        for engine, own in zip(used, answers, strict=True):
            found.update(zip(sorted_[engine], own, strict=True))
        return [found[place] for place in range(len(requests))]
