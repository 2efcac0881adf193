"""The figures of one step, from its episodes and the reports of its updates."""

from __future__ import annotations

from collections.abc import Sequence

from opentinker.types import Episode, UpdateReport


def step_metrics(
    episodes: Sequence[Episode], reports: Sequence[UpdateReport], seconds: float
) -> dict[str, float]:
    """`reward/<seat>` mean return, `illegal` share of moves, `tokens_per_second` sampled in the
    `seconds` of play, and `<policy>/<metric>` of each update.
    """
    found: dict[str, float] = {}
    seats = episodes[0].returns if episodes else ()
    for seat in seats:
        found[f"reward/{seat}"] = sum(e.returns[seat] for e in episodes) / len(episodes)
    turns = [turn for e in episodes for turn in e.turns]
    found["illegal"] = sum(not turn.legal for turn in turns) / max(1, len(turns))
    found["turns"] = len(turns)
    found["tokens_per_second"] = sum(len(turn.tokens) for turn in turns) / seconds
    for report in reports:
        found[f"{report.policy}/version"] = report.version
        found[f"{report.policy}/skipped"] = float(bool(report.skipped))
        for key, value in report.metrics.items():
            found[f"{report.policy}/{key}"] = float(value)
    return found
