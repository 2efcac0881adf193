"""Finds users' parts as a person names them: by file, by place, by name.

A file is imported under its own name, with its folder on the path, as an experiment would; so what
is found has a place, `"my_env:env"`, which every part of the library takes.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pettingzoo import AECEnv, ParallelEnv

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import COLLECTIONS, load_object
from opentinker.testing.words import told


class Broken(ConfigError):
    """A thing that was found, and is wrong."""


@dataclass(frozen=True, slots=True)
class Part:
    """An env, an agent or a protocol, and what the registry knows it by."""

    kind: str
    id: str


def find_parts(name: str) -> list[Part]:
    """All that `name` is: a file's parts, what is at a place, or a name of one or more kinds.

    ConfigError if there is nothing; `Broken` if it is there and can't be taken for a part.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if name.endswith(".py"):
        return _in_file(Path(name))
    found = [Part(kind, name) for kind, each in COLLECTIONS.items() if each.knows(name)]
    if found:
        return found
    if ":" in name:
        return [Part(_kind(name, _object(name)), name)]
    known = [id for each in COLLECTIONS.values() for id in each.ids()]
    raise UnknownNameError("env, agent or protocol", name, known, "or a file.py, or module:factory")


def find_part(kind: str, name: str) -> str:
    """The id of the `kind` that `name` is; a name that is no file is left to the registry."""
    if not name.endswith(".py"):
        return name
    found = [part.id for part in find_parts(name) if part.kind == kind]
    if not found:
        words = " or ".join(COLLECTIONS[kind].words)
        raise ConfigError(f"{name} has no {kind}: no function {words}")
    return found[0]


def _in_file(path: Path) -> list[Part]:
    if not path.is_file():
        near = sorted(str(p) for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise ConfigError(f"no file {str(path)!r}{'; there is ' + ', '.join(near) if near else ''}")
    module = _load(path)
    found = []
    for kind, each in COLLECTIONS.items():
        word = next((word for word in each.words if hasattr(module, word)), None)
        if word is not None:
            found.append(Part(kind, f"{module.__name__}:{word}"))
    if found:
        return found
    hint = ""
    for name, value in vars(module).items():
        own = inspect.isclass(value) and value.__module__ == module.__name__
        if own and issubclass(value, AECEnv | ParallelEnv):
            hint = f"; for its class {name}: def env(**options): return {name}(**options)"
    raise Broken(
        f"{path} has no function `env` or `parallel_env` (an env), `make` (an agent) or `build` "
        f"(a protocol){hint}"
    )


def _load(path: Path) -> ModuleType:
    path = path.resolve()
    for each in COLLECTIONS.values():  # a file of the library's own folders has its name there
        folders = map(Path, importlib.import_module(each.package).__path__)
        if path.parent in [folder.resolve() for folder in folders]:
            return importlib.import_module(f"{each.package}.{path.stem}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    known = sys.modules.get(path.stem)
    if known is not None:
        origin = getattr(known, "__file__", None)
        if origin is not None and Path(origin).resolve() == path:
            return known
        raise Broken(
            f"{path.name}: another module named {path.stem!r} is loaded already, from "
            f"{origin or 'Python itself'}; give the file another name"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        with told(f"importing {path.name}"):
            spec.loader.exec_module(module)
    except ConfigError as error:
        del sys.modules[path.stem]
        raise Broken(str(error)) from error
    return module


def _object(place: str) -> Any:
    try:
        with told(f"importing {place.partition(':')[0]!r}"):
            return load_object(place)
    except ConfigError as error:
        if isinstance(error, UnknownNameError) or "no module" in str(error):
            raise
        raise Broken(str(error)) from error


def _kind(place: str, found: Any) -> str:
    """What a factory makes: by its name, else by what it takes."""
    word = place.partition(":")[2]
    for kind, each in COLLECTIONS.items():
        if word in each.words:
            return kind
    if not callable(found):
        raise Broken(f"{place} is a {type(found).__name__}; it must be a factory")
    if inspect.isclass(found) and issubclass(found, AECEnv | ParallelEnv):
        return "env"
    takes = list(inspect.signature(found).parameters)
    if "seat" in takes and "seed" in takes:
        return "agent"
    return "protocol" if takes[:1] == ["seats"] else "env"
