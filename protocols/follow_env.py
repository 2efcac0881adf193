"""Ask whoever the env selects, until it ends: board games, cards, envs that order turns."""

from __future__ import annotations

from opentinker.protocol import CURRENT, Protocol, Stage


def build(
    seats: tuple[str, ...],
    *,
    prompt: str | None = None,
    window: int | None = None,
    trainable: bool = True,
) -> Protocol:
    """One stage, looping. Over a simultaneous env it asks all living seats at once."""
    move = Stage("move", (CURRENT,), "move", prompt=prompt, window=window, trainable=trainable)
    return Protocol.of("follow_env", seats, [move], [("move", "move", "*")])
