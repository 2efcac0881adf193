"""The fine-tuning jobs from their data to what they leave, with the tuner in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from opentinker.config import parse_experiment
from opentinker.errors import ConfigError
from opentinker.finetuning import DPOExperiment, SFTExperiment
from opentinker.recorder import Run
from opentinker.rollout.worker import AgentSpec, RolloutPlan
from opentinker.scheduler.check import Checked
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.finetune import LEARNED, finetune
from opentinker.scheduler.hosts import TunerHost
from opentinker.scheduler.learned import load_data
from opentinker.scheduler.models import model_folder
from opentinker.scheduler.watcher import Silent

COLORS = ("red", "blue", "green", "black", "white", "pink")
FRUITS = ("fig", "plum", "pear", "lime", "kiwi", "date")
FIT: dict[str, Any] = {"steps": 60, "batch_tokens": 512, "learning_rate": 1e-2}


class Killed(Exception):
    pass


class Here:
    """A worker in this process."""

    def __init__(self, host: TunerHost, dies_at: int) -> None:
        self._host = host
        self._left = dies_at

    async def call(self, method: str, *args: Any) -> Any:
        if method == "advance":
            self._left -= args[0]
            if self._left < 0:
                raise Killed
        return getattr(self._host, method)(*args)


class Near:
    """A cluster of such workers; with `dies_at` the fit is cut off after so many steps."""

    def __init__(self, dies_at: int = 10**9) -> None:
        self._dies_at = dies_at

    def worker(self, path: str, keywords: Mapping[str, Any], *, threads: int = 1) -> Here:
        del path, threads
        return Here(TunerHost(**keywords), self._dies_at)


def _chats(folder: Path) -> None:
    lines = []
    for color, fruit in zip(COLORS * 4, FRUITS * 4, strict=True):
        asked = [{"role": "user", "content": f"Which fruit is {color}?"}]
        answer = [{"role": "assistant", "content": fruit}]
        again = [{"role": "user", "content": "And which color was it?"}]
        lines.append({"messages": [*asked, *answer, *again, {**answer[0], "content": color}]})
    (folder / "chats.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _pairs(folder: Path) -> None:
    lines = [
        {
            "messages": [{"role": "user", "content": f"Which fruit is {color}?"}],
            "chosen": fruit,
            "rejected": FRUITS[place - 1],
        }
        for place, (color, fruit) in enumerate(zip(COLORS, FRUITS, strict=True))
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _checked(folder: Path, **table: Any) -> Checked:
    experiment = parse_experiment({"name": "fit", **table})
    plan = RolloutPlan("kuhn_poker_v0", agents={"random": AgentSpec("random")})
    seats = ("player_0", "player_1")
    cast_: dict[str, str] = dict.fromkeys(seats, "random")
    return Checked(experiment, folder / "experiment.toml", seats, cast_, plan, None, None)


def _fit(checked: Checked, run: Run, near: Near | None = None, **options: Any) -> Path:
    cluster = cast(Cluster, near or Near())
    return asyncio.run(finetune(checked, run, cluster, Silent(), **options))


def _run(folder: Path, name: str = "fit") -> Run:
    return Run.create(folder / "runs", name, "")


def _answer(network: Any, folder: Path, asked: str) -> str:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer.encode(f"<|user|>{asked}<|end|><|assistant|>", return_tensors="pt")
    with torch.no_grad():
        return tokenizer.decode(network(input_ids=prompt).logits[0, -1].argmax())


def test_a_file_of_conversations_is_learned(tmp_path: Path) -> None:
    _chats(tmp_path)
    run = _run(tmp_path)
    checked = _checked(tmp_path, job="sft", data={"file": "chats.jsonl"}, fit=FIT)
    target = _fit(checked, run)
    assert target == run.folder / "model"
    network = AutoModelForCausalLM.from_pretrained(target)
    found = [_answer(network, target, f"Which fruit is {color}?") for color in COLORS]
    assert found == list(FRUITS)
    rows = run.lines("metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 61))
    assert rows[-1]["loss"] < 0.1 and rows[-1]["val_loss"] < 0.1
    assert {row["skipped_examples"] for row in rows} == {0}
    assert [p.name for p in run.checkpoints()] == ["step-00054", "step-00060"]
    assert model_folder(str(run.folder)) == target.resolve()


def test_a_killed_fit_taken_up_ends_as_one_that_was_not(tmp_path: Path) -> None:
    _chats(tmp_path)
    table: dict[str, Any] = {
        "job": "sft",
        "data": {"file": "chats.jsonl"},
        "fit": {**FIT, "steps": 40, "patience": 40, "evaluate_every": 8, "packing": True},
    }
    checked = _checked(tmp_path, **table)
    whole, killed = _run(tmp_path), _run(tmp_path)
    _fit(checked, whole)
    with pytest.raises(Killed):
        _fit(checked, killed, Near(dies_at=19))
    (killed.folder / "checkpoints" / "fit.part").mkdir()  # it died in a checkpoint
    killed.append("metrics.jsonl", {"step": 17.0})
    (tmp_path / "chats.jsonl").unlink()
    _fit(checked, killed, resume=True)

    def told(run: Run) -> list[dict[str, float]]:
        rows = run.lines("metrics.jsonl")
        return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in rows]

    assert told(killed) == told(whole) and len(told(whole)) == 40
    states = [AutoModelForCausalLM.from_pretrained(r.folder / "model") for r in (whole, killed)]
    for one, other in zip(*(each.parameters() for each in states), strict=True):
        assert torch.equal(one, other)


def test_a_fit_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    _chats(tmp_path)
    checked = _checked(tmp_path, job="sft", data={"file": "chats.jsonl"}, fit={**FIT, "steps": 9})
    run = _run(tmp_path)
    with pytest.raises(Killed):
        _fit(checked, run, Near(dies_at=0))
    run.append("metrics.jsonl", {"step": 1.0})
    _fit(checked, run, resume=True)
    assert [row["step"] for row in run.lines("metrics.jsonl")] == list(range(1, 10))


def test_preferences_move_an_adapter_and_not_its_base(tmp_path: Path) -> None:
    _chats(tmp_path)
    _pairs(tmp_path)
    base = _run(tmp_path, "base")
    sft = _checked(tmp_path, job="sft", data={"file": "chats.jsonl"}, fit={**FIT, "steps": 5})
    _fit(sft, base)
    run = _run(tmp_path)
    checked = _checked(
        tmp_path,
        job="dpo",
        model=str(base.folder),
        data={"file": "pairs.jsonl"},
        fit={**FIT, "validation": 0.0, "beta": 0.5, "learning_rate": 2e-2},
        policy={"kind": "lora", "rank": 4},
    )
    target = _fit(checked, run)
    assert target == run.folder / "adapter"
    rows = run.lines("metrics.jsonl")
    assert rows[0]["loss"] == pytest.approx(0.6931, abs=1e-4) and rows[0]["accuracy"] < 1
    assert rows[-1]["accuracy"] == 1.0 and rows[-1]["margin"] > 1
    tokenizer = AutoTokenizer.from_pretrained(base.folder / "model")
    text = "<|user|>Which fruit is green?<|end|><|assistant|>"
    prompt = tokenizer.encode(text, return_tensors="pt")
    good, bad = (tokenizer.convert_tokens_to_ids(fruit) for fruit in ("pear", "plum"))
    network = AutoModelForCausalLM.from_pretrained(base.folder / "model")
    gaps = []
    adapted = AutoModelForCausalLM.from_pretrained(base.folder / "model")
    for each in (network, PeftModel.from_pretrained(adapted, str(target))):
        with torch.no_grad():
            logits = each(input_ids=prompt).logits[0, -1]
        gaps.append((logits[good] - logits[bad]).item())
    assert 0.5 * (gaps[1] - gaps[0]) > 1  # the margin, but for the two ends


def test_the_legal_answers_of_played_episodes_are_learned(tmp_path: Path) -> None:
    cast_ = {"player_0": "random", "player_1": "random"}
    env = {"id": "kuhn_poker_v0"}
    table: dict[str, Any] = {"job": "sft", "env": env, "cast": cast_, "data": {"episodes": 30}}
    run = _run(tmp_path)
    _fit(_checked(tmp_path, **table, fit={"steps": 3}), run)
    assert len(list(run.episodes())) == 30
    lines = (run.folder / LEARNED).read_text().splitlines()
    seats = sum(len({turn.seat for turn in e.turns}) for _, e in run.episodes())
    assert len(lines) == seats
    # the same run's transcripts, by name
    again = _run(tmp_path, "again")
    data = {"run": run.folder.name, "policies": ["random"], "min_reward": 1.0}
    _fit(_checked(tmp_path, job="sft", data=data, fit={"steps": 3}), again)
    winners = sum(paid >= 1 for _, e in run.episodes() for paid in e.returns.values())
    assert 0 < len((again.folder / LEARNED).read_text().splitlines()) <= winners


def test_examples_that_are_too_long_are_counted(tmp_path: Path) -> None:
    _chats(tmp_path)
    with (tmp_path / "chats.jsonl").open("a") as file:
        long = {"role": "user", "content": "red " * 600}
        file.write(json.dumps({"messages": [long, {"role": "assistant", "content": "fig"}]}))
    table: dict[str, Any] = {"job": "sft", "data": {"file": "chats.jsonl"}}
    run = _run(tmp_path)
    _fit(_checked(tmp_path, **table, fit={"steps": 1}), run)
    assert run.lines("metrics.jsonl")[0]["skipped_examples"] == 1
    with pytest.raises(ConfigError, match="all 25 examples are too long: the shortest has 1"):
        _fit(_checked(tmp_path, **table, fit={"steps": 1, "max_length": 4}), _run(tmp_path))


def test_data_is_found_beside_the_experiment_and_under_the_runs(tmp_path: Path) -> None:
    _chats(tmp_path)
    _pairs(tmp_path)

    def load(job: str, **data: Any) -> int:
        experiment = parse_experiment({"name": "x", "job": job, "data": data})
        assert isinstance(experiment, SFTExperiment | DPOExperiment)
        return len(load_data(experiment, tmp_path / "experiment.toml", tmp_path / "runs"))

    assert load("sft", file="chats.jsonl") == 24 and load("dpo", file="pairs.jsonl") == 6
    with pytest.raises(ConfigError, match="24 of 24 lines are broken"):
        load("dpo", file="chats.jsonl")
    _run(tmp_path, "kuhn")
    with pytest.raises(ConfigError, match="unknown run 'khn'; did you mean 'kuhn'"):
        load("sft", run="khn")
    with pytest.raises(ConfigError, match="has no transcripts"):
        load("dpo", run="kuhn")


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_fit_on_a_worker_of_its_own(tmp_path: Path, cluster: Cluster) -> None:
    _pairs(tmp_path)
    run = _run(tmp_path)
    fit = {"epochs": 2, "validation": 0.2, "patience": 1}
    checked = _checked(tmp_path, job="dpo", data={"file": "pairs.jsonl"}, fit=fit)
    try:
        target = asyncio.run(finetune(checked, run, cluster, Silent()))
    finally:
        cluster.stop_all()
    assert (target / "model.safetensors").is_file()
    assert "val_accuracy" in run.lines("metrics.jsonl")[-1]
