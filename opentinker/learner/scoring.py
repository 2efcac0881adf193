"""Logprobs of given tokens after given prompts, many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from opentinker.learner.distributions import log_distribution, token_logprobs
from opentinker.learner.policy import Policy
from opentinker.learner.weights import chosen_logits

Sequences = Sequence[tuple[Sequence[int], Sequence[int]]]


def score(
    policy: Policy, sequences: Sequences, temperature: float = 1.0, batch_tokens: int = 16384
) -> list[NDArray[np.float32]]:
    """Logprobs [len(tokens)] of each (prompt_ids, tokens) under a policy.

    They are of the distribution at `temperature`; at 0, of that at 1. At most `batch_tokens`
    positions go through the model at once, unless one sequence alone has more. ValueError for an
    empty prompt.
    """
    for prompt, _ in sequences:
        if not len(prompt):
            raise ValueError("a prompt is empty; the first token would have nothing before it")
    found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(sequences)
    lengths = [len(prompt) + len(tokens) if len(tokens) else 0 for prompt, tokens in sequences]
    with torch.no_grad(), policy.active() as network:
        for places in by_length(lengths, batch_tokens):
            values = _score_rows(network, [sequences[place] for place in places], temperature)
            for place, own in zip(places, values, strict=True):
                found[place] = own
    return found


def by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Places of similar length, the longest first, as many as fill `budget`, or one alone.

    What has length 0 is left out.
    """
    order = sorted((p for p in range(len(lengths)) if lengths[p]), key=lambda p: -lengths[p])
    first = 0
    while first < len(order):
        count = max(1, budget // lengths[order[first]])
        yield order[first : first + count]
        first += count


def _score_rows(
    network: PreTrainedModel, rows: Sequences, temperature: float
) -> list[NDArray[np.float32]]:
    counts = np.array([len(tokens) for _, tokens in rows])
    ends = np.array([len(prompt) + len(tokens) for prompt, tokens in rows])
    places = np.arange(ends.max())[None, :]
    ids = np.zeros((len(rows), ends.max()), dtype=np.int64)
    ids[places < ends[:, None]] = np.concatenate([[*prompt, *tokens] for prompt, tokens in rows])
    row, column = np.nonzero((places >= (ends - counts)[:, None]) & (places < ends[:, None]))
    table, where, targets = (
        torch.from_numpy(each).to(network.device)
        for each in (ids, np.stack([row, column - 1]), ids[row, column])
    )
    logits = chosen_logits(network, table, where[0], where[1])
    logprobs = token_logprobs(log_distribution(logits, temperature), targets).cpu().numpy()
    return np.split(logprobs, np.cumsum(counts)[:-1])
