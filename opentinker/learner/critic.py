"""A critic: what a turn will be worth, read off the policy's own last hidden state.

Axes: M turns, H hidden size, K turns of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from opentinker.errors import CheckpointError
from opentinker.learner.policy import Policy, output_head
from opentinker.learner.scoring import by_length
from opentinker.learner.weights import chosen_outputs
from opentinker.types import Trajectory

CRITIC = "critic.safetensors"


class Critic:
    """A linear head in float32, which says 0 of everything until it has learned."""

    def __init__(self, policy: Policy) -> None:
        with torch.no_grad(), policy.active() as network:
            width = output_head(network).weight.shape[1]
        self.weight = nn.Parameter(torch.zeros(width, device=policy.device))
        self.bias = nn.Parameter(torch.zeros((), device=policy.device))

    def __call__(self, states: Tensor) -> Tensor:
        """Values [M] of hidden states [M, H]."""
        return states.float() @ self.weight + self.bias

    def parameters(self) -> dict[str, nn.Parameter]:
        return {"weight": self.weight, "bias": self.bias}

    def save(self, folder: Path) -> None:
        save_file({name: each.data for name, each in self.parameters().items()}, folder / CRITIC)

    def read(self, folder: Path) -> None:
        """Take what `save` wrote; CheckpointError where it is missing, torn or doesn't fit."""
        file = folder / CRITIC
        if not file.is_file():
            raise CheckpointError(f"no critic in {str(folder)!r}")
        try:
            saved = load_file(file)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{str(file)!r} can't be read: {error}") from error
        shapes = {name: each.shape for name, each in self.parameters().items()}
        if shapes != {name: each.shape for name, each in saved.items()}:
            raise CheckpointError(f"{str(file)!r} is of another model")
        for name, parameter in self.parameters().items():
            parameter.data.copy_(saved[name])


def values(
    policy: Policy, critic: Critic, rows: Sequence[Trajectory], batch_tokens: int = 16384
) -> list[NDArray[np.float64]]:
    """The critic's value [K] of each turn of each row, read before the turn's first token.

    At most `batch_tokens` positions go through the model at once, unless one row alone has more.
    ValueError for a row that begins with a turn's token.
    """
    asked = [_asked(row) for row in rows]
    found = [np.zeros(len(each)) for each in asked]
    lengths = [int(each.max(initial=-1)) + 1 for each in asked]
    with torch.no_grad(), policy.active() as network:
        for places in by_length(lengths, batch_tokens):
            ids = np.zeros((len(places), lengths[places[0]]), np.int64)
            for line, place in enumerate(places):
                ids[line, : lengths[place]] = rows[place].ids[: lengths[place]]
            line = np.repeat(np.arange(len(places)), [len(asked[place]) for place in places])
            column = np.concatenate([asked[place] for place in places])
            table, where, column = (
                torch.from_numpy(each).to(policy.device) for each in (ids, line, column)
            )
            states = chosen_outputs(network, table, where[:0], where[:0], where, column)[1]
            told = critic(states).cpu().numpy().astype(np.float64)
            ends = np.cumsum([len(asked[place]) for place in places])
            for place, own in zip(places, np.split(told, ends[:-1]), strict=True):
                found[place] = own
    return found


def _asked(row: Trajectory) -> NDArray[np.int64]:
    """[K] the position before the first token of each of the row's turns, in order."""
    places = np.flatnonzero(row.turn >= 0)
    _, first = np.unique(row.turn[places], return_index=True)
    asked = places[np.sort(first)] - 1
    if len(asked) and asked[0] < 0:
        raise ValueError(
            f"seat {row.seat!r} in episode {row.episode!r}: the first token is a turn's, with "
            "nothing before it"
        )
    return asked
