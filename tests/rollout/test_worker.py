"""Many episodes at once: who answered at which version, the same again, and rewards that sum."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opentinker.agents.policy import turn_seed
from opentinker.envs import kuhn_poker_v0
from opentinker.learner.tiny_model import make_tiny
from opentinker.rendering import Renderer
from opentinker.rollout.batching import BatchingSampler
from opentinker.rollout.worker import AgentSpec, NoSampler, RolloutPlan, RolloutWorker
from opentinker.types import Completion, Episode, EpisodeRequest, SampleRequest, SamplingParams

WORDS = ("[check]", "[bet]", "[fold]", "[call]", "what?")
VERSION = 5


class SeededSampler:
    """What it answers depends on the request's seed alone, as a good engine's answers do."""

    def __init__(self, model: Path) -> None:
        self.renderer = Renderer.load(model)
        self.asked: dict[int, SampleRequest] = {}
        self.sizes: list[int] = []

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.sizes.append(len(requests))
        return [self._one(request) for request in requests]

    def _one(self, request: SampleRequest) -> Completion:
        assert request.params.seed is not None
        self.asked[request.params.seed] = request
        tokens = self.renderer.answer_ids(random.Random(request.params.seed).choice(WORDS))
        return Completion(tokens, (-1.0,) * len(tokens), VERSION, "stop")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = kuhn_poker_v0.env()
    env.reset(seed=0)
    texts = [str(env.observe("player_0")), *WORDS]
    return make_tiny(tmp_path_factory.mktemp("tiny") / "model", texts)


def _plan(model: Path, seed: int = 0) -> RolloutPlan:
    return RolloutPlan(
        env="kuhn_poker_v0",
        policies={"alice": SamplingParams(4), "bob": SamplingParams(6)},
        agents={"random": AgentSpec("random")},
        model=str(model),
        seed=seed,
    )


def _requests(count: int, **cast: str) -> list[EpisodeRequest]:
    seats = cast or {"player_0": "alice", "player_1": "bob"}
    return [EpisodeRequest(str(i), str(i), i, seats) for i in range(count)]


def _timeless(episodes: Sequence[Episode]) -> list[Episode]:
    return [
        replace(e, seconds=0.0, turns=tuple(replace(t, seconds=0.0) for t in e.turns))
        for e in episodes
    ]


def test_same_plan_same_seed_same_episodes_however_they_are_batched(model: Path) -> None:
    def play(seed: int, in_flight: int, requests: list[EpisodeRequest]) -> list[Episode]:
        plan = replace(_plan(model, seed), in_flight=in_flight)
        sampler = BatchingSampler(SeededSampler(model).sample)
        return _timeless(asyncio.run(RolloutWorker(plan, sampler).play(requests)))

    first = play(0, 1024, _requests(40))
    assert play(0, 1, _requests(40)[::-1])[::-1] == first
    assert play(1, 1024, _requests(40)) != first
    assert len({tuple(turn.text for turn in e.turns) for e in first}) > 8


def test_every_trained_token_is_one_that_the_named_policy_sampled(model: Path) -> None:
    sampler = SeededSampler(model)
    plan = _plan(model)
    episodes = asyncio.run(RolloutWorker(plan, sampler).play(_requests(40)))
    turns = 0
    for episode in episodes:
        ids: dict[str, tuple[int, ...]] = {"player_0": (), "player_1": ()}
        counts = dict.fromkeys(ids, 0)
        for turn in episode.turns:
            seed = turn_seed(turn_seed(0, episode.request.id, turn.seat), counts[turn.seat])
            asked = sampler.asked[seed]
            assert asked.policy == turn.policy == episode.request.cast[turn.seat]
            assert asked.prompt_ids == (*ids[turn.seat], *turn.context_ids)  # exactly what was sent
            assert asked.params.max_tokens == {"alice": 4, "bob": 6}[asked.policy]
            assert turn.version == VERSION and len(turn.logprobs) == len(turn.tokens) > 0
            ids[turn.seat] = (*asked.prompt_ids, *turn.tokens)
            counts[turn.seat] += 1
            turns += 1
    assert turns == len(sampler.asked)


def test_what_many_episodes_ask_at_once_crosses_in_few_calls(model: Path) -> None:
    sampler = SeededSampler(model)
    worker = RolloutWorker(_plan(model), BatchingSampler(sampler.sample))
    episodes = asyncio.run(worker.play(_requests(60)))
    assert sampler.sizes[0] == 60  # the opening question of every episode
    longest = max(len(episode.turns) for episode in episodes)
    assert sum(sampler.sizes) == sum(len(e.turns) for e in episodes)
    assert len(sampler.sizes) <= 2 * longest


def test_only_a_policys_turns_have_tokens(model: Path) -> None:
    worker = RolloutWorker(_plan(model), SeededSampler(model))
    requests = _requests(20, player_0="alice", player_1="random")
    for episode in asyncio.run(worker.play(requests)):
        for turn in episode.turns:
            named = (turn.agent, turn.policy, turn.version, bool(turn.tokens))
            expected = {
                "player_0": ("alice", "alice", VERSION, True),
                "player_1": ("random", None, None, False),
            }
            assert named == expected[turn.seat] and turn.stage == "move"


@pytest.mark.parametrize(
    ("env", "options", "agent"),
    [
        ("kuhn_poker_v0", {}, AgentSpec("random")),
        ("kuhn_poker_v0", {"illegal": "retry(2), penalty(0.5)"}, AgentSpec("scripted")),
        ("kuhn_poker_v0", {}, AgentSpec("scripted")),
        ("rps_v2", {"rounds": 3}, AgentSpec("random")),
    ],
)
def test_turn_rewards_sum_to_what_the_env_paid(
    env: str, options: dict[str, Any], agent: AgentSpec
) -> None:
    if agent.kind == "scripted":  # illegal every second time
        agent = AgentSpec("scripted", {"lines": ["[nothing]", "[bet]", "[check]", "[nonsense]"]})
    plan = RolloutPlan(env=env, env_options=options, agents={"x": agent})
    worker = RolloutWorker(plan, NoSampler())
    episodes = asyncio.run(worker.play(_requests(40, player_0="x", player_1="x")))
    for episode in episodes:
        for seat, total in episode.returns.items():
            assert sum(turn.reward for turn in episode.turns if turn.seat == seat) == total
    if env == "rps_v2" or not (options or agent.kind == "scripted"):
        assert all(sum(episode.returns.values()) == 0 for episode in episodes)  # zero-sum games
        assert any(episode.returns["player_0"] for episode in episodes)


def test_a_penalty_is_in_the_return() -> None:
    agent = AgentSpec("scripted", {"lines": ["[nonsense]", "[check]"]})
    plan = RolloutPlan(
        env="kuhn_poker_v0",
        env_options={"illegal": "retry(1), penalty(0.5)"},
        agents={"x": agent},
    )
    [request] = _requests(1, player_0="x", player_1="x")
    request = replace(request, options={"deal": ["K", "J"]})
    [episode] = asyncio.run(RolloutWorker(plan, NoSampler()).play([request]))
    # each is asked twice and pays half a chip; both check, and the king wins one chip
    assert [(turn.seat, turn.legal, turn.reward) for turn in episode.turns] == [
        ("player_0", False, -0.5),
        ("player_0", True, 1.0),
        ("player_1", False, -0.5),
        ("player_1", True, -1.0),
    ]
    assert episode.returns == {"player_0": 0.5, "player_1": -1.5}


def test_an_error_of_the_engine_ends_the_play_and_leaves_no_episode_running(model: Path) -> None:
    class Dead:
        async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
            raise ConnectionError("the engine is gone")

    async def play() -> int:
        with pytest.raises(ConnectionError, match="the engine is gone"):
            await RolloutWorker(_plan(model), Dead()).play(_requests(10))
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(play()) == 1


def test_what_goes_to_a_worker_and_comes_back_can_be_pickled(model: Path) -> None:
    plan = _plan(model)
    episodes = asyncio.run(RolloutWorker(plan, SeededSampler(model)).play(_requests(2)))
    assert pickle.loads(pickle.dumps((plan, episodes))) == (plan, episodes)


def test_an_episode_that_outgrows_the_context_is_cut_and_the_others_go_on(model: Path) -> None:
    sampler = SeededSampler(model)
    plan = _plan(model)
    whole = asyncio.run(RolloutWorker(plan, sampler).play(_requests(40)))
    longest = max(len(asked.prompt_ids) for asked in sampler.asked.values())
    plan = replace(plan, context=longest)  # the longest prompt leaves no room for an answer
    cut = asyncio.run(RolloutWorker(plan, SeededSampler(model)).play(_requests(40)))
    outcomes = [episode.outcome for episode in cut]
    assert 0 < outcomes.count("truncated") < 40 and "failed" not in outcomes
    for before, after in zip(_timeless(whole), _timeless(cut), strict=True):
        if after.outcome == "truncated":
            assert f"the model's context {longest}" in after.reason
            assert len(after.turns) < len(before.turns)
        else:
            assert after == before
