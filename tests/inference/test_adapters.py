from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import LlamaForCausalLM

from opentinker.errors import EngineError
from opentinker.inference.adapters import check_weights, delete_adapter, write_adapter
from opentinker.types import AdapterSpec, AdapterWeights, PolicyVersion

VERSION = PolicyVersion("alice", 3)
A = np.ones((2, 4), np.float32)
B = np.ones((4, 2), np.float32)


@pytest.mark.parametrize("name", ["wide", "narrow"])
def test_peft_loads_what_was_written_as_what_it_wrote_itself(
    name: str,
    model_folder: str,
    adapter_folders: dict[str, Path],
    weights: dict[str, AdapterWeights],
    tmp_path: Path,
) -> None:
    write_adapter(tmp_path / "ours", weights[name])
    ids = torch.arange(2, 20)[None]
    logits = []
    for folder in (adapter_folders[name], tmp_path / "ours"):
        base = LlamaForCausalLM.from_pretrained(model_folder)
        with torch.no_grad():
            logits.append(PeftModel.from_pretrained(base, str(folder)).eval()(input_ids=ids).logits)
    assert torch.equal(logits[0], logits[1])


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    bad = AdapterWeights(AdapterSpec(2, 2.0), {"q.lora_A.weight": np.array([object()])})
    with pytest.raises(Exception, match=r"dtype|object"):
        write_adapter(tmp_path / "adapter", bad)
    assert not (tmp_path / "adapter").exists()
    delete_adapter(tmp_path / "adapter")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "no tensors"),
        ({"q.lora_A.weight": A}, r"'q.lora_A.weight' has no 'q.lora_B.weight' beside it"),
        ({"q.weight": A}, r"'q.weight' is no name of a LoRA tensor"),
        ({"q.lora_A.weight": A.T, "q.lora_B.weight": B}, r"shape \(4, 2\), its spec rank 2"),
        ({"q.lora_A.weight": A, "q.lora_B.weight": B * np.nan}, "not finite"),
    ],
)
def test_weights_that_are_no_adapter_are_refused(
    tensors: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(EngineError, match=f"'alice' version 3: .*{message}"):
        check_weights(VERSION, AdapterWeights(AdapterSpec(2, 2.0), tensors), 8)
