"""Conversations and preferences to learn from, as JSON lines: read, checked line by line, written.

{"messages": [{"role": "system", "content": "..."}, {"role": "user", "content": "..."},
              {"role": "assistant", "content": "...", "weight": 1.0}]}
{"messages": [..., {"role": "user", "content": "..."}], "chosen": "...", "rejected": "..."}
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from opentinker.errors import ConfigError, UnknownNameError

Read = TypeVar("Read")

ROLES = ("system", "user", "assistant")
_TOLD = 5
"""broken lines that an error quotes"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an assistant said, and what its tokens count in the loss; 0 is context only."""

    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation of K turns: what was asked and what was answered."""

    asked: tuple[str, ...]
    """[K]"""
    answers: tuple[Answer, ...]
    """[K]"""
    system: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and two answers to it, the first preferred; `answers` came before, as context."""

    asked: tuple[str, ...]
    """[K]"""
    answers: tuple[Answer, ...]
    """[K - 1]"""
    chosen: str
    rejected: str
    system: str = ""


class _Broken(Exception):
    """Why a line is of no use."""


def read_chats(path: Path) -> list[Chat]:
    """Every conversation of a JSONL file; blank lines are skipped.

    ConfigError: no such file, no line, or broken lines, how many and why the first ones are.
    """
    return _read(path, _chat)


def read_pairs(path: Path) -> list[Pair]:
    """Every preference of a JSONL file, otherwise as `read_chats`."""
    return _read(path, _pair)


def write_lines(path: Path, examples: Iterable[Chat | Pair]) -> None:
    """Write what `read_chats` or `read_pairs` reads back as it was."""
    lines = [json.dumps(_record(example), ensure_ascii=False) + "\n" for example in examples]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def texts(examples: Iterable[Chat | Pair]) -> list[str]:
    """Every text in them, each once, in order."""
    found: dict[str, None] = {}
    for each in examples:
        answers = [answer.text for answer in each.answers]
        last = [each.chosen, each.rejected] if isinstance(each, Pair) else []
        found |= dict.fromkeys(text for text in [each.system, *each.asked, *answers, *last] if text)
    return list(found)


def _read(path: Path, parse: Callable[[Mapping[str, Any]], Read]) -> list[Read]:
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.jsonl")])
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"data.file: no file {str(path)!r}{hint}")
    found: list[Read] = []
    faults: list[str] = []
    count = 0
    for number, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        count += 1
        try:
            found.append(parse(_object(line)))
        except _Broken as fault:
            faults.append(f"{path}:{number}: {fault}")
    if faults:
        more = f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        raise ConfigError(
            f"{len(faults)} of {count} lines are broken: {'; '.join(faults[:_TOLD])}{more}"
        )
    if not found:
        raise ConfigError(f"data.file: {str(path)!r} holds no line")
    return found


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _Broken(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _Broken(f"not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise _Broken("not JSON: nested too deeply") from error
    if not isinstance(value, dict):
        raise _Broken(f"not a JSON object, but {_kind(value)}")
    return value


def _chat(record: Mapping[str, Any]) -> Chat:
    _keys(record, ("messages",), "")
    messages = _messages(record)
    system, asked, answers = _turns(messages)
    if len(answers) < len(asked):
        raise _Broken("ends without an assistant's message")
    if not any(answer.weight for answer in answers):
        raise _Broken("no assistant's message has a weight above 0")
    return Chat(asked, answers, system)


def _pair(record: Mapping[str, Any]) -> Pair:
    _keys(record, ("messages", "chosen", "rejected"), "")
    messages = _messages(record)
    for number, message in enumerate(messages, 1):
        if "weight" in message:
            raise _Broken(f"message {number}: weight in a prompt: only the answers are learned")
    for name in ("chosen", "rejected"):
        if name not in record:
            raise _Broken(f"no {name!r}")
        _text(record[name], name)
    if record["chosen"] == record["rejected"]:
        raise _Broken("chosen and rejected are the same")
    system, asked, answers = _turns(messages)
    if len(answers) == len(asked):
        raise _Broken("the prompt ends with an assistant's message, not a user's")
    return Pair(asked, answers, record["chosen"], record["rejected"], system)


def _messages(record: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    messages = record.get("messages")
    if not messages:
        raise _Broken("no messages")
    if not isinstance(messages, list):
        raise _Broken(f"messages is {_kind(messages)}, not a list")
    for number, message in enumerate(messages, 1):
        where = f"message {number}: "
        if not isinstance(message, dict):
            raise _Broken(f"{where}{_kind(message)}, not an object")
        _keys(message, ("role", "content", "weight"), where)
        role = message.get("role")
        if role not in ROLES:
            raise _Broken(f"{where}{UnknownNameError('role', str(role), ROLES)}")
        _text(message.get("content"), f"{where}content")
        if "weight" in message:
            _weight(message, where)
    return messages


def _turns(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[str, tuple[str, ...], tuple[Answer, ...]]:
    """System text, what was asked, what was answered; roles must take turns, a user first."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    asked: list[str] = []
    answers: list[Answer] = []
    for number, message in enumerate(messages, 1):
        role = message["role"]
        if role == "system":
            if number > 1:
                raise _Broken(f"message {number}: a system message that is not the first")
        elif (role == "user") != (len(asked) == len(answers)):
            said = f"two {role}s in a row" if asked else "an assistant before any user"
            raise _Broken(f"message {number}: {said}")
        elif role == "user":
            asked.append(message["content"])
        else:
            answers.append(Answer(message["content"], float(message.get("weight", 1.0))))
    if not asked:
        raise _Broken("no user's message")
    return system, tuple(asked), tuple(answers)


def _weight(message: Mapping[str, Any], where: str) -> None:
    weight = message["weight"]
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise _Broken(f"{where}weight is {_kind(weight)}, not a number")
    if not 0 <= weight < math.inf:
        raise _Broken(f"{where}weight is {weight}; it is at least 0 and finite")
    if message["role"] != "assistant":
        raise _Broken(f"{where}weight on a {message['role']} message; only answers are learned")


def _text(value: Any, what: str) -> None:
    if not isinstance(value, str):
        raise _Broken(f"{what} is {_kind(value)}, not a string")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _Broken(f"{what} holds half of a surrogate pair") from error


def _keys(record: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in record:
        if key not in known:
            raise _Broken(f"{where}unknown key {key!r}{_near(key, known)}")


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _kind(value: Any) -> str:
    """What JSON calls a value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def _record(example: Chat | Pair) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if example.system:
        messages.append({"role": "system", "content": example.system})
    for place, asked in enumerate(example.asked):
        messages.append({"role": "user", "content": asked})
        if place < len(example.answers):
            answer = example.answers[place]
            weight = {} if answer.weight == 1 else {"weight": answer.weight}
            messages.append({"role": "assistant", "content": answer.text, **weight})
    if isinstance(example, Chat):
        return {"messages": messages}
    for message in messages:  # those of a prompt carry none
        message.pop("weight", None)
    return {"messages": messages, "chosen": example.chosen, "rejected": example.rejected}
