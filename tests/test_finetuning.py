"""What a fine-tuning job may say, and the one line that is said where it may not."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from opentinker.config import dump_experiment, parse_experiment
from opentinker.errors import ConfigError
from opentinker.finetuning import DPOExperiment, SFTExperiment

PLAYED: dict[str, Any] = {
    "env": {"id": "kuhn_poker_v0"},
    "cast": {"player_0": "random", "player_1": "random"},
}
SFT: dict[str, Any] = {"name": "s", "job": "sft"}
DPO: dict[str, Any] = {"name": "d", "job": "dpo"}


def test_a_file_or_a_run_needs_neither_env_nor_cast() -> None:
    for data in ({"file": "x.jsonl"}, {"run": "kuhn", "seats": ["p"], "last_steps": 3}):
        for job, kind in ((SFT, SFTExperiment), (DPO, DPOExperiment)):
            parsed = parse_experiment({**job, "data": data})
            assert isinstance(parsed, kind) and parsed.env is None and parsed.cast == {}


def test_what_is_resolved_reads_back_as_it_was() -> None:
    for table in (
        {**SFT, "data": {"file": "x.jsonl"}},
        {**SFT, **PLAYED, "data": {"episodes": 10}, "fit": {"epochs": 2.0, "packing": True}},
        {**SFT, "data": {"run": "r", "top": 0.5, "min_reward": -1.0}},
        {**SFT, "data": {"file": "x"}, "policy": {"kind": "lora", "rank": 4, "targets": ["a"]}},
        {**DPO, "data": {"file": "x.jsonl"}, "fit": {"beta": 0.3, "patience": 2}},
    ):
        parsed = parse_experiment(table)
        assert parse_experiment(tomllib.loads(dump_experiment(parsed))) == parsed


def test_a_fit_is_400_steps_where_nothing_is_said() -> None:
    def steps(fit: dict[str, Any]) -> tuple[int | None, float | None]:
        parsed = parse_experiment({**SFT, "data": {"file": "x"}, "fit": fit})
        assert isinstance(parsed, SFTExperiment)
        return parsed.fit.steps, parsed.fit.epochs

    assert steps({}) == (400, None)
    assert steps({"epochs": 2.5}) == (None, 2.5)
    assert steps({"steps": 7}) == (7, None)
    parsed = parse_experiment({**SFT, "data": {"file": "x"}})
    assert isinstance(parsed, SFTExperiment) and parsed.fit.steps == 400


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"data": {}}, ["give exactly one of episodes, file, run; given: none"]),
    ({}, ["'data' is missing"]),
    (
        {"data": {"file": "x", "run": "r"}},
        ["give exactly one of episodes, file, run; given: file and run"],
    ),
    ({"data": {"episodes": 5}}, ["data.episodes needs [env]"]),
    ({"data": {"episodes": 5}, "env": {"id": "x"}}, ["data.episodes needs [cast]"]),
    ({**PLAYED, "data": {"file": "x"}}, ["[env] has no part in a fit on data.file"]),
    ({"data": {"file": "x", "top": 0.5}}, ["data.top chooses among a run's transcripts"]),
    ({"data": {"run": "r", "top": 0.0}}, ["data.top = 0.0", "greater than 0"]),
    ({"data": {"run": "r", "min_reward": float("nan")}}, ["data.min_reward", "finite"]),
    ({"data": {"fle": "x"}}, ["unknown key 'data.fle'", "did you mean 'file'"]),
    ({"fit": {"steps": 3, "epochs": 1.0}}, ["steps = 3 and epochs = 1.0: give one"]),
    ({"fit": {"patience": 2, "validation": 0.0}}, ["fit.patience = 2 needs fit.validation"]),
    ({"fit": {"beta": 0.1}}, ["unknown key 'fit.beta'"]),
    ({"fit": {"steps": 0}}, ["fit.steps = 0"]),
    ({"fit": {"learning_rate": float("inf")}}, ["fit.learning_rate = inf"]),
    ({"policy": {"rank": 4}}, ["policy.rank is of an adapter; set policy.kind = 'lora'"]),
    ({"policy": {"kind": "lora", "alpha": 8.0}}, ["alpha = 8.0 without rank"]),
    ({"policy": {"kind": "frozen"}}, ["policy.kind = 'frozen'", "'full' or 'lora'"]),
    ({"policy": {"knd": "lora"}}, ["unknown key 'policy.knd'", "did you mean 'kind'"]),
]


@pytest.mark.parametrize(("change", "parts"), WRONG, ids=[parts[0] for _, parts in WRONG])
def test_what_cannot_be_is_refused_in_one_line(change: dict[str, Any], parts: list[str]) -> None:
    table = {**SFT, **({} if "data" in change or not change else {"data": {"file": "x"}}), **change}
    with pytest.raises(ConfigError) as caught:
        parse_experiment(table, "e.toml")
    said = str(caught.value)
    assert said.startswith("e.toml: ") and "\n" not in said
    assert all(part in said for part in parts), said


def test_preferences_are_not_played() -> None:
    for data in ({"episodes": 5}, {"run": "r", "top": 0.5}):
        with pytest.raises(ConfigError, match="unknown key 'data"):
            parse_experiment({**DPO, "data": data})
    with pytest.raises(ConfigError, match="exactly one of file, run; given: none"):
        parse_experiment({**DPO, "data": {}})
