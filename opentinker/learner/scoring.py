"""Logprobs of given tokens after given prompts, many at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from opentinker.learner.distributions import log_distribution, token_logprobs
from opentinker.learner.weights import BaseModel, chosen_logits

Sequences = Sequence[tuple[Sequence[int], Sequence[int]]]


def score(
    base: BaseModel,
    policy: str | None,
    sequences: Sequences,
    temperature: float = 1.0,
    batch_tokens: int = 16384,
) -> list[NDArray[np.float32]]:
    """Logprobs [len(tokens)] of each (prompt_ids, tokens), under an adapter or, for None, the base.

    They are of the distribution at `temperature`; at 0, of that at 1. At most `batch_tokens`
    positions go through the model at once, unless one sequence alone has more. ValueError for an
    empty prompt.
    """
    lengths = [len(prompt) + len(tokens) for prompt, tokens in sequences]
    for prompt, _ in sequences:
        if not len(prompt):
            raise ValueError("a prompt is empty; the first token would have nothing before it")
    order = sorted(range(len(sequences)), key=lambda place: -lengths[place])
    found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(sequences)
    first = 0
    with torch.no_grad(), base.active(policy):
        while first < len(order):
            places = order[first : first + max(1, batch_tokens // lengths[order[first]])]
            first += len(places)
            values = _score_rows(base, [sequences[place] for place in places], temperature)
            for place, own in zip(places, values, strict=True):
                found[place] = own
    return found


def _score_rows(base: BaseModel, rows: Sequences, temperature: float) -> list[NDArray[np.float32]]:
    counts = np.array([len(tokens) for _, tokens in rows])
    ends = np.array([len(prompt) + len(tokens) for prompt, tokens in rows])
    places = np.arange(ends.max())[None, :]
    ids = np.zeros((len(rows), ends.max()), dtype=np.int64)
    ids[places < ends[:, None]] = np.concatenate([[*prompt, *tokens] for prompt, tokens in rows])
    row, column = np.nonzero((places >= (ends - counts)[:, None]) & (places < ends[:, None]))
    if not len(row):
        return [np.zeros(0, np.float32) for _ in rows]
    table, where, targets = (
        torch.from_numpy(each).to(base.device)
        for each in (ids, np.stack([row, column - 1]), ids[row, column])
    )
    logits = chosen_logits(base.network, table, where[0], where[1])
    logprobs = token_logprobs(log_distribution(logits, temperature), targets).cpu().numpy()
    return np.split(logprobs, np.cumsum(counts)[:-1])
