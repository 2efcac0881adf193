"""All native envs: PettingZoo's contract and ours, and 200 episodes of random play of each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from opentinker.registry import make_env
from opentinker.rollout.worker import AgentSpec, NoSampler, RolloutPlan, RolloutWorker
from opentinker.testing import check_env
from opentinker.types import Episode, EpisodeRequest

Holds = Callable[[Episode], bool]

TASKS = [
    {"prompt": "What is the capital of France?", "answer": "Paris"},
    {"prompt": "Is 7 prime?", "choices": ["yes", "no"], "answer": "yes"},
    {"turns": [{"prompt": "2 + 2?", "answer": "4"}, {"prompt": "Twice that?", "answer": "8"}]},
]


def _in(least: float, most: float) -> Holds:
    return lambda episode: all(least <= value <= most for value in episode.returns.values())


def _debate(episode: Episode) -> bool:
    """The judge has 0 or 1; the debaters are paid 1 and -1, or nothing if the judge forfeited."""
    judge, *debaters = (episode.returns[seat] for seat in ("judge", "debater_0", "debater_1"))
    return judge in (0.0, 1.0) and sorted(debaters) == [-1.0, 1.0]


def _zero_sum(episode: Episode) -> bool:
    return sorted(episode.returns.values()) in ([-1.0, 1.0], [0.0, 0.0])


def _public_goods(episode: Episode) -> bool:
    """4 seats, 3 rounds of 10 tokens, multiplier 2: each gift adds as much again to the sum."""
    given = sum(int(turn.action or "") for turn in episode.turns)
    return sum(episode.returns.values()) == 4 * 3 * 10 + given


def _werewolf(wolves: int, episode: Episode) -> bool:
    """The wolves are paid alike, and all the others the opposite."""
    paid = list(episode.returns.values())
    return {*paid} == {-1.0, 1.0} and wolves in (paid.count(1.0), paid.count(-1.0))


def _same(*values: float) -> Holds:
    """All seats are paid alike, one of `values`."""
    return lambda episode: (
        len(set(episode.returns.values())) == 1 and {*episode.returns.values()} <= {*values}
    )


CASES: list[tuple[str, dict[str, Any], Holds]] = [
    ("debate_v0", {}, _debate),
    ("debate_v0", {"debaters": 5, "judge": False}, _same(0.0, 1.0)),
    ("debate_v0", {"speech": "quote", "pay": "together", "debaters": 1}, _same(0.0, 1.0)),
    ("arithmetic_v0", {}, _in(0.0, 0.0)),
    ("arithmetic_v0", {"tools": ["calculator"], "tries": 2}, _in(0.0, 0.0)),
    ("tasks_v0", {"file": "tasks.jsonl"}, _in(0.0, 1.0)),
    ("gomoku_v0", {"size": 3, "line": 3}, _zero_sum),
    ("gomoku_v0", {"size": 7, "line": 4}, _zero_sum),
    ("negotiation_v0", {}, _in(0.0, 1.0)),
    ("public_goods_v0", {}, _public_goods),
    ("signalling_v0", {"rounds": 3}, _same(0.0, 1.0, 2.0, 3.0)),
    ("twenty_questions_v0", {}, _same(0.0, 1.0)),
    ("twenty_questions_v0", {"players": 2}, _same(0.0)),
    ("hidden_profile_v0", {"players": 9}, _same(0.0, 1.0)),
    ("hidden_profile_v0", {"decide": "captain"}, _same(0.0, 1.0)),
    *(("werewolf_v0", {"players": n}, partial(_werewolf, 1 if n < 7 else 2)) for n in range(5, 10)),
]

IDS = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options, _ in CASES]


@pytest.fixture(autouse=True)
def _tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(("name", "options", "holds"), CASES, ids=IDS)
def test_it_keeps_pettingzoos_contract_and_ours(
    name: str, options: Mapping[str, Any], holds: Holds
) -> None:
    check_env(partial(make_env, name, **options), games=2)


@pytest.mark.parametrize(("name", "options", "holds"), CASES, ids=IDS)
def test_200_random_episodes_end_and_pay_what_the_rules_can_pay(
    name: str, options: Mapping[str, Any], holds: Holds
) -> None:
    plan = RolloutPlan(name, env_options=options, agents={"random": AgentSpec("random")})
    worker = RolloutWorker(plan, NoSampler())
    seats = make_env(name, **options).possible_agents
    cast = dict.fromkeys(seats, "random")
    requests = [EpisodeRequest(str(k), str(k), k, cast) for k in range(200)]
    for episode in asyncio.run(worker.play(requests)):
        assert episode.outcome == "finished", episode.reason
        assert holds(episode), episode.returns
        for seat in seats:
            paid = [turn.reward for turn in episode.turns if turn.seat == seat]
            assert not paid or sum(paid) == episode.returns[seat]
