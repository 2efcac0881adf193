"""The prompts of information states, taken from real walks, and the strategies made of scores."""

from __future__ import annotations

import asyncio
import math

import pytest

from opentinker.analysis.infostates import StatePrompt, state_prompts, table_of, tabulate
from opentinker.analysis.solve import infostates
from opentinker.envs import kuhn_poker_v0, rps_v2
from opentinker.errors import ConfigError
from opentinker.learner.tiny_model import make_tiny
from opentinker.rendering import Renderer
from opentinker.rollout.worker import RolloutPlan


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    env = kuhn_poker_v0.env()
    env.reset(seed=0)
    texts = [str(env.observe("player_0")), "[check] [bet] [fold] [call]"]
    return Renderer.load(make_tiny(tmp_path_factory.mktemp("tiny") / "model", texts))


def _prompts(renderer: Renderer) -> dict[str, StatePrompt]:
    plan = RolloutPlan(env="kuhn_poker_v0")
    return asyncio.run(state_prompts(plan, renderer, kuhn_poker_v0.game_tree()))


def test_every_state_of_kuhn_has_its_seat_prompt_and_answers(renderer: Renderer) -> None:
    prompts = _prompts(renderer)
    assert list(prompts) == list(infostates(kuhn_poker_v0.game_tree())) and len(prompts) == 12
    first = prompts["Q"]
    env = kuhn_poker_v0.env()
    env.reset(seed=0, options={"deal": ["Q", "J"]})
    assert first.seat == "player_0"
    assert first.prompt_ids == renderer.opening(str(env.observe("player_0")))
    assert first.answers == {a: renderer.answer_ids(f"[{a}]") for a in ("check", "bet")}
    assert set(prompts["K:bet"].answers) == {"fold", "call"}
    assert {prompts[s].seat for s in prompts if ":" in s and s[2:] in ("check", "bet")} == {
        "player_1"
    }


def test_a_later_state_holds_the_whole_conversation(renderer: Renderer) -> None:
    """After check and bet, player_0 has its first prompt and its own answer in view."""
    prompts = _prompts(renderer)
    first, later = prompts["J"], prompts["J:check-bet"]
    begins = (*first.prompt_ids, *renderer.answer_ids("[check]"))
    assert later.seat == "player_0" and later.prompt_ids[: len(begins)] == begins


def test_a_state_prompt_does_not_depend_on_the_walk(renderer: Renderer) -> None:
    assert _prompts(renderer) == _prompts(renderer)


def test_a_tree_of_another_game_is_refused(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentinker.analysis.infostates._EPISODES", 20)
    plan = RolloutPlan(env="kuhn_poker_v0")
    with pytest.raises(ConfigError, match="never came to player_0, player_1; the env names J"):
        asyncio.run(state_prompts(plan, renderer, rps_v2.game_tree()))


STATES = {
    "J": StatePrompt("player_0", (1,), {"check": (2, 9), "bet": (3, 9)}),
    "K:bet": StatePrompt("player_1", (1,), {"fold": (4, 9), "call": (5, 9)}),
}


def test_scores_become_shares_of_the_legal_mass() -> None:
    scores = {
        ("J", "check"): [math.log(0.5), math.log(0.6)],  # 0.3
        ("J", "bet"): [math.log(0.1), 0.0],  # 0.1
        ("K:bet", "fold"): [math.log(0.2), 0.0],
        ("K:bet", "call"): [math.log(0.8), 0.0],
    }
    table, illegal = tabulate(STATES, scores)
    assert table["J"] == pytest.approx({"check": 0.75, "bet": 0.25})
    assert table["K:bet"] == pytest.approx({"fold": 0.2, "call": 0.8})
    assert illegal == pytest.approx((0.6 + 0.0) / 2)


def test_a_state_without_legal_mass_counts_as_uniform() -> None:
    scores = {(s, a): [-1e4, 0.0] for s, state in STATES.items() for a in state.answers}
    table, illegal = tabulate(STATES, scores)
    assert table["J"] == {"check": 0.5, "bet": 0.5} and illegal == 1.0


def test_a_table_for_all_takes_each_state_from_its_own_seat() -> None:
    mine, yours = {"J": {"check": 1.0}, "K:bet": {}}, {"J": {}, "K:bet": {"call": 1.0}}
    table = table_of(STATES, {"player_0": mine, "player_1": yours})
    assert table == {"J": {"check": 1.0}, "K:bet": {"call": 1.0}}
