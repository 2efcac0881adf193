"""reasoning-gym's tasks: asked once, scored by the task, guarded against scorers that raise."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import make_env
from opentinker.testing import check_env
from opentinker.wrappers.extras import load

factory: Any = pytest.importorskip("reasoning_gym.factory")

QUICK = ("chain_sum", "leg_counting", "codeio", "pool_matrix", "power_function", "sokoban")
NEED_MORE = ("composite",)
"""Tasks made of others, which must be named."""
SEVERAL_ANSWERS = ("boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour")
"""Tasks whose stored answer is none, or is scored below 1."""


@pytest.mark.parametrize("task", QUICK)
def test_it_keeps_pettingzoos_contract_and_ours(task: str) -> None:
    check_env(partial(make_env, f"reasoning_gym/{task}", size=50), games=2)


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(factory.DATASETS.keys() - {*QUICK, *NEED_MORE}))
def test_every_other_task_keeps_it_and_knows_its_own_answer(task: str) -> None:
    check_env(partial(make_env, f"reasoning_gym/{task}", size=10), games=2)
    env: Any = make_env(f"reasoning_gym/{task}", size=10)
    env.reset(seed=0)
    env.step(str(env._entry["answer"]))
    right = env.rewards["player_0"] == 1.0
    assert right == (task not in SEVERAL_ANSWERS)


def test_a_sum_is_asked_and_scored() -> None:
    env: Any = make_env("reasoning_gym/chain_sum", min_terms=2, max_terms=2)
    env.reset(seed=1)
    asked = env.observe("player_0")
    sum_asked = asked.split(":")[1].split("=")[0]
    right = eval(sum_asked)
    for said, paid in (
        (str(right), 1.0),
        (f"Well: <answer>{right - 1}</answer> no, <answer> {right} </answer>", 1.0),
        ("no idea", 0.0),
        ("", 0.0),
    ):
        env.reset(seed=1)
        assert env.observe("player_0") == asked
        env.step(said)
        assert env.rewards["player_0"] == pytest.approx(paid, abs=0.05)
        assert env.terminations["player_0"]


def test_a_question_can_be_chosen_and_seeds_draw_many() -> None:
    env: Any = make_env("reasoning_gym/leg_counting", size=20)
    drawn = set()
    for seed in range(60):
        env.reset(seed=seed)
        drawn.add(env.index)
    assert len(drawn) > 15
    env.reset(options={"index": 3})
    third = env.observe("player_0")
    other: Any = make_env("reasoning_gym/leg_counting", size=20)
    other.reset(seed=5, options={"index": 3})
    assert other.observe("player_0") == third
    with pytest.raises(ConfigError, match="no question 20; it has 20"):
        env.reset(options={"index": 20})


def test_a_scorer_that_raises_pays_nothing() -> None:
    task = load("reasoning_gym", "reasoning-gym").create_dataset("prime_factorization", size=1)
    with pytest.raises(ValueError):
        task.score_answer("no idea", task[0])
    env: Any = make_env("reasoning_gym/prime_factorization")
    env.reset(seed=0)
    env.step("no idea")
    assert env.rewards["player_0"] == 0.0


def test_what_can_not_be_made_is_said_in_words() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'chain_sum'"):
        make_env("reasoning_gym/chain_sums")
    with pytest.raises(UnknownNameError, match=r"did you mean 'max_terms'"):
        make_env("reasoning_gym/chain_sum", max_term=3)
    with pytest.raises(ConfigError, match="can't be made with"):
        make_env("reasoning_gym/chain_sum", min_terms=9, max_terms=3)
    with pytest.raises(ConfigError, match="at least one dataset"):
        make_env("reasoning_gym/composite")
