"""Folders that are there whole or not at all: written beside, then renamed into place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """Give an empty folder to write in, which becomes `folder` when the block ends well.

    What stood there before is then gone. After an exception nothing has changed.
    """
    folder = Path(os.path.abspath(folder))
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.writing")
    before = folder.with_name(f".{folder.name}.{os.getpid()}.before")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        if folder.exists():
            folder.rename(before)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)
