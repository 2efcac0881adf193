"""Reads a JSONL file: one JSON object a line, blank lines left out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentinker.errors import ConfigError

Record = dict[str, Any]


def read_records(
    path: str | Path, needed: Sequence[str] = (), *, start: int = 0, stop: int | None = None
) -> tuple[Record, ...]:
    """The objects of a file from `start` to `stop` (as in a slice), each with the keys `needed`.

    A relative path is looked for in the working directory, then in the folders of `sys.path`, among
    which is the folder of the experiment that is run. ConfigError names the file, line and fault.
    """
    file = find_file(path)
    found: list[Record] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{file}, line {number}: this is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise ConfigError(f"{file}, line {number}: {record!r} is not a JSON object")
        missing = [key for key in needed if key not in record]
        if missing:
            raise ConfigError(
                f"{file}, line {number}: no {', '.join(map(repr, missing))}; the keys are "
                f"{', '.join(map(repr, record)) or 'none'}"
            )
        found.append(record)
    rows = tuple(found[start:stop])
    if not rows:
        raise ConfigError(f"{file} has {len(found)} records, none of them from {start} to {stop}")
    return rows


def find_file(path: str | Path) -> Path:
    """The file that `path` names; ConfigError tells where it was looked for."""
    folders = [Path.cwd(), *map(Path, sys.path)]
    for folder in folders:
        if (folder / path).is_file():
            return folder / path
    raise ConfigError(f"no file {str(path)!r} in {folders[0]} nor in a folder of sys.path")
