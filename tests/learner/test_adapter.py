"""Adapters from PEFT folders, and how fresh ones begin."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from opentinker.errors import ConfigError
from opentinker.learner.peft_folder import read_spec
from opentinker.learner.settings import FrozenSource, LoraSource, PolicySettings
from opentinker.learner.worker import LearnerWorker
from opentinker.types import AdapterSpec, AdapterWeights, TrainBatch

SEQUENCES = [((5, 9, 3), (30, 22)), ((7,), (8, 9, 10, 11))]
SPEC = AdapterSpec(4, 6.0, ("q_proj", "v_proj"))


@pytest.fixture
def theirs(model: str, folder: Path) -> Path:
    """An adapter that PEFT itself has made and saved."""
    torch.manual_seed(3)
    config = LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj"])
    network = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    for name, parameter in network.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.2)
    network.save_pretrained(str(folder))
    return folder


def plain_logprobs(model: str, adapter: Path) -> list[np.ndarray]:
    base = AutoModelForCausalLM.from_pretrained(model)
    network = PeftModel.from_pretrained(base, str(adapter)).eval()
    found = []
    for prompt, tokens in SEQUENCES:
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0]
        logs = torch.log_softmax(logits[len(prompt) - 1 : -1], -1)
        found.append(logs[range(len(tokens)), torch.tensor(tokens)].numpy())
    return found


def close(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return all(np.allclose(a, b, rtol=0, atol=1e-5) for a, b in zip(one, two, strict=True))


def test_a_frozen_adapter_answers_and_is_exported_as_peft_has_it(model: str, theirs: Path) -> None:
    learner = LearnerWorker(model)
    learner.add_policy("still", FrozenSource(str(theirs)))
    assert close(learner.score("still", SEQUENCES), plain_logprobs(model, theirs))
    assert not close(learner.score("still", SEQUENCES), learner.score("base", SEQUENCES))
    weights = learner.export("still")
    assert isinstance(weights, AdapterWeights)
    assert weights.spec == SPEC
    saved = load_file(theirs / "adapter_model.safetensors")
    assert weights.tensors.keys() == saved.keys()
    assert all(np.array_equal(weights.tensors[name], saved[name].numpy()) for name in saved)


def test_a_policy_goes_on_from_a_peft_folder(
    model: str, theirs: Path, make_batch: Callable[..., TrainBatch], random_rows: Callable
) -> None:
    learner = LearnerWorker(model)
    learner.add_policy("alice", LoraSource(SPEC, start=str(theirs)), PolicySettings())
    assert close(learner.score("alice", SEQUENCES), plain_logprobs(model, theirs))
    before = learner.export("alice").tensors
    assert learner.update("alice", [make_batch(random_rows(4))]).skipped == ""
    after = learner.export("alice").tensors
    assert not any(np.array_equal(before[name], after[name]) for name in before)


def test_half_precision_is_read_as_it_is(model: str, theirs: Path) -> None:
    file = theirs / "adapter_model.safetensors"
    half = {name: each.to(torch.bfloat16) for name, each in load_file(file).items()}
    save_file(half, file)
    learner = LearnerWorker(model)
    learner.add_policy("still", FrozenSource(str(theirs)))
    for name, value in learner.export("still").tensors.items():
        assert np.array_equal(value, half[name].float().numpy())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (AdapterSpec(8, 6.0, SPEC.targets), "'alice': rank 8 is asked for.*has rank 4"),
        (AdapterSpec(4, 8.0, SPEC.targets), "alpha 8 is asked for.*has alpha 6"),
        (AdapterSpec(4, 6.0), r"targets down_proj, .* is asked for.*has targets q_proj, v_proj"),
        (AdapterSpec(4, 6.0, ("q_prj",)), "did you mean 'q_proj'"),
    ],
)
def test_a_folder_of_another_shape_is_refused(
    model: str, theirs: Path, spec: AdapterSpec, message: str
) -> None:
    learner = LearnerWorker(model)
    with pytest.raises(ConfigError, match=message):
        learner.add_policy("alice", LoraSource(spec, start=str(theirs)), PolicySettings())
    learner.add_policy("alice", LoraSource(SPEC), PolicySettings())


def test_the_order_of_targets_is_no_difference(model: str, theirs: Path) -> None:
    learner = LearnerWorker(model)
    spec = AdapterSpec(4, 6.0, ("v_proj", "q_proj"))
    learner.add_policy("alice", LoraSource(spec, start=str(theirs)), PolicySettings())
    assert close(learner.score("alice", SEQUENCES), plain_logprobs(model, theirs))


@pytest.mark.parametrize(
    ("option", "value"),
    [("use_dora", True), ("use_rslora", True), ("modules_to_save", ["lm_head"]), ("bias", "all")],
)
def test_more_than_plain_lora_is_refused(theirs: Path, option: str, value: object) -> None:
    file = theirs / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {option: value}))
    with pytest.raises(ConfigError, match=f"{option} = .*plain LoRA"):
        read_spec(theirs)


def test_folders_that_hold_no_adapter_are_refused(
    model: str, small_model: str, theirs: Path, tmp_path: Path
) -> None:
    learner = LearnerWorker(model)
    with pytest.raises(ConfigError, match="holds no adapter"):
        learner.add_policy("alice", LoraSource(SPEC, start=str(tmp_path)), PolicySettings())
    with pytest.raises(ConfigError, match="not a folder with a config"):
        learner.add_policy("still", FrozenSource(str(tmp_path)))
    file = theirs / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ConfigError, match="can't be read"):
        learner.add_policy("still", FrozenSource(str(theirs)))
    file.unlink()
    with pytest.raises(ConfigError, match="no adapter_model"):
        learner.add_policy("still", FrozenSource(str(theirs)))
    (theirs / "adapter_config.json").write_text("{")
    with pytest.raises(ConfigError, match="is not PEFT's"):
        learner.add_policy("still", FrozenSource(str(theirs)))


def test_fresh_adapters_are_drawn_as_peft_draws_them(model: str) -> None:
    """Kaiming's bound is 1 / sqrt(width in), so its deviation that / sqrt(3); gaussian's 1 / r."""
    learner = LearnerWorker(model)
    source = AdapterSpec(16, 32.0, ("q_proj", "down_proj"))
    for init in ("kaiming", "gaussian"):
        learner.add_policy(init, LoraSource(source, init), PolicySettings())
        for name, value in learner.export(init).tensors.items():
            if "lora_B" in name:
                assert not value.any()
                continue
            expected = 1 / 16 if init == "gaussian" else 1 / math.sqrt(3 * value.shape[1])
            assert value.std() == pytest.approx(expected, rel=0.15)
            # uniform numbers end at sqrt(3) = 1.73 deviations
            assert (abs(value).max() / value.std() > 2.2) == (init == "gaussian")
