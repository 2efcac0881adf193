"""Whose turn it is to be updated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def due(step: int, every: Mapping[str, int], alternate_every: int | None = None) -> Sequence[str]:
    """The policies that step `step`, counted from 1, updates, in the order of `every`.

    `every` maps each trainable policy to the number that must divide the steps it is updated at.
    With `alternate_every` k the policies take turns, k steps each, while the others stand still;
    a policy's `every` then counts the steps of its own turns.
    """
    if alternate_every is None:
        return [name for name, number in every.items() if step % number == 0]
    names = list(every)
    block, place = divmod(step - 1, alternate_every)
    turn, name = block // len(names), names[block % len(names)]
    own = turn * alternate_every + place + 1
    return [name] if own % every[name] == 0 else []
