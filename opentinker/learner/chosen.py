"""The trained tokens of a batch, as tensors, and what each counts in its update.

Axes: B rows, T tokens, N trained tokens and M turns of one micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opentinker.learner.settings import Normalization, PolicySettings
from opentinker.types import TrainBatch


class Chosen:
    """A micro-batch on the device, cut to what is needed, and its trained tokens [N].

    `ids` [B, T] end before the last trained token, which is predicted and never read; token n
    stands after the position `rows[n], before[n]`. With a critic, turn m was asked at the position
    `turn_rows[m], turn_before[m]`, and should have had the value `targets[m]`; without one M is 0.
    """

    def __init__(
        self,
        batch: TrainBatch,
        weights: NDArray[np.float32],
        device: torch.device,
        *,
        turn_weight: float | None = None,
    ) -> None:
        rows, columns = np.nonzero(batch.trained)
        turns, starts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        targets = np.zeros(0, np.float32)
        if turn_weight is not None:
            assert batch.targets is not None, "check() comes first"
            turns, starts = np.nonzero(~np.isnan(batch.targets))
            targets = batch.targets[turns, starts]

        def move(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        self.ids = move(batch.ids[:, : columns.max()].astype(np.int64))
        self.rows, self.before = move(rows), move(columns - 1)
        self.tokens = move(batch.ids[rows, columns].astype(np.int64))
        self.advantages = move(batch.advantages[rows, columns])
        self.engine = move(batch.logprobs[rows, columns])
        self.versions = move(batch.versions[rows, columns])
        self.weights = move(weights)
        self.turn_rows, self.turn_before = move(turns), move(starts - 1)
        self.targets = move(targets)
        self.turn_weight = turn_weight or 0.0
        """what each turn counts in the critic's loss of its optimizer step"""
        self.proximal: Tensor | None = None
        """[N] logprobs when the update began, where it has more steps than one"""

    def fault(self) -> str:
        """Which of the given numbers are not finite, to name a cause."""
        parts = {
            "advantages": self.advantages,
            "engine logprobs": self.engine,
            "critic's targets": self.targets,
        }
        counts = {name: int((~torch.isfinite(each)).sum()) for name, each in parts.items()}
        odd = [f"{n} of {len(parts[name])} {name}" for name, n in counts.items() if n]
        return f"{' and '.join(odd)} are not finite" if odd else "the batch's numbers are finite"


def chosen(
    batches: Sequence[TrainBatch], settings: PolicySettings, device: torch.device
) -> list[Chosen]:
    """The micro-batches of one optimizer step, each with a trained token."""
    weights = token_weights(batches, settings.normalization, settings.normalization_tokens)
    turn_weight = None
    if settings.critic:
        turns = [np.count_nonzero(~np.isnan(b.targets)) for b in batches if b.targets is not None]
        turn_weight = 1 / sum(turns)
    return [
        Chosen(batch, own, device, turn_weight=turn_weight)
        for batch, own in zip(batches, weights, strict=True)
    ]


def token_weights(
    batches: Sequence[TrainBatch], normalization: Normalization, tokens: int | None = None
) -> list[NDArray[np.float32]]:
    """What each trained token [N] of each batch counts in an optimizer step on all of them.

    `token`: all alike, and 1 in sum. `sequence`: each row with a trained token alike, shared among
    its tokens, and 1 in sum. `constant`: 1 / (rows with a trained token * `tokens`).
    """
    counts = [batch.trained.sum(axis=1) for batch in batches]
    rows = sum(int((each > 0).sum()) for each in counts)
    if normalization == "sequence":
        return [
            np.repeat(1 / (rows * each[each > 0]), each[each > 0]).astype(np.float32)
            for each in counts
        ]
    total = sum(int(each.sum()) for each in counts)
    if normalization == "constant":
        assert tokens is not None, "PolicySettings asks for it"
        total = rows * tokens
    return [np.full(int(each.sum()), 1 / max(1, total), dtype=np.float32) for each in counts]


def check(batch: TrainBatch, policy: str, critic: bool = False) -> None:
    """ValueError for a batch of another policy, or that can't be trained on.

    That is one with what nobody can have sampled, or, for a critic, without targets.
    """
    if batch.policy != policy:
        raise ValueError(f"a batch of policy {batch.policy!r} came to policy {policy!r}")
    if batch.trained[:, :1].any():
        raise ValueError(
            f"policy {policy!r}: a row's first token is trained, with nothing before it"
        )
    past = np.arange(batch.ids.shape[1])[None, :] >= batch.lengths[:, None]
    if (batch.trained & past).any():
        raise ValueError(f"policy {policy!r}: padding is trained")
    if not critic:
        return
    if batch.targets is None:
        raise ValueError(
            f"policy {policy!r} has a critic, and was given a batch without targets; the credit "
            "must be one that gives them (gae)"
        )
    given = ~np.isnan(batch.targets)
    if (given & ~batch.trained).any():
        raise ValueError(f"policy {policy!r}: a critic's target stands at no trained token")
    rows = np.flatnonzero(batch.trained.any(axis=1))
    if not given[rows, batch.trained[rows].argmax(axis=1)].all():
        raise ValueError(f"policy {policy!r}: a row's first turn has no target for the critic")
