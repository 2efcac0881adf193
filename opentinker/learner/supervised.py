"""Supervised fine-tuning of a whole model: cross-entropy on the tokens that examples mark.

Axes: T tokens of one example, B rows, N trained tokens of one batch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.lr_scheduler import OneCycleLR
from transformers import AutoTokenizer

from opentinker.errors import ConfigError, LearningError
from opentinker.learner.distributions import log_distribution, token_logprobs
from opentinker.learner.folders import written_whole
from opentinker.learner.weights import chosen_logits, load_network

Example = tuple[NDArray[np.int32], NDArray[np.bool_]]
"""Ids [T], and which of them are learned [T]; the first one can't be."""

EVALUATIONS = 10
"""How often, spread over a fit, the held-out examples are looked at."""


class SupervisedWorker:
    """Holds a whole model whose every weight is trained, in float32; `save` leaves a new model."""

    def __init__(self, model: str, *, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self._model = model
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._network = load_network(model).eval()
        self._network.to(self._device)  # pyright: ignore[reportArgumentType]

    def fit(
        self,
        examples: Sequence[Example],
        *,
        steps: int | None = None,
        epochs: float = 1.0,
        batch_tokens: int = 8192,
        learning_rate: float = 3e-3,
        validation: float = 0.05,
        warmup: float = 0.05,
        decay: Literal["cos", "linear"] = "cos",
        max_grad_norm: float = 1.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> Iterator[dict[str, float]]:
        """Train, and give the metrics of each step as it is done; the next runs when asked for.

        `steps` None is as many as `epochs` take; `batch_tokens` counts padding, too. The learning
        rate climbs for the share `warmup` of the steps, then falls towards 0. The share
        `validation` of the examples is held out. `loss` is the mean over the step's trained
        tokens, in nats; `val_loss` comes with every tenth part of the steps, the last included.
        ConfigError: numbers that can't be, no example to learn from. LearningError, before the
        step: a loss or gradient that is not finite.
        """
        numbers = (
            epochs,
            batch_tokens,
            learning_rate,
            max_grad_norm,
            1 if steps is None else steps,
        )
        if min(numbers) <= 0 or not all(map(math.isfinite, numbers)):
            raise ConfigError(
                "epochs, batch_tokens, learning_rate, max_grad_norm, steps must be above 0; they "
                f"are {epochs}, {batch_tokens}, {learning_rate}, {max_grad_norm} and {steps}"
            )
        if not 0 <= validation < 1 or not 0 <= warmup < 1 or decay not in ("cos", "linear"):
            raise ConfigError(
                "validation and warmup go from 0 to below 1, decay is 'cos' or 'linear'; they are "
                f"{validation}, {warmup} and {decay!r}"
            )
        rng = np.random.default_rng(seed)
        training, held_out = _split(_usable(examples), validation, rng)
        batches = _batches(training, batch_tokens, rng)
        steps = steps or max(1, round(epochs * len(batches)))
        optimizer = torch.optim.AdamW(
            self._network.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True
        )
        schedule = OneCycleLR(
            optimizer,
            max_lr=learning_rate,
            total_steps=steps + 1,
            pct_start=warmup,
            anneal_strategy=decay,
            cycle_momentum=False,
        )
        every = max(1, steps // EVALUATIONS)
        for step in range(1, steps + 1):
            if not batches:
                batches = _batches(training, batch_tokens, rng)
            rate = float(schedule.get_last_lr()[0])
            metrics = self._gradient(batches.pop(), max_grad_norm)
            if not all(map(math.isfinite, metrics.values())):
                raise LearningError(f"step {step} at learning rate {rate:.3g}: {metrics}")
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            metrics |= {"step": float(step), "learning_rate": rate}
            if held_out and (step % every == 0 or step == steps):
                metrics["val_loss"] = self.loss(held_out, batch_tokens)
            yield metrics

    def loss(self, examples: Sequence[Example], batch_tokens: int = 8192) -> float:
        """The mean negative log-likelihood, in nats, of all the tokens that `examples` mark."""
        total, tokens = 0.0, 0
        with torch.no_grad():
            for batch in _batches(_usable(examples), batch_tokens, np.random.default_rng(0)):
                logprobs = self._logprobs(batch)
                total -= logprobs.double().sum().item()
                tokens += len(logprobs)
        return total / tokens

    def save(self, folder: str | Path) -> None:
        """Write model and tokenizer as transformers does; the folder is whole or not there."""
        with written_whole(Path(folder)) as beside:
            self._network.save_pretrained(beside)
            AutoTokenizer.from_pretrained(self._model).save_pretrained(beside)

    def _gradient(self, batch: Sequence[Example], max_grad_norm: float) -> dict[str, float]:
        """Leave the clipped gradient of the batch's mean loss in the parameters."""
        start = time.perf_counter()
        logprobs = self._logprobs(batch)
        loss = -logprobs.mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), max_grad_norm)
        return {
            "loss": loss.item(),
            "grad_norm": norm.item(),
            "tokens": float(len(logprobs)),
            "tokens_per_second": sum(len(ids) for ids, _ in batch) / (time.perf_counter() - start),
        }

    def _logprobs(self, batch: Sequence[Example]) -> Tensor:
        """Logprobs [N] of the batch's trained tokens."""
        ids, trained = _padded(batch)
        rows, columns = np.nonzero(trained)
        table, where, tokens = (
            torch.from_numpy(each).to(self._device)
            for each in (
                ids[:, : columns.max()],
                np.stack([rows, columns - 1]),
                ids[rows, columns],
            )
        )
        logits = chosen_logits(self._network, table, where[0], where[1])
        return token_logprobs(log_distribution(logits), tokens)


def _usable(examples: Sequence[Example]) -> list[Example]:
    """The examples that have something to learn; ConfigError where none has, or one is odd."""
    for place, (ids, trained) in enumerate(examples):
        if len(ids) != len(trained):
            raise ConfigError(f"example {place} has {len(ids)} ids, but {len(trained)} marks")
        if len(trained) and trained[0]:
            raise ConfigError(f"example {place} marks its first token, which nothing stands before")
    usable = [each for each in examples if each[1].any()]
    if not usable:
        raise ConfigError(f"none of the {len(examples)} examples marks a token to be learned")
    return usable


def _split(
    examples: list[Example], share: float, rng: np.random.Generator
) -> tuple[list[Example], list[Example]]:
    """Training and held-out examples; with a share above 0 at least one is held out of two."""
    count = min(max(1, round(share * len(examples))), len(examples) - 1) if share else 0
    order = rng.permutation(len(examples))
    return [examples[each] for each in order[count:]], [examples[each] for each in order[:count]]


def _batches(
    examples: Sequence[Example], batch_tokens: int, rng: np.random.Generator
) -> list[list[Example]]:
    """Every example once, in batches of similar length, examples and batches in random order."""
    order = rng.permutation(len(examples))
    lengths = np.array([len(examples[each][0]) for each in order])
    order = order[np.argsort(-lengths, kind="stable")]
    batches, first = [], 0
    while first < len(order):
        count = max(1, batch_tokens // len(examples[order[first]][0]))
        batches.append([examples[each] for each in order[first : first + count]])
        first += count
    return [batches[each] for each in rng.permutation(len(batches))]


def _padded(batch: Sequence[Example]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ids and marks [B, T], right-padded; padding is never marked."""
    lengths = np.array([len(ids) for ids, _ in batch])
    filled = np.arange(lengths.max())[None, :] < lengths[:, None]
    ids, trained = np.zeros(filled.shape, np.int64), np.zeros(filled.shape, np.bool_)
    ids[filled] = np.concatenate([ids for ids, _ in batch])
    trained[filled] = np.concatenate([trained for _, trained in batch])
    return ids, trained
