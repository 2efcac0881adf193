"""The prompts of a small game's information states, and a policy's exact strategy from scores.

The prompts are taken from real walks over the real env, protocol and chat template, by seats that
play at random, so a policy is asked exactly what it is asked in training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentinker.agent import Answer, View
from opentinker.agents.random import RandomAgent
from opentinker.analysis.solve import infostates
from opentinker.errors import ConfigError
from opentinker.game import Node, Table
from opentinker.registry import make_env, make_protocol
from opentinker.rendering import Conversation, Renderer
from opentinker.rollout.seating import Table as Seating
from opentinker.rollout.walker import walk
from opentinker.rollout.worker import NoSampler, RolloutPlan
from opentinker.types import EpisodeRequest, Sampler

_EPISODES = 4096
"""Random episodes after which a state that was not met is an error."""


@dataclass(frozen=True, slots=True)
class StatePrompt:
    """What a seat is asked in one information state, and the ids of each legal answer."""

    seat: str
    prompt_ids: tuple[int, ...]
    answers: Mapping[str, tuple[int, ...]]


class _Scout:
    """Plays at random and notes the prompt of every information state that it comes to."""

    def __init__(self, renderer: Renderer, found: dict[str, StatePrompt], seed: int) -> None:
        self._random = RandomAgent(seed)
        self._conversation = Conversation(renderer)
        self._renderer = renderer
        self._found = found

    async def answer(self, view: View, sampler: Sampler) -> Answer:
        self._conversation.ask(view.prompt, view.window)
        if view.infostate is not None and view.infostate not in self._found:
            answers = {a: self._renderer.answer_ids(f"[{a}]") for a in view.legal_actions or ()}
            ids = tuple(self._conversation.ids)
            self._found[view.infostate] = StatePrompt(view.seat, ids, answers)
        answer = await self._random.answer(view, sampler)
        self._conversation.answered(self._renderer.answer_ids(answer.text))
        return answer


async def state_prompts(
    plan: RolloutPlan, renderer: Renderer, tree: Node
) -> dict[str, StatePrompt]:
    """The prompt of every information state of `tree`.

    ConfigError where random play never comes to one of them: the tree is not that of the env.
    """
    found: dict[str, StatePrompt] = {}
    wanted = set(infostates(tree))
    table = Seating(make_env(plan.env, **plan.env_options))
    protocol = make_protocol(plan.protocol, table.seats, **plan.protocol_options)

    for index in range(_EPISODES):
        request = EpisodeRequest(f"scout-{index}", "scout", index, {})
        agents = {
            seat: _Scout(renderer, found, index * len(table.seats) + place)
            for place, seat in enumerate(table.seats)
        }
        await walk(table, protocol, agents, request, NoSampler(), plan.limits)
        if wanted <= found.keys():
            break
    if missing := sorted(wanted - found.keys()):
        raise ConfigError(
            f"{_EPISODES} random episodes of {plan.env!r} never came to {', '.join(missing)}; "
            f"the env names {', '.join(sorted(found)) or 'no information state'}"
        )
    return {name: found[name] for name in infostates(tree)}


def tabulate(
    prompts: Mapping[str, StatePrompt], scores: Mapping[tuple[str, str], Sequence[float]]
) -> tuple[dict[str, dict[str, float]], float]:
    """A strategy from the logprobs of each (state, action)'s answer ids, and the illegal mass.

    Legal actions are renormalized; the mass is the mean over states of what is on anything but the
    legal answers as they are listed. A state with no legal mass at all counts as uniform.
    """
    table: dict[str, dict[str, float]] = {}
    illegal = 0.0
    for name, state in prompts.items():
        row = {a: math.exp(math.fsum(float(x) for x in scores[name, a])) for a in state.answers}
        mass = math.fsum(row.values())
        illegal += max(0.0, 1.0 - mass) / len(prompts)
        table[name] = {a: p / mass if mass > 0 else 1.0 / len(row) for a, p in row.items()}
    return table, illegal


def table_of(prompts: Mapping[str, StatePrompt], strategies: Mapping[str, Table]) -> Table:
    """One table for all seats from one a seat."""
    return {name: strategies[state.seat][name] for name, state in prompts.items()}
