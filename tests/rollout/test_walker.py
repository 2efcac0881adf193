"""One walk over a protocol: what is asked, heard, paid and written down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from opentinker.agent import Agent, Answer, View
from opentinker.agents.scripted import ScriptedAgent
from opentinker.env import ParallelTextEnv, TextEnv
from opentinker.envs.kuhn_poker_v0 import env as kuhn
from opentinker.protocol import Protocol, Stage
from opentinker.registry import make_protocol
from opentinker.rollout.batching import BatchingSampler
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import Limits, walk
from opentinker.rollout.worker import AgentSpec, NoSampler, RolloutPlan, RolloutWorker
from opentinker.types import Completion, Episode, EpisodeRequest, SampleRequest, SamplingParams


class Elimination(TextEnv):
    """a, b, c name a number each; c ends early, and is paid later for what the others do."""

    name = "elimination"
    seats = ("a_0", "b_0", "c_0")

    def deal(self, options: Mapping[str, Any]) -> None:
        self.moves = 0

    def describe(self, seat: str) -> str:
        return f"move {self.moves}"

    def legal(self, seat: str) -> list[str] | None:
        return ["go"]

    def play(self, seat: str, action: str) -> None:
        self.moves += 1
        self.reward(seat, 1.0)
        if self.moves == 1:
            self.reward("c_0", 0.25)  # before c_0 has had any turn
        if seat == "c_0":
            self.reward("a_0", -0.5)
            self.finish("c_0")
        if self.moves == 5:
            self.finish()


class Talk(ParallelTextEnv):
    """Two rounds of words, all at once."""

    name = "talk"
    kind = "conversation"
    seats = ("a_0", "b_0")

    def deal(self, options: Mapping[str, Any]) -> None:
        self.round = 0

    def describe(self, seat: str) -> str:
        return f"round {self.round}"

    def legal(self, seat: str) -> list[str] | None:
        return None

    def play(self, actions: Mapping[str, str]) -> None:
        self.round += 1
        for seat in self.seats:
            self.reward(seat, 1.0)
        if self.round == 2:
            self.finish()


class Listener:
    """Says its name, and keeps what it was shown."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.seen: list[str] = []

    async def answer(self, view: View, sampler: Any) -> Answer:
        self.seen.append(view.prompt)
        return Answer(self.word)


def _play(
    env: Any,
    agents: Mapping[str, Agent],
    protocol: Protocol | str = "follow_env",
    limits: Limits | None = None,
    options: Mapping[str, Any] | None = None,
) -> Episode:
    table = Table(env)
    graph = make_protocol(protocol, table.seats) if isinstance(protocol, str) else protocol
    request = EpisodeRequest("1", "1", 7, dict.fromkeys(table.seats, "x"), options)
    return asyncio.run(walk(table, graph, agents, request, NoSampler(), limits))


def _says(**lines: list[str]) -> dict[str, Agent]:
    return {seat: ScriptedAgent(said) for seat, said in lines.items()}


def test_kuhn_by_hand_every_turn_tells_stage_action_and_reward() -> None:
    agents = _says(player_0=["[check]", "[call]"], player_1=["[bet]"])
    episode = _play(kuhn(), agents, options={"deal": ["K", "J"]})
    assert [(t.seat, t.action, t.legal, t.reward) for t in episode.turns] == [
        ("player_0", "check", True, 0.0),
        ("player_1", "bet", True, -2.0),
        ("player_0", "call", True, 2.0),
    ]
    assert episode.outcome == "finished" and episode.returns == {"player_0": 2.0, "player_1": -2.0}
    assert {turn.stage for turn in episode.turns} == {"move"}
    assert [turn.moment for turn in episode.turns] == [0, 1, 2]


def test_an_illegal_answer_is_asked_again_then_forfeits_and_blames_nobody_else() -> None:
    episode = _play(kuhn(), _says(player_0=["[raise]", "I fold"], player_1=["[bet]"]))
    assert [turn.legal for turn in episode.turns] == [False, False]
    assert all(turn.action is None and turn.reason for turn in episode.turns)
    assert "raise" in episode.turns[0].reason
    assert episode.turns[0].reason in episode.turns[1].observation  # the seat is told why
    assert episode.returns == {"player_0": -2.0, "player_1": 0.0}


def test_rewards_belong_to_the_last_turn_and_sum_to_the_return() -> None:
    episode = _play(Elimination(), _says(a_0=["[go]"], b_0=["[go]"], c_0=["[go]"]))
    paid = {seat: [t.reward for t in episode.turns if t.seat == seat] for seat in Elimination.seats}
    # order: a, b, c (ends), a, b; c pays a -0.5 after a's first turn; c's 0.25 came before its turn
    assert paid == {"a_0": [0.5, 1.0], "b_0": [1.0, 1.0], "c_0": [1.25]}
    assert episode.returns == {seat: sum(rewards) for seat, rewards in paid.items()}


def test_simultaneous_answers_are_heard_in_the_next_round_only() -> None:
    agents = {"a_0": Listener("red"), "b_0": Listener("blue")}
    episode = _play(Talk(), agents, "simultaneous")
    assert agents["a_0"].seen == ["round 0", "b_0: blue\nround 1"]
    assert agents["b_0"].seen == ["round 0", "a_0: red\nround 1"]
    assert [turn.moment for turn in episode.turns] == [0, 0, 1, 1]
    assert len(episode.messages) == 4 and episode.returns == {"a_0": 2.0, "b_0": 2.0}


