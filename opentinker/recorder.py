"""A run on disk: what was asked for, how far it came, what it measured, played and learned.

    runs/<name>/ experiment.toml  status.json  metrics.jsonl  evaluations.jsonl
                 episodes/step-NNNNN.jsonl  checkpoints/step-NNNNN/  plots/*.png
                 base/ model/ (where the run made one)

Files that a reader may meet half-written are written beside and renamed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

from opentinker.errors import CheckpointError, ConfigError, UnknownNameError
from opentinker.types import Episode, EpisodeRequest, Message, Turn

State = Literal["starting", "running", "succeeded", "failed", "interrupted"]


class Run:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, runs: Path, name: str, experiment: str) -> Run:
        """A new folder `runs/name`, or `name-2`, `name-3`, ... where that is taken."""
        number = 1
        while True:
            folder = runs / (name if number == 1 else f"{name}-{number}")
            try:
                folder.mkdir(parents=True)
                break
            except FileExistsError:
                number += 1
        run = cls(folder)
        run.write_text("experiment.toml", experiment)
        run.set_status("starting")
        return run

    @classmethod
    def open(cls, runs: Path, name: str) -> Run:
        """The run in the folder `name`, or called so under `runs`; UnknownNameError if none is."""
        for folder in (Path(name), runs / name):
            if (folder / "status.json").is_file():
                return cls(folder)
        known = [p.parent.name for p in runs.glob("*/status.json")]
        raise UnknownNameError("run", name, known, f"looked under {runs}")

    def write_text(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".part")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
        return path

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, json.dumps(value, indent=1) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """The record of a `.json` file; empty where it does not exist."""
        path = self.folder / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def set_status(self, state: State, step: int = 0, message: str = "") -> None:
        """How far the run is; `message` is the cause where it failed."""
        record = {
            "state": state,
            "step": step,
            "message": message,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.write_json("status.json", record)

    def status(self) -> dict[str, Any]:
        return self.read_json("status.json")

    def append(self, name: str, record: Mapping[str, Any]) -> None:
        """Add a line to a `.jsonl` file."""
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, default=_plain) + "\n")

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The records of a `.jsonl` file, a last line in writing left out; none without a file."""
        path = self.folder / name
        if not path.is_file():
            return []
        whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def write_episodes(self, step: int, episodes: Sequence[Episode]) -> None:
        """Write the episodes of one update, every turn of them."""
        lines = (json.dumps(asdict(e), default=_plain) for e in episodes)
        self.write_text(f"episodes/step-{step:05d}.jsonl", "".join(f"{line}\n" for line in lines))

    def episodes(self) -> Iterator[tuple[int, Episode]]:
        """Every recorded episode with its step, oldest first."""
        paths = (self.folder / "episodes").glob("step-*.jsonl")
        for step, path in sorted((int(p.stem.removeprefix("step-")), p) for p in paths):
            for line in path.read_text(encoding="utf-8").splitlines():
                yield step, _episode(json.loads(line))

    def rewind(self, step: int) -> None:
        """Forget what was recorded after `step`, so that the run goes on from there."""
        for path in self.folder.glob("*.jsonl"):
            rows = [row for row in self.lines(path.name) if row["step"] <= step]
            self.write_text(path.name, "".join(json.dumps(row) + "\n" for row in rows))
        for path in (self.folder / "episodes").glob("step-*.jsonl"):
            if int(path.stem.removeprefix("step-")) > step:
                path.unlink()
        for path in (self.folder / "checkpoints").glob("*"):
            number = path.name.removeprefix("step-")
            if not number.isdigit() or int(number) > step:  # torn, or left in writing
                shutil.rmtree(path)

    def claim(self) -> None:
        """Hold the run for as long as this process lives; ConfigError while another one holds it.

        The system lets go of it however the process ends.
        """
        file = (self.folder / "lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise ConfigError(f"the run {self.folder} is going on in another process") from None
        self._lock = file

    def release(self) -> None:
        """Let go of what `claim` holds."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def checkpoint(
        self,
        step: int,
        write: Callable[[Path], None],
        keep_last: int,
        *,
        keep_best: int = 0,
        score: float | None = None,
    ) -> Path:
        """Let `write` fill a folder beside, seal it with hashes, rename it.

        Kept are the `keep_last` newest, and of all with a `score` the `keep_best` highest.
        """
        final = self.folder / "checkpoints" / f"step-{step:05d}"
        beside = final.with_name(final.name + ".part")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        write(beside)
        hashes = {str(p.relative_to(beside)): _sha256(p) for p in _files(beside)}
        manifest = {"step": step, "score": score, "files": hashes}
        (beside / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        shutil.rmtree(final, ignore_errors=True)
        os.replace(beside, final)
        kept = self.checkpoints()
        best = self._by_score(kept)[:keep_best]
        for old in kept[:-keep_last]:
            if old not in best:
                shutil.rmtree(old)
        return final

    def checkpoints(self) -> list[Path]:
        """Whole checkpoints, oldest first; a torn one has no manifest under its final name."""
        found = (self.folder / "checkpoints").glob("step-*/manifest.json")
        whole = (p.parent for p in found if p.parent.suffix != ".part")
        return sorted(whole, key=lambda p: int(p.name.removeprefix("step-")))

    def best_checkpoint(self) -> Path:
        """The kept checkpoint with the highest score; CheckpointError where none has one."""
        best = self._by_score(self.checkpoints())
        if not best:
            raise CheckpointError(
                f"no checkpoint of the run {self.folder} has a score; name checkpoint.metric"
            )
        return best[0]

    def _by_score(self, folders: Sequence[Path]) -> list[Path]:
        """Those with a score, the highest first, of equal ones the newest."""
        scores = {}
        for folder in folders:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            if manifest.get("score") is not None:
                scores[folder] = (manifest["score"], manifest["step"])
        return sorted(scores, key=lambda folder: scores[folder], reverse=True)

    def latest_checkpoint(self) -> Path:
        """The newest checkpoint whose files are what its manifest says."""
        for folder in reversed(self.checkpoints()):
            try:
                manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            except ValueError:
                continue
            paths = {name: folder / name for name in manifest["files"]}
            if all(p.is_file() and _sha256(p) == manifest["files"][n] for n, p in paths.items()):
                return folder
        raise CheckpointError(f"the run {self.folder} has no whole checkpoint")


def runs_folder(given: Path | None) -> Path:
    """Where runs are kept: as given, else `runs` in the working folder; ConfigError on a file."""
    folder = given or Path("runs")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} is a file; name a folder for the runs")
    return folder


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} can't be written to a transcript")


def _episode(record: dict[str, Any]) -> Episode:
    turns = (
        Turn(**{**t, **{key: tuple(t[key]) for key in ("context_ids", "tokens", "logprobs")}})
        for t in record["turns"]
    )
    messages = (Message(**{**m, "audience": frozenset(m["audience"])}) for m in record["messages"])
    return Episode(
        **{
            **record,
            "request": EpisodeRequest(**record["request"]),
            "turns": tuple(turns),
            "messages": tuple(messages),
        }
    )
