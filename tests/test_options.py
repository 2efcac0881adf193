"""Checks of options and of JSONL files: what is allowed passes, all else is told in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opentinker.errors import ConfigError
from opentinker.options import flag, number, one_of, prompts, some_of, whole
from opentinker.records import read_records


def test_values_that_are_allowed_come_back() -> None:
    assert whole("e", "n", 3, 1) == 3
    assert number("e", "x", 2, 0.0, 2.0) == 2.0
    assert flag("e", "f", False) is False
    assert one_of("e", "mode", "a", ("a", "b")) == "a"
    assert some_of("e", "seats", ["b", "a"], ("a", "b")) == ("b", "a")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: whole("e", "n", 0, 1), "e: n is 0; allowed: a whole number of 1 or more"),
        (lambda: whole("e", "n", 9, 1, 8), "allowed: a whole number from 1 to 8"),
        (lambda: whole("e", "n", True, 0), "n is True"),
        (lambda: whole("e", "n", 1.0, 0), r"n is 1\.0"),
        (lambda: number("e", "x", float("nan"), 0.0), "x is nan; allowed: a number of 0 or more"),
        (lambda: number("e", "x", 3, 0.0, 2.5), r"from 0 to 2\.5"),
        (lambda: flag("e", "f", 1), "f is 1; allowed: true or false"),
        (lambda: one_of("e", "m", "turn", ("turns", "once")), "did you mean 'turns'"),
        (lambda: some_of("e", "s", "a", ("a",)), "allowed: a list of names"),
        (lambda: some_of("e", "s", ["a", "a"], ("a",)), "different ones of a"),
        (lambda: some_of("e", "s", [], ("a",)), "at least 1"),
    ],
)
def test_values_that_are_not_allowed_are_told(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_prompts_are_overridden_by_name() -> None:
    defaults = {"talk": "Talk.", "move": "Move."}
    assert prompts("p", defaults, None) == defaults
    assert prompts("p", defaults, {"talk": "{seat}!", "move": ""}) == {
        "talk": "{seat}!",
        "move": None,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tlak": "x"}, "did you mean 'talk'"),
        ({"talk": 3}, "allowed: a text"),
        ({"talk": "{who}"}, "it may name {seat}"),
        ({"talk": "{"}, "can't be filled"),
    ],
)
def test_prompts_that_can_not_be_used_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prompts("p", {"talk": "Talk."}, given)


def test_records_are_read_in_part_and_found_beside_the_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n{"a": 3}\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [row["a"] for row in read_records("rows.jsonl", ("a",))] == [1, 2, 3]
    assert [row["a"] for row in read_records("rows.jsonl", start=1, stop=2)] == [2]
    with pytest.raises(ConfigError, match="has 3 records, none of them from 5"):
        read_records("rows.jsonl", start=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: this is not JSON"),
        ('{"a": 1}\n[1]', r"line 2: \[1\] is not a JSON object"),
        ('{"b": 1}', "line 1: no 'a'; the keys are 'b'"),
        ("", "has 0 records"),
    ],
)
def test_a_torn_file_is_told_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_records(path, ("a",))


def test_a_missing_file_is_told() -> None:
    with pytest.raises(ConfigError, match=r"no file 'nowhere\.jsonl'"):
        read_records("nowhere.jsonl")
