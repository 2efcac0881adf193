"""How fast the learner is beside a plain loop of torch and PEFT that pads, on the same data.

    OMP_NUM_THREADS=1 python experiments/benchmarks/learner_tokens.py

512 conversations of 16 to 256 ids (log-uniform), a third of the ids trained, on the tiny model
(2 layers, 64 wide, 1000 words), one adapter of rank 8, one optimizer step an update, 8192 tokens a
micro-batch. The plain loop takes the rows in the order they came, pads each micro-batch to its
longest row, and computes the logits of every position. Both see all rows in each update.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from opentinker.experience.packing import pack
from opentinker.learner.settings import LoraSource, PolicySettings
from opentinker.learner.worker import LearnerWorker
from opentinker.types import AdapterSpec, Trajectory

logger = logging.getLogger("learner_tokens")

ROWS, SHORTEST, LONGEST, VOCABULARY, RANK, BUDGET = 512, 16, 256, 1000, 8, 8192


def tiny_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=LONGEST,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config)


def conversations() -> list[Trajectory]:
    source = np.random.default_rng(0)
    lengths = np.exp(source.uniform(np.log(SHORTEST), np.log(LONGEST), ROWS)).astype(int)
    rows = []
    for number, length in enumerate(lengths):
        trained = np.arange(length) % 12 >= 8  # answers of four ids after eight that were heard
        rows.append(
            Trajectory(
                episode=str(number),
                seat="a",
                policy="alice",
                ids=source.integers(2, VOCABULARY, length).astype(np.int32),
                turn=np.where(trained, 0, -1).astype(np.int32),
                logprobs=np.where(trained, -1.0, 0.0).astype(np.float32),
                versions=np.where(trained, 0, -1).astype(np.int32),
            )
        )
    return rows


def ours(model: str, rows: list[Trajectory]) -> Callable[[], None]:
    worker = LearnerWorker(model, threads=1)
    spec = AdapterSpec(RANK, 2.0 * RANK)
    worker.add_policy("alice", LoraSource(spec), PolicySettings())
    advantages = {(row.episode, row.seat): np.ones(1) for row in rows}

    def update() -> None:
        report = worker.update("alice", pack(rows, advantages, BUDGET))
        assert not report.skipped

    return update


def plain(model: str, rows: list[Trajectory]) -> Callable[[], None]:
    torch.set_num_threads(1)
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
    network = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], lr=2e-3)
    size = BUDGET // LONGEST
    total = sum(int((row.turn >= 0).sum()) for row in rows)

    def update() -> None:
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            width = max(len(row.ids) for row in batch)
            ids, mask, trained = (torch.zeros(len(batch), width, dtype=torch.long) for _ in "imt")
            for place, row in enumerate(batch):
                ids[place, : len(row.ids)] = torch.from_numpy(row.ids)
                mask[place, : len(row.ids)] = 1
                trained[place, : len(row.ids)] = torch.from_numpy(row.turn >= 0)
            logits = network(input_ids=ids, attention_mask=mask, use_cache=False).logits
            logprobs = torch.log_softmax(logits[:, :-1].float(), -1)
            chosen = logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1)
            (-(chosen * trained[:, 1:]).sum() / total).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rows = conversations()
    tokens = sum(int((row.turn >= 0).sum()) for row in rows)
    with tempfile.TemporaryDirectory() as model:
        tiny_model().save_pretrained(model)
        updates = {"ours": ours(model, rows), "plain": plain(model, rows)}
        seconds: dict[str, list[float]] = {name: [] for name in updates}
        for repeat in range(repeats + 1):  # taking turns, so that both meet the same machine
            for name, update in updates.items():
                start = time.perf_counter()
                update()
                if repeat:
                    seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        logger.info("%s: %.0f trained tokens/s (median of %d)", name, tokens / median, repeats)
    ratio = medians["plain"] / medians["ours"]
    logger.info("learner over plain loop: %.2f (wanted: at least 1.3)", ratio)


if __name__ == "__main__":
    main()
