"""Examples laid out in rows: which go into one step, where each stands, and their logprobs.

Axes: T tokens of one example, B rows of S tokens, N tokens with a weight, M examples of one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from opentinker.errors import ConfigError
from opentinker.learner.distributions import log_distribution, token_logprobs
from opentinker.learner.weights import chosen_logits

Example = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Ids [T], and what each of them counts in the loss [T]; the first one can't count."""

Item = tuple[Example, ...]
"""Examples that belong in one batch: one, or the two of a preference."""

_FILLING = 8
"""batches that are filled at once, so that one which is nearly full finds what still fits"""


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of one step, and the row and first column of each of their examples."""

    items: tuple[int, ...]
    rows: tuple[int, ...]
    """[M] the examples of the first item, then those of the second, ..."""
    columns: tuple[int, ...]
    """[M]"""


class _Open:
    """A batch that is being filled."""

    def __init__(self, budget: int, packing: bool, width: int) -> None:
        self._budget = budget
        self._packing = packing
        self._width = width
        self._ends = np.zeros(0, np.int64)
        self._items: list[int] = []
        self._rows: list[int] = []
        self._columns: list[int] = []

    def take(self, item: int, lengths: Sequence[int]) -> bool:
        """Place an item, each example in the first row with room; False where it is too much.

        The first item is always taken.
        """
        width, ends = max(self._width, *lengths), self._ends
        rows, columns = [], []
        for length in lengths:
            room = np.flatnonzero(ends + length <= width)
            row = int(room[0]) if self._packing and len(room) else len(ends)
            ends = np.append(ends, 0) if row == len(ends) else ends.copy()
            rows.append(row)
            columns.append(int(ends[row]))
            ends[row] += length
        if self._items and len(ends) * width > self._budget:
            return False
        self._width, self._ends = width, ends
        self._items.append(item)
        self._rows += rows
        self._columns += columns
        return True

    def closed(self) -> Batch:
        return Batch(tuple(self._items), tuple(self._rows), tuple(self._columns))


def batches(
    items: Sequence[Item], batch_tokens: int, packing: bool, rng: np.random.Generator
) -> list[Batch]:
    """Every item once, in random order, in batches of at most `batch_tokens`, padding included.

    With packing rows are as wide as the longest example of all. Without, each example has a row of
    its own, and a batch holds items of similar length. An item that is longer than `batch_tokens`
    is a batch by itself.
    """
    order = rng.permutation(len(items))
    longest = np.array([max(len(ids) for ids, _ in items[place]) for place in order])
    if not packing:
        order = order[np.argsort(-longest, kind="stable")]
    width = int(longest.max(initial=0)) if packing else 0
    found: list[_Open] = []
    for place in order.tolist():
        lengths = [len(ids) for ids, _ in items[place]]
        filling = found[-_FILLING:] if packing else found[-1:]
        if not any(batch.take(place, lengths) for batch in filling):
            found.append(_Open(batch_tokens, packing, width))
            found[-1].take(place, lengths)
    return [found[place].closed() for place in rng.permutation(len(found))]


class Rows:
    """The examples of a batch as tensors, and their tokens with a weight [N]."""

    def __init__(self, items: Sequence[Item], batch: Batch, device: torch.device) -> None:
        examples = [example for place in batch.items for example in items[place]]
        lengths = np.array([len(ids) for ids, _ in examples])
        starts = np.array(batch.columns)
        shape = (max(batch.rows) + 1, int((starts + lengths).max()))
        row = np.repeat(batch.rows, lengths)
        # A position counts from its example's start: that is how transformers tells examples apart.
        position = np.concatenate([np.arange(length) for length in lengths])
        column = position + np.repeat(starts, lengths)
        ids, weights = (np.concatenate([each[part] for each in examples]) for part in (0, 1))
        owner = np.repeat(np.arange(len(examples)), lengths)
        table = np.zeros(shape, np.int64)
        table[row, column] = ids
        begun = np.zeros(shape, np.int64)
        begun[batch.rows, batch.columns] = batch.columns
        counted = weights != 0

        def move(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        self.ids = move(table)
        self.positions = move(np.arange(shape[1]) - np.maximum.accumulate(begun, axis=1))
        self.rows, self.before = move(row[counted]), move(column[counted] - 1)
        self.tokens = move(ids[counted].astype(np.int64))
        self.weights = move(weights[counted])
        self.owners = move(owner[counted])
        """[N] which of the batch's examples a token is of"""
        self.count = len(examples)
        self.filled = int(lengths.sum())
        """tokens that are no padding"""


def logprobs(network: PreTrainedModel, rows: Rows) -> Tensor:
    """Logprobs [N] of the tokens with a weight, each example read as if it stood alone."""
    logits = chosen_logits(network, rows.ids, rows.rows, rows.before, rows.positions)
    return token_logprobs(log_distribution(logits), rows.tokens)


def usable(items: Sequence[Item]) -> list[Item]:
    """The items whose every example has a weight; ConfigError where none is, or one is odd."""
    for place, item in enumerate(items):
        for ids, weights in item:
            if len(ids) != len(weights):
                raise ConfigError(f"example {place} has {len(ids)} ids, but {len(weights)} weights")
            if not np.isfinite(weights).all() or (weights < 0).any():
                raise ConfigError(f"example {place} has a weight that is negative or not finite")
            if len(weights) and weights[0]:
                raise ConfigError(f"example {place} weighs its first token, with nothing before it")
    found = [item for item in items if all(weights.any() for _, weights in item)]
    if not found:
        raise ConfigError(f"none of the {len(items)} examples has a token to be learned")
    return found


def check_packing(network: PreTrainedModel, device: torch.device) -> None:
    """ConfigError for a model that lets one example of a row see another."""
    examples = [
        (np.arange(first, first + 4, dtype=np.int32), np.array([0, 1, 1, 1], np.float32))
        for first in (2, 6)
    ]
    items = [(example,) for example in examples]
    with torch.no_grad():
        apart = logprobs(network, Rows(items, Batch((0, 1), (0, 1), (0, 0)), device))
        packed = logprobs(network, Rows(items, Batch((0, 1), (0, 0), (0, 4)), device))
    gap = float((apart - packed).abs().max())
    if gap >= 1e-3:
        raise ConfigError(
            f"a {type(network).__name__} reads packed examples otherwise than single ones (by "
            f"{gap:.2g} nats); set fit.packing = false"
        )
