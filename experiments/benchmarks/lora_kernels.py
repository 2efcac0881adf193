"""How much our LoRA kernels save on a CPU: vLLM's own against ours, and the base model alone.

    OMP_NUM_THREADS=1 python experiments/benchmarks/lora_kernels.py

One call of 256 requests, 36 prompt tokens and 2 new ones each, two adapters (rank 8, all linear
layers) taking turns, tiny Llama (2 layers, 128 wide), float32, one thread; the best and the median
of the repeats, in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import statistics
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from opentinker.inference import vllm_cpu_kernels
from opentinker.inference.vllm_engine import VLLMEngine
from opentinker.types import (
    AdapterSpec,
    AdapterWeights,
    PolicyVersion,
    SampleRequest,
    SamplingParams,
)

logger = logging.getLogger("lora_kernels")

REQUESTS, PROMPT, NEW, VOCABULARY, RANK = 256, 36, 2, 500, 8


def tiny_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config)


def adapter(seed: int) -> AdapterWeights:
    """Random weights under PEFT's names, B included."""
    config = LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear")
    generator = np.random.default_rng(seed)
    tensors = {
        name.replace(".default.", "."): generator.normal(0, 0.05, value.shape).astype(np.float32)
        for name, value in get_peft_model(tiny_model(), config).named_parameters()
        if "lora_" in name
    }
    return AdapterWeights(AdapterSpec(RANK, RANK), tensors)


def measure(engine: VLLMEngine, policies: Sequence[str], repeats: int) -> list[float]:
    source = random.Random(0)
    seconds = []
    for repeat in range(repeats + 1):
        requests = [
            SampleRequest(
                policies[i % len(policies)],
                tuple(source.randrange(2, VOCABULARY) for _ in range(PROMPT)),
                SamplingParams(max_tokens=NEW, seed=repeat * REQUESTS + i),
            )
            for i in range(REQUESTS)
        ]
        start = time.perf_counter()
        asyncio.run(engine.sample(requests))
        seconds.append(time.perf_counter() - start)
    return sorted(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    written_for = vllm_cpu_kernels.WRITTEN_FOR
    adapters = {"alice": adapter(1), "bob": adapter(2)}
    medians = {}
    with tempfile.TemporaryDirectory() as model:
        tiny_model().save_pretrained(model)
        for kernels in ("vLLM's", "ours"):
            vllm_cpu_kernels.WRITTEN_FOR = written_for if kernels == "ours" else (0, 0)
            engine = VLLMEngine(model, max_adapters=2, max_rank=RANK)
            for name, weights in adapters.items():
                engine.publish(PolicyVersion(name, 1), weights)
            for policies in (["alice", "bob"], ["base"]):
                seconds = measure(engine, policies, repeats)
                medians[kernels, policies[0]] = statistics.median(seconds)
                logger.info(
                    "%s kernels, %s: best %.3f, median %.3f",
                    kernels,
                    " and ".join(policies),
                    seconds[0],
                    statistics.median(seconds),
                )
            engine.close()
    ratio = medians["vLLM's", "alice"] / medians["ours", "alice"]
    logger.info("two adapters: ours are %.1f times as fast", ratio)


if __name__ == "__main__":
    main()
