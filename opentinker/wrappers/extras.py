"""The libraries that are installed on request, and what is said when one is missing."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

from opentinker.errors import ConfigError


def load(module: str, extra: str) -> ModuleType:
    """The module of that name; ConfigError with the words that install it if it can't be loaded.

    What it warns of while it is loaded is not the user's business.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"this env needs {module!r}, which can't be loaded ({error}): "
            f"pip install 'opentinker[{extra}]'"
        ) from error
