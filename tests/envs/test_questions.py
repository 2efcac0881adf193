"""Questions with known answers: sums, tasks from a file, tools and tries in the turn loop."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from opentinker.envs import arithmetic_v0, tasks_v0
from opentinker.errors import ConfigError
from opentinker.questions import last_number, understand_number

SEAT = "solver_0"


def sums(question: str = "What is 12 * 7?", answer: Any = 84, **options: Any) -> Any:
    game = arithmetic_v0.env(**options)
    game.reset(seed=0, options={"question": question, "answer": answer})
    return game


def test_a_right_answer_pays_one_and_a_wrong_one_nothing() -> None:
    for answer, reward in (("[84]", 1.0), ("It is [84.0].", 1.0), ("84", 1.0), ("[83]", 0.0)):
        game = sums()
        assert game.observe(SEAT) == "What is 12 * 7?\nAnswer with a number in brackets, like [12]."
        game.step(answer)
        assert game.rewards == {SEAT: reward} and game.terminations == {SEAT: True}


@pytest.mark.parametrize("answer", ["eighty-four", "[84] or [85]", "12 * 7 is 84", ""])
def test_an_answer_without_one_number_pays_nothing(answer: str) -> None:
    game = sums()
    game.step(answer)
    assert game.rewards == {SEAT: 0.0} and game.terminations == {SEAT: True}


def test_a_call_is_a_turn_whose_result_is_heard_in_the_next() -> None:
    game = sums(tools=["calculator"], calls=1)
    assert "You may use <calculator>2 * (3 + 4)</calculator> (1 left)." in game.observe(SEAT)
    game.step("Let me see: <calculator>12 * 7</calculator>")
    assert game.infos[SEAT]["legal"] and not game.terminations[SEAT]
    assert "calculator: 12 * 7 -> 84" in game.observe(SEAT) and "use" not in game.observe(SEAT)
    game.step("<calculator>84</calculator>")
    assert "no tool calls are left" in game.observe(SEAT)
    game.step("[84]")
    assert game.rewards == {SEAT: 1.0}


def test_a_wrong_answer_may_be_mended_while_tries_are_left() -> None:
    game = sums(tries=2)
    game.step("[80]")
    assert "Not right: [80]" in game.observe(SEAT) and game.rewards == {SEAT: 0.0}
    game.step("[84]")
    assert game.rewards == {SEAT: 1.0}


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({}, r"What is \d{1,2} [+-] \d{1,2}\?"),
        ({"digits": 3, "operations": "*"}, r"What is \d{1,3} \* \d{1,3}\?"),
        ({"digits": 1, "terms": 4, "operations": "+-*"}, r"What is \d( [-+*] \d){3}\?"),
    ],
)
def test_sums_are_made_from_the_seed_and_their_answer_is_right(
    options: dict[str, Any], pattern: str
) -> None:
    seen = set()
    for seed in range(100):
        game = arithmetic_v0.env(**options)
        game.reset(seed=seed)
        assert re.fullmatch(pattern, game.asked)
        assert game.answer == eval(game.asked.removeprefix("What is ").removesuffix("?"))
        seen.add(game.asked)
    assert len(seen) > 80


def test_sums_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sums.jsonl"
    path.write_text('{"question": "Half of 9?", "answer": "9 / 2 = 4.5\\n#### 4.5"}')
    game = arithmetic_v0.env(file=str(path))
    game.reset(seed=0)
    game.step("[4.5]")
    assert game.rewards == {SEAT: 1.0}


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("[-3]", "-3"),
        (" 1,000 ", "1000"),
        ("[2/4]", "1/2"),
        ("2 and 3 make [5], so [5.0]", "5"),
        ("2 and 3 make 5", None),
        ("[five]", None),
        ("[1] [2]", None),
        ("[1/0]", None),
    ],
)
def test_numbers_are_read_strictly(answer: str, read: str | None) -> None:
    assert understand_number(answer).action == read


def test_the_last_number_of_a_worked_out_answer_counts() -> None:
    assert last_number("3 + 4 = 7, times 2 is 1,400.5.") == 2801 / 2
    assert last_number("none") is None


@pytest.mark.parametrize(
    "options",
    [{"digits": 0}, {"terms": 0}, {"operations": "/"}, {"tools": ["abacus"]}, {"tries": 0}],
)
def test_options_of_sums_that_can_not_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="arithmetic_v0"):
        arithmetic_v0.env(**options)


TASKS = [
    {"prompt": "Capital of France?", "answer": "Paris"},
    {"prompt": "Is 7 prime?", "choices": ["yes", "no"], "answer": "yes"},
    {"turns": [{"prompt": "2 + 2?", "answer": "4"}, {"prompt": "Twice that?", "answer": "8"}]},
]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, TASKS)))
    return str(path)


def task(file: str, index: int, **options: Any) -> Any:
    game = tasks_v0.env(file=file, **options)
    game.reset(seed=0, options={"task": index})
    return game


def test_a_task_is_asked_and_its_answer_scored(file: str) -> None:
    game = task(file, 0)
    assert game.observe(SEAT) == "Capital of France?"
    game.step(" [paris] ")
    assert game.rewards == {SEAT: 1.0}


def test_choices_are_listed_and_must_be_kept_to(file: str) -> None:
    game = task(file, 1)
    assert game.infos[SEAT]["legal_actions"] == ["yes", "no"]
    assert game.observe(SEAT) == "Is 7 prime?\nAnswer [yes] or [no]."
    game.step("maybe")
    assert "no tag" in game.observe(SEAT)
    game.step("[no]")
    assert game.rewards == {SEAT: 0.0}


def test_the_turns_of_a_task_are_asked_and_paid_one_after_another(file: str) -> None:
    game = task(file, 2)
    game.step("4")
    assert game.rewards == {SEAT: 1.0} and game.observe(SEAT) == "Twice that?"
    game.step("9")
    assert game.rewards == {SEAT: 0.0} and game.terminations == {SEAT: True}


def test_the_seed_draws_the_task_from_the_lines_named(file: str) -> None:
    drawn = set()
    for seed in range(40):
        game = tasks_v0.env(file=file, start=1)
        game.reset(seed=seed)
        drawn.add(game.observe(SEAT).split("?")[0])
    assert drawn == {"Is 7 prime", "2 + 2"}


def half(answer: str, task: Any) -> float:
    return 0.5


def test_the_scoring_function_is_named_by_place_and_gives_partial_credit(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentinker.envs.tasks_v0.half", half, raising=False)
    game = task(file, 0, score="opentinker.envs.tasks_v0:half", tries=2)
    game.step("Lyon")
    assert "Not right: Lyon" in game.observe(SEAT)
    game.step("Nice")
    assert game.rewards == {SEAT: 0.5}


@pytest.mark.parametrize(
    ("score", "answer", "right", "worth"),
    [
        (tasks_v0.exact, "  Two   words ", "two words", 1.0),
        (tasks_v0.exact, "two word", "two words", 0.0),
        (tasks_v0.contains, "It is Paris, I think", "paris", 1.0),
        (tasks_v0.contains, "Lyon", "paris", 0.0),
        (tasks_v0.number, "3 + 4 makes 7", "#### 7", 1.0),
        (tasks_v0.number, "7 is not 8", "#### 7", 0.0),
        (tasks_v0.number, "seven", "7", 0.0),
    ],
)
def test_built_in_scores(score: Any, answer: str, right: str, worth: float) -> None:
    assert score(answer, {"answer": right}) == worth


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"answer": "x"}], {}, "has no text under 'prompt'"),
        ([{"turns": []}], {}, "at least one"),
        ([{"prompt": "x", "choices": []}], {}, "choices"),
        ([{"prompt": "x"}], {}, "a task without 'answer'"),
        (TASKS, {"score": "exactly"}, "score is 'exactly'"),
        (TASKS, {"score": "math:pi"}, "not a function"),
        (TASKS, {"start": 3}, "has 3 records"),
    ],
)
def test_tasks_that_can_not_be_asked_are_refused(
    tmp_path: Path, rows: list[Any], options: dict[str, Any], message: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ConfigError, match=message):
        tasks_v0.env(file=str(path), **options)


def test_a_task_of_another_number_is_refused(file: str) -> None:
    with pytest.raises(ConfigError, match="from 0 to 2"):
        task(file, 3)
