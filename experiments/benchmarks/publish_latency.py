"""How soon a version that is published answers: from `publish` to its first token, each engine.

    OMP_NUM_THREADS=1 python experiments/benchmarks/publish_latency.py

The tiny model, float32, one thread; weights in memory, a prompt of 32 tokens, the engine otherwise
idle, the version before retired after each. Milliseconds: median and largest of the repeats, of
`publish` alone and until the answer of one token is there. The bound is for adapters, with 50
repeats; whole weights are measured beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from peft import LoraConfig, get_peft_model
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM

from opentinker.inference import Engine, make_engine
from opentinker.learner.tiny_model import make_tiny
from opentinker.types import (
    AdapterSpec,
    AdapterWeights,
    FullWeights,
    PolicyVersion,
    SampleRequest,
    SamplingParams,
    Weights,
)

BOUND = 50.0
"""Milliseconds, for the median of an adapter."""

RANK = 8
PROMPT = tuple(range(10, 42))

Make = Callable[[int], Weights]


def adapters(model: str) -> Make:
    """Random adapters of rank 8 on all linear layers, under PEFT's names."""
    config = LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear")
    network = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    shapes = {
        name.replace(".default.", "."): tuple(value.shape)
        for name, value in network.named_parameters()
        if "lora_" in name
    }
    return lambda seed: AdapterWeights(AdapterSpec(RANK, RANK), _random(shapes, seed))


def wholes(model: str) -> Make:
    """Random weights for the whole model."""
    network = AutoModelForCausalLM.from_pretrained(model)
    shapes = {name: tuple(value.shape) for name, value in network.named_parameters()}
    return lambda seed: FullWeights(_random(shapes, seed))


def _random(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    source = np.random.default_rng(seed)
    return {
        name: source.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()
    }


def measure(engine: Engine, make: Make, repeats: int) -> list[tuple[float, float]]:
    """(publish alone, until the first token) of each repeat, in milliseconds, after a warm-up."""

    async def once(number: int) -> tuple[float, float]:
        weights = make(number)
        request = SampleRequest("bob", PROMPT, SamplingParams(max_tokens=1, seed=number))
        start = time.perf_counter()
        engine.publish(PolicyVersion("bob", number), weights)
        published = time.perf_counter()
        answer = (await engine.sample([request]))[0]
        end = time.perf_counter()
        assert answer.version == number
        if number > 0:
            engine.retire(PolicyVersion("bob", number - 1))
        return 1e3 * (published - start), 1e3 * (end - start)

    async def all_of_them() -> list[tuple[float, float]]:
        return [await once(number) for number in range(repeats + 3)]

    return asyncio.run(all_of_them())[3:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    repeats = parser.parse_args().repeats
    logging.basicConfig(level=logging.ERROR)
    table = Table(
        "engine", "policy", "publish", "to first token", "largest", f"within {BOUND:g} ms"
    )
    with tempfile.TemporaryDirectory() as home:
        model = str(make_tiny(Path(home) / "tiny", ["one card is [dealt] to each of two players"]))
        for kind in ("torch", "vllm"):
            for policy, make in (("lora", adapters(model)), ("full", wholes(model))):
                full = "bob" if policy == "full" else None
                engine = make_engine(kind, model, max_adapters=2, max_rank=RANK, full=full)
                found = measure(engine, make, repeats)
                engine.close()
                alone = statistics.median(before for before, _ in found)
                median = statistics.median(whole for _, whole in found)
                row = [f"{value:.1f} ms" for value in (alone, median, max(w for _, w in found))]
                table.add_row(kind, policy, *row, "yes" if median <= BOUND else "NO")
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    Console().print(table, f"median of {repeats}; {load}")


if __name__ == "__main__":
    main()
