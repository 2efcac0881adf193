"""An env that breaks the PettingZoo API is an episode that failed, never an end of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pettingzoo import AECEnv, ParallelEnv

from opentinker.env import ParallelTextEnv
from opentinker.envs.kuhn_poker_v0 import KuhnPoker
from opentinker.protocol import Protocol, Stage
from opentinker.registry import make_protocol, register_env
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import Limits, walk
from opentinker.rollout.worker import AgentSpec, NoSampler, RolloutPlan, RolloutWorker
from opentinker.types import Episode, EpisodeRequest

SEATS = ("player_0", "player_1")


class Raw(AECEnv[str, Any, str]):
    """A turn-based env written without our base class; `break_` does one thing wrong."""

    def __init__(self, break_: str = "") -> None:
        self.metadata = {"name": "raw"}
        self.possible_agents = list(SEATS)
        self.break_ = break_

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        if self.break_ == "reset":
            raise OSError("no cards")
        self.agents = list(SEATS)
        self.agent_selection = "player_0"
        self.rewards: Any = dict.fromkeys(SEATS, 0.0)
        self.terminations = dict.fromkeys(SEATS, False)
        self.truncations = dict.fromkeys(SEATS, False)
        self.infos: Any = {seat: {"legal_actions": ["go"]} for seat in SEATS}
        self._cumulative_rewards = dict.fromkeys(SEATS, 0.0)
        self.moves = 0
        if self.break_ == "legal":
            self.infos = {seat: {"legal_actions": 3} for seat in SEATS}
        if self.break_ == "letters":
            self.infos = {seat: {"legal_actions": "go"} for seat in SEATS}
        if self.break_ == "info":
            self.infos = dict.fromkeys(SEATS, "nothing to tell")
        if self.break_ == "infos":
            self.infos = None
        if self.break_ == "selection":
            del self.agent_selection

    def observe(self, agent: str) -> str:
        if self.break_ == "observe":
            raise LookupError("no table")
        return f"move {self.moves}"

    def step(self, action: str | None) -> None:
        seat = self.agent_selection
        if self.terminations[seat]:
            if self.break_ != "undead":
                self.agents.remove(seat)
                self.agent_selection = (self.agents or list(SEATS))[0]
            return
        self.moves += 1
        self.rewards = {"player_0": 1.0, "player_1": -1.0}
        if self.break_ == "step":
            raise ZeroDivisionError("no chips")
        if self.break_ == "text":
            self.rewards = {"player_0": "one", "player_1": -1.0}
        if self.break_ == "nan":
            self.rewards = {"player_0": float("nan"), "player_1": 0.0}
        if self.break_ == "stranger":
            self.rewards = {"player_9": 1.0}
        if self.break_ == "list":
            self.rewards = [1.0, -1.0]
        if self.break_ == "flags":
            self.terminations = {}
        self.agent_selection = SEATS[self.moves % 2]
        if self.moves == 2:
            self.terminations = dict.fromkeys(self.terminations, True)


AEC_FAULTS = {
    "reset": "raw.reset raised OSError: no cards",
    "observe": "raw.observe raised LookupError: no table",
    "step": "raw.step raised ZeroDivisionError: no chips",
    "legal": "raw lists 3 as the legal actions of 'player_0'",
    "letters": "raw lists 'go' as the legal actions",
    "info": "raw.infos['player_0'] is 'nothing to tell'",
    "infos": "raw.infos raised AttributeError",
    "selection": "agent_selection",
    "text": "paid seat 'player_0' 'one'",
    "nan": "paid seat 'player_0' nan",
    "stranger": "unknown seat 'player_9'; the seats are player_0, player_1",
    "list": "raw.step raised",
    "flags": "raw.step raised KeyError",
    "undead": "raw keeps 'player_0', who is finished, in the game",
}


def _cast(kind: str = "random") -> dict[str, str]:
    return dict.fromkeys(SEATS, kind)


def _worker(env: str | Callable[..., Any], **changes: Any) -> RolloutWorker:
    if callable(env):
        register_env("broken_for_a_test", env)
        env = "broken_for_a_test"
    return RolloutWorker(
        RolloutPlan(env=env, agents={"random": AgentSpec("random")}, **changes), NoSampler()
    )


def _play(worker: RolloutWorker, count: int = 1) -> list[Episode]:
    requests = [EpisodeRequest(str(i), str(i), i, _cast()) for i in range(count)]
    return asyncio.run(asyncio.wait_for(worker.play(requests), 20))


def test_the_raw_env_as_it_should_be() -> None:
    [episode] = _play(_worker(Raw))
    assert episode.outcome == "finished" and episode.returns == {"player_0": 2.0, "player_1": -2.0}
    assert [turn.reward for turn in episode.turns] == [2.0, -2.0]


@pytest.mark.parametrize("break_", AEC_FAULTS)
def test_a_broken_turn_based_env_fails_its_episode_and_says_why(break_: str) -> None:
    [episode] = _play(_worker(lambda: Raw(break_)))
    assert episode.outcome == "failed"
    assert AEC_FAULTS[break_] in episode.reason, episode.reason


class RawParallel(ParallelEnv[str, Any, str]):
    """The same for envs in which all move at once."""

    def __init__(self, break_: str = "") -> None:
        self.metadata = {"name": "raw_parallel"}
        self.possible_agents = list(SEATS)
        self.break_ = break_

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = list(SEATS)
        observations = dict.fromkeys(SEATS, "go on")
        return observations if self.break_ == "reset" else (observations, {s: {} for s in SEATS})

    def step(self, actions: dict[str, str]) -> Any:
        ended, none = dict.fromkeys(SEATS, True), dict.fromkeys(SEATS, False)
        result: tuple[Any, ...] = ({}, dict.fromkeys(SEATS, 1.0), ended, none, {})
        self.agents = []
        if self.break_ == "short":
            return result[:4]
        if self.break_ == "flags":
            return (*result[:2], True, *result[3:])
        if self.break_ == "rewards":
            return (result[0], None, *result[2:])
        return result


@pytest.mark.parametrize("break_", ["reset", "short", "flags", "rewards"])
def test_a_broken_simultaneous_env_fails_its_episode(break_: str) -> None:
    [good] = _play(_worker(RawParallel))
    assert good.outcome == "finished" and good.returns == dict.fromkeys(SEATS, 1.0)
    [episode] = _play(_worker(lambda: RawParallel(break_)))
    assert episode.outcome == "failed" and "raw_parallel." in episode.reason


def test_a_failed_instance_is_not_used_again_and_the_others_go_on() -> None:
    made: list[KuhnPoker] = []

    class Fragile(KuhnPoker):
        """Breaks in the game of seed 1, and would stay broken."""

        broken = False

        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def play(self, seat: str, action: str) -> None:
            self.broken |= self.seed == 1
            if self.broken:
                raise RuntimeError("stuck")
            super().play(seat, action)

    worker = _worker(Fragile, in_flight=1)
    outcomes = [episode.outcome for episode in _play(worker, 5)]
    assert outcomes == ["finished", "failed", "finished", "finished", "finished"]
    assert len(made) == 2  # one that broke, one for all the rest


def test_a_slow_turn_fails_its_own_episode_only() -> None:
    class Clocked(KuhnPoker):
        pass

    worker = _worker(Clocked, limits=Limits(turn_seconds=0.05))
    slow = worker.seat_agent

    class Sleeper:
        async def answer(self, view: Any, sampler: Any) -> Any:
            await asyncio.sleep(30)

    def seat_agent(request: EpisodeRequest, seat: str) -> Any:
        return Sleeper() if request.id == "2" and seat == "player_1" else slow(request, seat)

    worker.seat_agent = seat_agent  # pyright: ignore[reportAttributeAccessIssue]
    episodes = _play(worker, 4)
    assert [e.outcome for e in episodes] == ["finished", "finished", "failed", "finished"]
    assert "out of time" in episodes[2].reason and len(episodes[2].turns) == 1


def test_an_episode_out_of_time_keeps_the_turns_that_were_taken() -> None:
    class Slow:
        async def answer(self, view: Any, sampler: Any) -> Any:
            from opentinker.agent import Answer

            await asyncio.sleep(0.02)
            return Answer("nonsense")

    table = Table(KuhnPoker(illegal="retry(100), forfeit"))
    request = EpisodeRequest("1", "1", 0, _cast())
    agents: dict[str, Any] = dict.fromkeys(SEATS, Slow())
    episode = asyncio.run(
        walk(
            table,
            make_protocol("follow_env", table.seats),
            agents,
            request,
            NoSampler(),
            Limits(episode_seconds=0.1),
        )
    )
    assert episode.outcome == "failed" and 1 <= len(episode.turns) <= 5
    assert "out of time" in episode.reason and "'move'" in episode.reason


def test_a_speak_loop_that_asks_nobody_ends() -> None:
    class Gone(ParallelTextEnv):
        """b_0 leaves after the first round; what it would say is awaited for ever."""

        kind = "conversation"
        seats: Sequence[str] = ("a_0", "b_0")

        def deal(self, options: Any) -> None: ...

        def describe(self, seat: str) -> str:
            return "talk"

        def play(self, actions: Any) -> None:
            self.finish("b_0")

    stages = [
        Stage("leave", ("@all",), "move"),
        Stage("wait", ("b_0",), "speak"),
    ]
    edges = [("leave", "wait", "*"), ("wait", "wait", "*")]
    protocol = Protocol.of("waits", ("a_0", "b_0"), stages, edges)
    factory = RolloutWorker(
        RolloutPlan(env="kuhn_poker_v0", agents={"random": AgentSpec("random")}), NoSampler()
    )
    request = EpisodeRequest("1", "1", 0, {"a_0": "random", "b_0": "random"})
    agents = {seat: factory.seat_agent(request, seat) for seat in ("a_0", "b_0")}
    episode = asyncio.run(
        walk(Table(Gone()), protocol, agents, request, NoSampler(), Limits(turns=10))
    )
    assert episode.outcome == "truncated" and len(episode.turns) == 2
    assert episode.reason == "21 stages were entered for 2 answers"
