"""Trajectories of one policy into right-padded micro-batches of similar length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from opentinker.types import TrainBatch, Trajectory


def pack(
    trajectories: Sequence[Trajectory],
    advantages: Mapping[tuple[str, str], NDArray[np.float64]],
    token_budget: int,
    max_rows: int | None = None,
    targets: Mapping[tuple[str, str], NDArray[np.float64]] | None = None,
) -> list[TrainBatch]:
    """Micro-batches of at most `token_budget` tokens, padding included, and `max_rows` rows.

    `advantages` holds [K] for each (episode, seat), spread to tokens by turn index. A critic's
    `targets`, [K] likewise, stand at the first trained token of their turn. The longest rows come
    first (so too large a budget shows at once), equally long ones in the order given. A trajectory
    longer than the budget gets a batch of its own. Raises ValueError for trajectories of several
    policies, or whose turns have no advantage or no target.
    """
    if token_budget < 1 or (max_rows is not None and max_rows < 1):
        raise ValueError(f"token_budget {token_budget} and max_rows {max_rows} must be 1 or more")
    policies = sorted({each.policy for each in trajectories})
    if len(policies) > 1:
        raise ValueError(f"a batch is of one policy, these are of {', '.join(policies)}")
    lengths = np.array([len(each.ids) for each in trajectories], dtype=np.int32)
    order = np.argsort(-lengths, kind="stable")
    batches = []
    first = 0
    while first < len(order):
        rows = max(1, token_budget // max(1, int(lengths[order[first]])))
        if max_rows is not None:
            rows = min(rows, max_rows)
        chosen = [trajectories[each] for each in order[first : first + rows]]
        batches.append(_batch(chosen, advantages, targets))
        first += rows
    return batches


def padding_share(batches: Sequence[TrainBatch]) -> float:
    """The share of all packed positions that is padding; 0 when there are none."""
    size = sum(batch.ids.size for batch in batches)
    return 1.0 - sum(int(batch.lengths.sum()) for batch in batches) / size if size else 0.0


def _batch(
    rows: Sequence[Trajectory],
    advantages: Mapping[tuple[str, str], NDArray[np.float64]],
    targets: Mapping[tuple[str, str], NDArray[np.float64]] | None,
) -> TrainBatch:
    lengths = np.array([len(row.ids) for row in rows], dtype=np.int32)
    filled = np.arange(lengths.max(initial=0))[None, :] < lengths[:, None]

    def laid_out(values: Sequence[np.ndarray], empty: float, dtype: type) -> np.ndarray:
        table = np.full(filled.shape, empty, dtype=dtype)
        table[filled] = np.concatenate(values)
        return table

    return TrainBatch(
        policy=rows[0].policy,
        ids=laid_out([row.ids for row in rows], 0, np.int32),
        lengths=lengths,
        trained=laid_out([row.turn for row in rows], -1, np.int32) >= 0,
        advantages=laid_out(
            [_spread(row, advantages, "an advantage", 0.0) for row in rows], 0, np.float32
        ),
        logprobs=laid_out([row.logprobs for row in rows], 0, np.float32),
        versions=laid_out([row.versions for row in rows], -1, np.int32),
        targets=None
        if targets is None
        else laid_out([_at_first(row, targets) for row in rows], np.nan, np.float32),
    )


def _spread(
    row: Trajectory,
    turns: Mapping[tuple[str, str], NDArray[np.float64]],
    what: str,
    empty: float,
) -> NDArray[np.float64]:
    """[T] what each token's turn has in `turns`, `empty` where nobody sampled the token."""
    own = turns.get((row.episode, row.seat))
    if own is None or row.turn.max(initial=-1) >= len(own):
        count = "none" if own is None else len(own)
        raise ValueError(
            f"seat {row.seat!r} in episode {row.episode!r} needs {what} for turn "
            f"{row.turn.max(initial=-1)}; there are {count}"
        )
    return np.append(own, empty)[row.turn]


def _at_first(
    row: Trajectory, targets: Mapping[tuple[str, str], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """[T] the target of each turn at its first trained token, NaN elsewhere."""
    found = _spread(row, targets, "a critic's target", np.nan)
    found[1:][row.turn[1:] == row.turn[:-1]] = np.nan
    return found
