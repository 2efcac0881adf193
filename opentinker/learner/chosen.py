"""The trained tokens of a batch, as tensors, and what each counts in its update.

Axes: B rows, T tokens, N trained tokens of one micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opentinker.learner.settings import Normalization
from opentinker.types import TrainBatch


class Chosen:
    """A micro-batch on the device, cut to what is needed, and its trained tokens [N].

    `ids` [B, T] end before the last trained token, which is predicted and never read; token n
    stands after the position `rows[n], before[n]`.
    """

    def __init__(
        self, batch: TrainBatch, weights: NDArray[np.float32], device: torch.device
    ) -> None:
        rows, columns = np.nonzero(batch.trained)

        def move(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        self.ids = move(batch.ids[:, : columns.max()].astype(np.int64))
        self.rows, self.before = move(rows), move(columns - 1)
        self.tokens = move(batch.ids[rows, columns].astype(np.int64))
        self.advantages = move(batch.advantages[rows, columns])
        self.old_logprobs = move(batch.logprobs[rows, columns])
        self.versions = move(batch.versions[rows, columns])
        self.weights = move(weights)

    def fault(self) -> str:
        """Which of the given numbers are not finite, to name a cause."""
        parts = {"advantages": self.advantages, "engine logprobs": self.old_logprobs}
        counts = {name: int((~torch.isfinite(values)).sum()) for name, values in parts.items()}
        odd = [f"{count} of {len(self.rows)} {name}" for name, count in counts.items() if count]
        return f"{' and '.join(odd)} are not finite" if odd else "the batch's numbers are finite"


def token_weights(
    batches: Sequence[TrainBatch], normalization: Normalization
) -> list[NDArray[np.float32]]:
    """What each trained token [N] of each batch counts in its update; all together they sum to 1.

    `token`: all alike. `sequence`: each row with a trained token alike, shared among its tokens.
    """
    counts = [batch.trained.sum(axis=1) for batch in batches]
    if normalization == "token":
        total = max(1, sum(int(each.sum()) for each in counts))
        return [np.full(int(each.sum()), 1 / total, dtype=np.float32) for each in counts]
    rows = sum(int((each > 0).sum()) for each in counts)
    return [
        np.repeat(1 / (rows * each[each > 0]), each[each > 0]).astype(np.float32) for each in counts
    ]


def check(batch: TrainBatch, policy: str) -> None:
    """ValueError for a batch of another policy, or that trains on what nobody can have sampled."""
    if batch.policy != policy:
        raise ValueError(f"a batch of policy {batch.policy!r} came to policy {policy!r}")
    if batch.trained[:, :1].any():
        raise ValueError(
            f"policy {policy!r}: a row's first token is trained, with nothing before it"
        )
    past = np.arange(batch.ids.shape[1])[None, :] >= batch.lengths[:, None]
    if (batch.trained & past).any():
        raise ValueError(f"policy {policy!r}: padding is trained")
