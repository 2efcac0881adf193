"""`check_agent`: legal answers, and the same ones again from the same seed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from opentinker.agent import Agent, Answer, View
from opentinker.agents.random import RandomAgent
from opentinker.answer import parse_answer
from opentinker.errors import ConfigError
from opentinker.flow import EnvFacts
from opentinker.registry import agent_factory, call_factory, make_protocol
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import walk
from opentinker.testing.envs import Env, maker
from opentinker.testing.words import told
from opentinker.types import EpisodeRequest, Turn

VIEWS = (
    View("player_0", "move", "Answer [yes] or [no].", "Answer [yes] or [no].", ("yes", "no")),
    View("player_0", "speak", "Say something.", "Say something."),
)
"""What `check_agent` asks unless told otherwise: a choice, then free text."""


def check_agent(
    agent: str | Callable[..., Any],
    *,
    views: Sequence[View] = VIEWS,
    env: str | Env | Callable[[], Env] | None = None,
    seats: Sequence[str] = (),
    games: int = 3,
    **options: Any,
) -> None:
    """Ask an agent factory's agent the `views`, in order: legal answers, the same ones again.

    For agents that need no engine; a view with `legal_actions` wants one of them as a tag or alone.
    With `env` it plays `games` there instead, in each of `seats` (all by default) against random
    play. Raises ConfigError in words.
    """
    name, factory = (agent, agent_factory(agent)) if isinstance(agent, str) else (str(agent), agent)

    def make(seat: str, seed: int) -> _Watched:
        with told(f"agent {name}"):
            made = call_factory("agent", name, factory, **options, seat=seat, seed=seed)
        return _Watched(made, name)

    if env is None:
        said = _twice(name, lambda: asyncio.run(_ask(make("a", 7), views)))
        for view, text in zip(views, said, strict=True):
            reading = parse_answer(text, view.legal_actions)
            _legal(name, view.prompt, text, reading.action is not None, reading.reason)
        return
    make_table = maker(env)
    for seat in seats or EnvFacts.of(make_table()).seats:
        for seed in range(games):

            def game(seat: str = seat, seed: int = seed) -> list[Turn]:
                return asyncio.run(_game(Table(make_table()), seat, make(seat, seed), seed))

            turns = {turn.index: turn for turn in game()}
            texts = [turn.text for turn in turns.values()]
            _twice(name, lambda game=game: [turn.text for turn in game()], texts)
            for turn in turns.values():
                _legal(name, turn.observation, turn.text, turn.legal, turn.reason)


def _twice(name: str, play: Callable[[], list[str]], first: list[str] | None = None) -> list[str]:
    """What is said, which must be said again."""
    first = play() if first is None else first
    again = play()
    if first != again:
        raise ConfigError(
            f"agent {name} made twice with the same seed answers {first} and then {again}; draw "
            f"from a generator made from `seed` and nothing else"
        )
    return first


def _legal(name: str, prompt: str, text: str, legal: bool, reason: str) -> None:
    if not legal:
        raise ConfigError(f"agent {name} answers {text!r} to {prompt!r}: {reason}")


class _Watched:
    """An agent whose faults are told in words."""

    def __init__(self, agent: Any, name: str) -> None:
        if not callable(getattr(agent, "answer", None)):
            raise ConfigError(
                f"agent {name} is a {type(agent).__name__} without a method `answer`; write "
                f"`async def answer(self, view, sampler): return Answer(text)`"
            )
        self._agent, self._name = agent, name

    async def answer(self, view: View, sampler: Any) -> Answer:
        with told(f"agent {self._name}"):
            answer = self._agent.answer(view, sampler)
            if not inspect.isawaitable(answer):
                raise ConfigError(f"`answer` of agent {self._name} must be an `async def`")
            answer = await answer
        if not isinstance(answer, Answer):
            raise ConfigError(
                f"agent {self._name} answers {answer!r}; it must be an opentinker.agent.Answer"
            )
        if not isinstance(answer.text, str):
            raise ConfigError(f"agent {self._name} answers {answer.text!r}; the text is a str")
        return answer


async def _ask(agent: Agent, views: Sequence[View]) -> list[str]:
    return [(await agent.answer(view, NoEngine())).text for view in views]


async def _game(table: Table, seat: str, agent: Agent, seed: int) -> list[Turn]:
    """The turns of `seat` in one game."""
    agents: dict[str, Agent] = {other: RandomAgent(seed) for other in table.seats}
    agents[seat] = agent
    request = EpisodeRequest("0", "0", seed, dict.fromkeys(table.seats, ""))
    protocol = make_protocol("follow_env", table.seats)
    episode = await walk(table, protocol, agents, request, NoEngine())
    if episode.outcome == "failed":
        raise ConfigError(f"a game of {table.name} failed: {episode.reason}")
    return [turn for turn in episode.turns if turn.seat == seat]


class NoEngine:
    """The sampler of a check: asking it is a fault of the agent."""

    async def sample(self, requests: Sequence[Any]) -> list[Any]:
        raise ConfigError("check_agent has no engine: give a factory of an agent without a policy")
