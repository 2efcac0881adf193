from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from opentinker.errors import ConfigError
from opentinker.learner.exporting import export_policy
from opentinker.learner.settings import FullSource, LoraSource, PolicySettings
from opentinker.learner.worker import LearnerWorker
from opentinker.types import AdapterSpec, TrainBatch

SEQUENCES = [((5, 9, 3), (30, 22)), ((7,), (8, 9, 10, 11))]


@pytest.fixture(params=["model", "tied_model"])
def base(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(request.param)


@pytest.fixture
def learner(
    base: str, folder: Path, make_batch: Callable, random_rows: Callable, targeted: Callable
) -> LearnerWorker:
    """Saved in `folder`, with everything that can stand beside a policy."""
    made = LearnerWorker(base)
    settings = PolicySettings(learning_rate=1e-2, kl=0.1, critic=True)
    made.add_policy("alice", LoraSource(AdapterSpec(4, 8.0)), settings)
    made.add_policy("bob", FullSource(), settings)
    for name in ("alice", "bob"):
        batch: TrainBatch = targeted(make_batch(random_rows(6), policy=name))
        for _ in range(3):
            made.update(name, [batch])
    made.save(folder)
    return made


def gap(learner: LearnerWorker, policy: str, network: torch.nn.Module) -> float:
    """Between the learner's logprobs and those of a plain forward."""
    found = []
    for (prompt, tokens), own in zip(SEQUENCES, learner.score(policy, SEQUENCES), strict=True):
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0]
        logs = torch.log_softmax(logits[len(prompt) - 1 : -1], -1)
        found.append(np.abs(logs[range(len(tokens)), torch.tensor(tokens)].numpy() - own).max())
    return float(max(found))


def test_an_exported_adapter_is_a_clean_peft_folder(
    learner: LearnerWorker, base: str, folder: Path, tmp_path: Path
) -> None:
    out = export_policy(folder / "alice", base, tmp_path / "out", merged=False)
    assert out == tmp_path / "out"
    names = sorted(each.name for each in out.iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors"]
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == base
    plain = AutoModelForCausalLM.from_pretrained(base).eval()
    assert gap(learner, "alice", plain) > 1e-3
    assert gap(learner, "alice", PeftModel.from_pretrained(plain, str(out)).eval()) < 1e-5


def test_an_exported_model_is_a_clean_folder_of_transformers(
    learner: LearnerWorker, base: str, folder: Path, tmp_path: Path
) -> None:
    out = export_policy(folder / "bob", base, tmp_path / "out", merged=False)
    names = {each.name for each in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not names & {"optimizer.pt", "counts.json", "reference", "critic.safetensors"}
    assert gap(learner, "bob", AutoModelForCausalLM.from_pretrained(out).eval()) < 1e-5


def test_a_merged_adapter_is_the_base_with_it(
    learner: LearnerWorker, base: str, folder: Path, tmp_path: Path
) -> None:
    out = export_policy(folder / "alice", base, tmp_path / "out", merged=True)
    assert gap(learner, "alice", AutoModelForCausalLM.from_pretrained(out).eval()) < 1e-5
    assert not (out / "adapter_config.json").exists()
    words, own = AutoTokenizer.from_pretrained(base), AutoTokenizer.from_pretrained(out)
    assert own.chat_template == words.chat_template is not None
    assert own("a few words") == words("a few words")


def test_what_stood_there_is_replaced_whole(
    learner: LearnerWorker, base: str, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "stray").touch()
    export_policy(folder / "alice", base, out, merged=False)
    assert not (out / "stray").exists()
    (folder / "alice" / "adapter_model.safetensors").unlink()
    with pytest.raises(OSError):
        export_policy(folder / "alice", base, out, merged=False)
    assert (out / "adapter_model.safetensors").is_file()
    assert sorted(tmp_path.iterdir()) == [folder, out]


def test_what_can_not_be_exported_is_said(
    learner: LearnerWorker, base: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="nothing to merge"):
        export_policy(folder / "bob", base, tmp_path / "out", merged=True)
    with pytest.raises(ConfigError, match="holds no policy"):
        export_policy(folder / "carol", base, tmp_path / "out", merged=False)
    assert not (tmp_path / "out").exists()
