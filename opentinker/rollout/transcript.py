"""An episode as text to read."""

from __future__ import annotations

from opentinker.types import Episode, Turn


def lines(episode: Episode) -> list[str]:
    """What each seat saw and said, turn by turn, and what became of it."""
    found = []
    for turn in episode.turns:
        found += [f"[{turn.index}] {_head(turn)}", *_indented("sees", turn.observation)]
        found += _indented("says", turn.text)
        found.append(f"    {_verdict(turn)}")
    returns = ", ".join(f"{seat} {value:+g}" for seat, value in episode.returns.items())
    found.append(f"returns: {returns}")
    if episode.reason:
        found.append(f"{episode.outcome}: {episode.reason}")
    return found


def _head(turn: Turn) -> str:
    who = turn.agent if turn.policy is None else f"{turn.policy} version {turn.version}"
    return f"{turn.seat} ({who}) in stage {turn.stage}"


def _verdict(turn: Turn) -> str:
    move = f"-> {turn.action}" if turn.action is not None else "-> no action"
    fault = "" if turn.legal else f" (illegal: {turn.reason})"
    return f"{move}{fault}, reward {turn.reward:+g}"


def _indented(word: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"    {word}: {first}", *(f"          {line}" for line in rest)]
