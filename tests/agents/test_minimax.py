"""Minimax: never beaten at tic-tac-toe, by any line of the opponent, from both seats."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from opentinker.agent import View
from opentinker.agents.minimax import Solution, solution
from opentinker.envs.tictactoe_v3 import MARKS, position
from opentinker.errors import ConfigError
from opentinker.game import Position, Terminal
from opentinker.registry import agent_factory
from opentinker.rollout.worker import AgentSpec, NoSampler, RolloutPlan, RolloutWorker
from opentinker.types import EpisodeRequest

START = "." * 9


def _ends(best: Solution, board: str, seat: str, seen: set[str]) -> Iterator[float]:
    """What `seat` gets at each end, its own moves being any perfect ones, the other's any."""
    if board in seen:
        return
    seen.add(board)
    here = position(board)
    if isinstance(here, Terminal):
        yield here.returns[seat]
        return
    chosen = best.best(board) if here.seat == seat else here.children
    for action in chosen:
        yield from _ends(best, here.children[action], seat, seen)


@pytest.mark.parametrize("seat", MARKS)
def test_minimax_never_loses_tic_tac_toe_against_any_line(seat: str) -> None:
    ends = list(_ends(solution("tictactoe_v3"), START, seat, set()))
    assert set(ends) == {0.0, 1.0}


def test_perfect_tic_tac_toe_is_a_draw_and_its_answers_are_the_known_ones() -> None:
    best = Solution(position)
    assert best.returns(START) == {"player_1": 0.0, "player_2": 0.0}
    assert best.best(START) == list("123456789")
    assert best.best("X........") == ["5"]  # a corner is answered by the centre only
    assert best.best("....X....") == ["1", "3", "7", "9"]  # the centre by a corner only
    assert best.best("XX.OO....") == ["3"]  # takes the win
    assert best.best("XX..O....") == ["3"]  # stops the line
    assert best.best("XXXOO....") == []


@pytest.mark.parametrize("seat", MARKS)
def test_minimax_never_loses_through_the_env(seat: str) -> None:
    plan = RolloutPlan(
        "tictactoe_v3",
        agents={
            "perfect": AgentSpec("minimax", {"game": "tictactoe_v3"}),
            "random": AgentSpec("random"),
        },
    )
    cast = {each: "perfect" if each == seat else "random" for each in MARKS}
    requests = [EpisodeRequest(str(seed), str(seed), seed, cast) for seed in range(100)]
    episodes = asyncio.run(RolloutWorker(plan, NoSampler()).play(requests))
    assert all(episode.outcome == "finished" for episode in episodes)
    assert {episode.returns[seat] for episode in episodes} == {0.0, 1.0}


def test_each_perfect_action_is_played_and_the_seed_decides() -> None:
    view = View("player_1", "move", "", "", tuple("123456789"), START)

    def said(seed: int) -> str:
        agent = agent_factory("minimax")(game="tictactoe_v3", seat="player_1", seed=seed)
        return asyncio.run(agent.answer(view, NoSampler())).text

    assert {said(seed) for seed in range(100)} == {f"[{k}]" for k in range(1, 10)}
    assert said(3) == said(3)


def test_a_game_of_ones_own_is_solved_by_its_place() -> None:
    """Nim with one heap, whoever takes the last stick wins: 4k sticks are lost."""
    assert [bool(solution(f"{__name__}:nim").returns(f"a{n}")["a"] > 0) for n in range(1, 9)] == [
        n % 4 != 0 for n in range(1, 9)
    ]


def nim(infostate: str) -> Position | Terminal:
    """One to three of the sticks are taken; `"a5"`: a is to move, five lie there."""
    seat, sticks = infostate[0], int(infostate[1:])
    other = "b" if seat == "a" else "a"
    if not sticks:
        return Terminal({other: 1.0, seat: -1.0})
    return Position(seat, {str(n): f"{other}{sticks - n}" for n in range(1, min(3, sticks) + 1)})


def test_games_that_it_cannot_read_are_refused_in_words() -> None:
    with pytest.raises(ConfigError, match=r"'kuhn_poker_v0'.*no position\(infostate\)"):
        agent_factory("minimax")(game="kuhn_poker_v0", seat="player_0", seed=0)
    agent = agent_factory("minimax")(game="tictactoe_v3", seat="player_1", seed=0)
    with pytest.raises(ConfigError, match="names no information state"):
        asyncio.run(agent.answer(View("player_1", "move", "", ""), NoSampler()))
