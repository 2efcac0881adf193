"""A tiny random Llama, three adapters of it made by PEFT, and a forward pass to compare with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from opentinker.inference import Engine, make_engine
from opentinker.types import AdapterSpec, AdapterWeights, PolicyVersion

VOCABULARY = 200
END = 1
SPECS = {
    "wide": AdapterSpec(8, 16.0),
    "narrow": AdapterSpec(4, 8.0, ("q_proj", "v_proj")),
    "other": AdapterSpec(8, 8.0),
}

Reference = Callable[[str, Sequence[int], Sequence[int], float], list[float]]
Distributions = Callable[[str, Sequence[int], Sequence[int], float], list[list[float]]]


def tiny_llama() -> LlamaForCausalLM:
    """Head size 32 is the smallest that vLLM's CPU attention takes."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        initializer_range=0.2,
        eos_token_id=END,
        bos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).float().eval()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny_llama")
    tiny_llama().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def adapter_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for seed, (name, spec) in enumerate(SPECS.items()):
        whole = spec.targets == ("all-linear",)
        config = LoraConfig(
            r=spec.rank,
            lora_alpha=int(spec.alpha),
            target_modules="all-linear" if whole else list(spec.targets),
            task_type="CAUSAL_LM",
        )
        model = get_peft_model(tiny_llama(), config)
        generator = torch.Generator().manual_seed(seed)
        for key, value in model.named_parameters():
            if "lora_B" in key:
                value.data = torch.randn(value.shape, generator=generator) * 0.1
        folders[name] = tmp_path_factory.mktemp(name)
        model.save_pretrained(str(folders[name]))
    return folders


@pytest.fixture(scope="session")
def weights(adapter_folders: dict[str, Path]) -> dict[str, AdapterWeights]:
    return {
        name: AdapterWeights(SPECS[name], load_file(folder / "adapter_model.safetensors"))
        for name, folder in adapter_folders.items()
    }


@pytest.fixture(scope="session")
def distributions(model_folder: str, adapter_folders: dict[str, Path]) -> Distributions:
    """Logprobs [T, V] at a completion's places by a plain forward pass, not batched, not cached."""
    models: dict[str, torch.nn.Module] = {
        name: PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(model_folder), str(folder))
        for name, folder in adapter_folders.items()
    }
    models["base"] = LlamaForCausalLM.from_pretrained(model_folder)

    def rows(
        who: str, prompt: Sequence[int], tokens: Sequence[int], temperature: float
    ) -> list[list[float]]:
        ids = torch.tensor([[*prompt, *tokens]])
        with torch.no_grad():
            logits = models[who].eval()(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        return torch.log_softmax(logits / temperature, dim=-1).tolist()

    return rows


@pytest.fixture(scope="session")
def reference(distributions: Distributions) -> Reference:
    """Logprobs of a completion's own tokens."""

    def logprobs(
        who: str, prompt: Sequence[int], tokens: Sequence[int], temperature: float
    ) -> list[float]:
        rows = distributions(who, prompt, tokens, temperature)
        return [row[token] for row, token in zip(rows, tokens, strict=True)]

    return logprobs


@pytest.fixture(scope="session", params=["torch", pytest.param("vllm", marks=pytest.mark.vllm)])
def engine(
    request: pytest.FixtureRequest, model_folder: str, weights: dict[str, AdapterWeights]
) -> Iterator[Engine]:
    """Serves the three adapters as version 1 of policies of their names; every slot is taken."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "vllm":
            # Prompts of 24 x 300 tokens are far more than one step then takes.
            patch.setattr("opentinker.inference.vllm_cpu.STEP_TOKENS", 1024)
        made = make_engine(request.param, model_folder, max_adapters=3, max_rank=8)
    for name, own in weights.items():
        made.publish(PolicyVersion(name, 1), own)
    yield made
    made.close()
    assert not made.alive
