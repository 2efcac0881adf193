"""Ask the only seat, turn after turn, until the env ends: single-agent RL."""

from __future__ import annotations

from opentinker.errors import ProtocolError
from opentinker.protocol import Protocol, Stage


def build(
    seats: tuple[str, ...],
    *,
    prompt: str | None = None,
    window: int | None = None,
    trainable: bool = True,
    turns: int | None = None,
) -> Protocol:
    """One stage, looping, at most `turns` times. `ProtocolError` unless there is one seat."""
    if len(seats) != 1:
        raise ProtocolError(
            f"protocol 'single' is for one seat, the env has {', '.join(seats) or 'none'}; "
            "use follow_env or simultaneous"
        )
    stage = Stage("answer", seats, "move", prompt, window, trainable, max_visits=turns)
    return Protocol.of("single", seats, [stage], [("answer", "answer", "*")])
