"""What a person at a terminal sees of a job: a line a step, a bar, a closing table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

_SHORT = {
    "exploitability": "expl",
    "exploitability_average": "avg",
    "tokens_per_second": "tok/s",
    "mismatch_kl": "mkl",
    "illegal": "illegal",
}


class RichWatcher:
    """Draws on a terminal; where the output is no terminal, prints about thirty lines in all."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = perf_counter()
        self._progress: Progress | None = None
        self._task = None

    def phase(self, text: str) -> None:
        self._end_bar()
        self._console.print(
            f"[dim]{perf_counter() - self._began:6.1f} s[/] {text}", highlight=False
        )

    def step(self, row: Mapping[str, float], step: int, total: int) -> None:
        every = max(1, total // 30)
        if self._console.is_terminal or step % every == 0 or step == total:
            line = "  ".join(f"{name} {value}" for name, value in _figures(row))
            seconds = perf_counter() - self._began
            self._console.print(
                f"[dim]{seconds:6.1f} s[/] [bold]step {step:>3}[/]  {line}",
                highlight=False,
                soft_wrap=True,
            )
        if self._console.is_terminal:
            self._bar(step, total)

    def closing(self, title: str, rows: Sequence[tuple[str, str, str]]) -> None:
        self._end_bar()
        table = Table("", "first", "last", title=title)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    def close(self) -> None:
        self._end_bar()

    def _bar(self, step: int, total: int) -> None:
        if self._progress is None:
            columns = (
                TextColumn("updates"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._task = self._progress.add_task("updates", total=total)
            self._progress.start()
        assert self._task is not None
        self._progress.update(self._task, completed=step)

    def _end_bar(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _figures(row: Mapping[str, float]) -> list[tuple[str, str]]:
    """The figures of a step worth a line, in a fixed order, shortly named."""
    found = []
    for key, value in row.items():
        if key.startswith("reward/"):
            found.append((f"r/{key.removeprefix('reward/')}", f"{value:+.3f}"))
    for key in ("illegal", "exploitability", "exploitability_average", "loss", "val_loss"):
        if key in row:
            found.append((_SHORT.get(key, key), f"{row[key]:.4f}"))
    for name, form in (("entropy", ".3f"), ("mismatch_kl", ".1e")):
        values = [v for k, v in row.items() if k.endswith(f"/{name}")]
        if values:
            text = "/".join(format(value, form) for value in values)
            found.append((_SHORT.get(name, name), text))
    if "tokens_per_second" in row:
        found.append((_SHORT["tokens_per_second"], f"{row['tokens_per_second']:.0f}"))
    return found
