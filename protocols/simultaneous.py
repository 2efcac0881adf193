"""Ask all seats at once, round after round: nobody sees what the others answer now."""

from __future__ import annotations

from opentinker.protocol import ALL, Protocol, Stage


def build(
    seats: tuple[str, ...],
    *,
    prompt: str | None = None,
    window: int | None = None,
    trainable: bool = True,
    rounds: int | None = None,
) -> Protocol:
    """One stage, looping, at most `rounds` times. It does not fit a turn-based env."""
    stage = Stage("round", (ALL,), "move", prompt, window, trainable, max_visits=rounds)
    return Protocol.of("simultaneous", seats, [stage], [("round", "round", "*")])