def test_what_is_said_around_a_move_of_a_game_is_heard_by_nobody() -> None:
    listener = Listener("[check]")
    agents: dict[str, Agent] = {
        "player_0": ScriptedAgent(["I hold a king [check]"]),
        "player_1": listener,
    }
    episode = _play(kuhn(), agents, options={"deal": ["K", "J"]})
    assert "king" not in listener.seen[0] and not episode.messages


def test_a_stage_prompt_is_filled_in() -> None:
    stage = Stage("ask", ("@current",), "move", prompt="{seat}, look: {observation}")
    protocol = Protocol.of("told", ("player_0", "player_1"), [stage], [("ask", "ask", "*")])
    listener = Listener("[check]")
    _play(kuhn(), {"player_0": listener, "player_1": listener}, protocol)
    assert listener.seen[0].startswith("player_0, look: Kuhn poker.")


class Faulty(Talk):
    """Does what `options["fault"]` says, in the first round."""

    def deal(self, options: Mapping[str, Any]) -> None:
        super().deal(options)
        self.does = options["fault"]
        if self.does == "deal":
            raise KeyError("no cards")

    def play(self, actions: Mapping[str, str]) -> None:
        if self.does == "raise":
            raise KeyError("no board")
        if self.does == "pay":
            self.reward("a_0", "ten points")  # pyright: ignore[reportArgumentType]
        if self.does == "nan":
            self.reward("a_0", float("nan"))
        super().play(actions)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("deal", "no cards"), ("raise", "no board"), ("pay", "ten points"), ("nan", "nan")],
)
def test_a_broken_env_gives_a_failed_episode_that_says_why(fault: str, said: str) -> None:
    agents = {"a_0": Listener("x"), "b_0": Listener("y")}
    episode = _play(Faulty(), agents, "simultaneous", options={"fault": fault})
    assert episode.outcome == "failed" and said in episode.reason


def test_a_turn_out_of_time_fails_its_episode() -> None:
    class Sleeper:
        async def answer(self, view: View, sampler: Any) -> Answer:
            await asyncio.sleep(30)
            raise AssertionError("nobody waits that long")

    agents: dict[str, Agent] = {"player_0": Sleeper(), "player_1": Sleeper()}
    episode = _play(kuhn(), agents, limits=Limits(turn_seconds=0.05))
    assert episode.outcome == "failed" and "out of time" in episode.reason


def test_the_turn_limit_truncates() -> None:
    episode = _play(
        Elimination(), _says(a_0=["[go]"], b_0=["[go]"], c_0=["[go]"]), limits=Limits(turns=2)
    )
    assert (
        episode.outcome == "truncated" and len(episode.turns) == 2 and "2 turns" in episode.reason
    )


class Dice:
    """A sampler that answers from the request's seed alone."""

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        return [Completion((request.params.seed or 0,), (-0.5,), 3, "stop") for request in requests]


def test_one_round_of_questions_crosses_in_one_call_and_comes_back_in_order() -> None:
    calls: list[int] = []

    async def send(requests: Sequence[SampleRequest]) -> list[Completion]:
        calls.append(len(requests))
        return await Dice().sample(requests)

    async def ask() -> list[int]:
        sampler = BatchingSampler(send)
        requests = [SampleRequest("p", (1,), SamplingParams(seed=i)) for i in range(50)]
        found = await asyncio.gather(*(sampler.sample([r]) for r in requests))
        return [completion.tokens[0] for [completion] in found]

    assert asyncio.run(ask()) == list(range(50))
    assert calls == [50]


def test_an_error_of_the_engine_reaches_every_question_of_its_batch() -> None:
    async def send(requests: Sequence[SampleRequest]) -> list[Completion]:
        raise ConnectionError("the engine is gone")

    async def ask() -> list[Any]:
        sampler = BatchingSampler(send)
        request = SampleRequest("p", (1,), SamplingParams())
        tasks = (sampler.sample([request]) for _ in range(3))
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [str(error) for error in asyncio.run(ask())] == ["the engine is gone"] * 3


def _plan(**changes: Any) -> RolloutPlan:
    return RolloutPlan(
        env="kuhn_poker_v0", agents={"random": AgentSpec("random")}, in_flight=8, **changes
    )


def _requests(count: int) -> list[EpisodeRequest]:
    cast = {"player_0": "random", "player_1": "random"}
    return [EpisodeRequest(str(i), str(i), i, cast) for i in range(count)]


def _timeless(episodes: Sequence[Episode]) -> list[Any]:
    return [
        [(turn.seat, turn.observation, turn.text, turn.reward) for turn in episode.turns]
        for episode in episodes
    ]


def test_many_episodes_come_back_in_order_and_the_same_again() -> None:
    first = asyncio.run(RolloutWorker(_plan(), NoSampler()).play(_requests(60)))
    assert [episode.request.id for episode in first] == [str(i) for i in range(60)]
    assert len({tuple(turn.observation for turn in e.turns) for e in first}) > 6
    again = asyncio.run(RolloutWorker(_plan(), NoSampler()).play(_requests(60)[::-1]))
    assert _timeless(again[::-1]) == _timeless(first)
    other = asyncio.run(RolloutWorker(_plan(seed=1), NoSampler()).play(_requests(60)))
    assert _timeless(other) != _timeless(first)
