"""What user code raised, in words: what it was, and the line of the user's own file."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import opentinker
from opentinker.errors import ConfigError, EnvironmentFault

_PACKAGE = Path(opentinker.__file__).parent
_OURS = tuple(
    str(path) for path in _PACKAGE.iterdir() if path.name not in ("envs", "agents", "protocols")
)


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Whatever `what`, a user's part, raises inside comes out as a ConfigError that says where."""
    try:
        yield
    except ConfigError:
        raise
    except EnvironmentFault as fault:
        raise ConfigError(str(fault)) from fault
    except Exception as error:
        raise ConfigError(f"{what} raised {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """`KeyError: 'x' (my_env.py, line 12, in play)`: the innermost line that is not a library's."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({Path(error.filename or '').name}, line {error.lineno})"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _users(f.filename)]
    if not frames:
        return said
    frame = frames[-1]
    return f"{said} ({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})"


def _users(filename: str) -> bool:
    if filename.startswith(("<", *_OURS)):
        return False
    parts = Path(filename).parts
    return "site-packages" not in parts and not any(p.startswith("python3") for p in parts)
