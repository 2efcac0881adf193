"""An experiment as it is written down: TOML in, checked key by key, resolved TOML out.

What a value means to the env, the protocol or the model is checked by `opentinker.scheduler.check`,
before Ray or an engine starts.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from opentinker.errors import ConfigError
from opentinker.experiment import RLExperiment
from opentinker.finetuning import DPOExperiment, SFTExperiment

Experiment = RLExperiment | SFTExperiment | DPOExperiment
_KINDS: dict[str, type[RLExperiment] | type[SFTExperiment] | type[DPOExperiment]] = {
    "rl": RLExperiment,
    "sft": SFTExperiment,
    "dpo": DPOExperiment,
}


def load_experiment(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment file; each override is `a.b=value`, the value as TOML or a bare word.

    Raises `ConfigError` with one line: the file, the key, the value, what is allowed.
    """
    path = Path(path)
    if not path.is_file():
        near = sorted(str(p) for p in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        hint = f"; there is {', '.join(near)}" if near else ""
        raise ConfigError(f"no experiment file {str(path)!r}{hint}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    for override in overrides:
        set_key(table, override)
    return parse_experiment(table, str(path))


def parse_experiment(table: Mapping[str, Any], source: str = "experiment") -> Experiment:
    """An experiment from a table as TOML gives it; `source` names it in errors."""
    job = table.get("job", "rl")
    if not isinstance(job, str) or job not in _KINDS:
        raise ConfigError(
            f"{source}: unknown job {job!r}{_nearest(str(job), _KINDS)}; known: rl, sft, dpo"
        )
    try:
        return _KINDS[job].model_validate(dict(table))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error, table, _KINDS[job])}") from error


def dump_experiment(experiment: Experiment) -> str:
    """The resolved experiment as TOML, defaults in, keys without a value or an effect left out."""
    idle = {"model"} if experiment.after is not None else set()
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True, exclude=idle))


def set_key(table: dict[str, Any], text: str, flag: str = "--set") -> None:
    """Put `a.b=value` into `table`, the value as TOML or a bare word; `flag` names it in errors."""
    key, equals, raw = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"{flag} {text!r} is not of the form key.subkey=value")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    *parents, leaf = (part.strip() for part in key.split("."))
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{flag} {text!r}: {parent!r} is a value, not a section")
    table[leaf] = value


def _explain(error: ValidationError, table: Mapping[str, Any], model: type[BaseModel]) -> str:
    """The first fault in one line, with the nearest key where one was misspelt."""
    faults = [(_written(fault, table), fault) for fault in error.errors()]
    path, first = faults[0]
    where = ".".join(path)
    here = [fault for found, fault in faults if found[: len(path)] == path]
    count = len({tuple(found[: len(path)]) for found, _ in faults}) - 1
    more = f" (and {count} more)" if count else ""
    if first["type"] == "extra_forbidden":
        allowed = _keys_at(model, first["loc"][:-1])
        key = str(first["loc"][-1])
        known = f"; known: {', '.join(allowed)}" if allowed else ""
        return f"unknown key {where!r}{_nearest(key, allowed)}{known}{more}"
    if first["type"] == "missing":
        return f"{where!r} is missing{more}"
    if first["type"] == "union_tag_invalid":
        context = first.get("ctx", {})
        allowed = str(context.get("expected_tags", "")).replace("'", "").split(", ")
        given = str(context.get("tag", ""))
        return (
            f"{where}.kind = {given!r}{_nearest(given, allowed)}; known: {', '.join(allowed)}{more}"
        )
    if first["type"] == "value_error":
        return f"{first['msg'].removeprefix('Value error, ')}{more}"
    # A union has a fault for each of its kinds, all at one place.
    said = dict.fromkeys(_message(fault) for fault in here)
    return f"{where} = {first['input']!r}: {', or '.join(said)}{more}"


def _message(fault: ErrorDetails) -> str:
    if fault["type"] == "missing" and isinstance(fault["loc"][-1], str):
        return f"a table with the key {fault['loc'][-1]!r}"
    return fault["msg"][0].lower() + fault["msg"][1:]


def _written(fault: ErrorDetails, table: Mapping[str, Any]) -> list[str]:
    """The part of a fault's path that is in the table, or missing in it, without pydantic's own
    names of a union's kinds.
    """
    found: list[str] = []
    node: Any = table
    for place, part in enumerate(fault["loc"]):
        keys = node if isinstance(node, Mapping) else range(len(node) if type(node) is list else 0)
        if part in keys:
            node = node[part]  # pyright: ignore[reportArgumentType, reportCallIssue]
        elif fault["type"] != "missing" or place < len(fault["loc"]) - 1:
            continue
        found.append(str(part))
    return found


def _keys_at(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """The keys of the section at `path` of a model, looked up in its JSON schema.

    Of a section of several kinds, all of their keys: each of `path`'s parts may name the kind.
    """
    schema = TypeAdapter(model).json_schema()

    def opened(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        while "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
        kinds = node.get("oneOf", node.get("anyOf"))
        return [node] if kinds is None else [each for kind in kinds for each in opened(kind)]

    nodes = opened(schema)
    for part in path:
        inner: list[Mapping[str, Any]] = []
        for node in nodes:
            child = node.get("properties", {}).get(str(part))
            if child is None:
                patterns = node.get("patternProperties", {}).values()
                child = next(iter(patterns), node.get("additionalProperties"))
            if isinstance(child, Mapping):
                inner += opened(child)
        # A part that is in no table names a kind: pydantic puts it into a union's paths.
        nodes = inner or [node for node in nodes if _kind(node) == part]
    return list(dict.fromkeys(key for node in nodes for key in node.get("properties", {})))


def _kind(node: Mapping[str, Any]) -> Any:
    return node.get("properties", {}).get("kind", {}).get("const")


def _nearest(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
