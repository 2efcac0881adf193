"""`opentinker init`: a folder with a small example of everything that a user may write."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from opentinker.errors import ConfigError


def lay(folder: Path) -> list[Path]:
    """Lay the example into `folder`, a new or empty one; gives its files, sorted."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "a folder with files in it" if folder.is_dir() else "a file"
        raise ConfigError(f"{str(folder)!r} is {what}; name a new folder, or an empty one")
    with as_file(files("opentinker.commands") / "project") as example:
        shutil.copytree(
            example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    return sorted(path for path in folder.rglob("*") if path.is_file())
