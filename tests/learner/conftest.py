"""A tiny random Llama in a folder, and batches made by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from opentinker.learner.tiny_model import train_tokenizer
from opentinker.types import TrainBatch

VOCABULARY = 40

Row = tuple[Sequence[int], int, float]
"""Ids, how many of the last of them are trained, and their advantage."""

MakeBatch = Callable[..., TrainBatch]


def random_llama(folder: Path, seed: int = 0, **options: Any) -> str:
    torch.manual_seed(seed)
    config = LlamaConfig(
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "max_position_embeddings": 64,
            "initializer_range": 0.2,
            "eos_token_id": 1,
            "bos_token_id": None,
            "pad_token_id": 0,
            "tie_word_embeddings": False,
            **options,
        }
    )
    LlamaForCausalLM(config).float().save_pretrained(folder)
    train_tokenizer(["a few words"], 400).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return random_llama(tmp_path_factory.mktemp("random_llama"))


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the same shape, with other weights."""
    return random_llama(tmp_path_factory.mktemp("other_llama"), seed=1)


@pytest.fixture(scope="session")
def tied_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Whose output head is its embedding."""
    return random_llama(tmp_path_factory.mktemp("tied_llama"), tie_word_embeddings=True)


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of fewer words."""
    return random_llama(tmp_path_factory.mktemp("small_llama"), vocab_size=30)


@pytest.fixture(scope="session")
def make_batch() -> MakeBatch:
    def make(
        rows: Sequence[Row], policy: str = "alice", version: int = 0, logprob: float = -3.0
    ) -> TrainBatch:
        lengths = np.array([len(ids) for ids, _, _ in rows], dtype=np.int32)
        shape = (len(rows), int(lengths.max()))
        batch = TrainBatch(
            policy=policy,
            ids=np.zeros(shape, np.int32),
            lengths=lengths,
            trained=np.zeros(shape, np.bool_),
            advantages=np.zeros(shape, np.float32),
            logprobs=np.zeros(shape, np.float32),
            versions=np.full(shape, -1, np.int32),
        )
        for row, (ids, count, advantage) in enumerate(rows):
            trained = slice(len(ids) - count, len(ids))
            batch.ids[row, : len(ids)] = ids
            batch.trained[row, trained] = True
            batch.advantages[row, trained] = advantage
            batch.logprobs[row, trained] = logprob
            batch.versions[row, trained] = version
        return batch

    return make


@pytest.fixture(scope="session")
def random_rows() -> Callable[[int], list[Row]]:
    """That many rows of 4 to 20 ids, with one to three trained tokens each."""

    def make(count: int, seed: int = 0) -> list[Row]:
        rng = np.random.default_rng(seed)
        return [
            (
                rng.integers(2, VOCABULARY, rng.integers(4, 21)).tolist(),
                int(rng.integers(1, 4)),
                float(rng.normal()),
            )
            for _ in range(count)
        ]

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "folder"


@pytest.fixture(scope="session")
def targeted() -> Callable[..., TrainBatch]:
    """The batch with a critic's targets: the trained tokens of a row are its one turn."""

    def give(batch: TrainBatch, seed: int = 0) -> TrainBatch:
        rng = np.random.default_rng(seed)
        targets = np.full(batch.ids.shape, np.nan, np.float32)
        rows = np.flatnonzero(batch.trained.any(axis=1))
        targets[rows, batch.trained[rows].argmax(axis=1)] = rng.normal(size=len(rows))
        return replace(batch, targets=targets)

    return give
