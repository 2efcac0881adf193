"""Tools that an env offers to its seats: a calculator, Python, and those of users.

A seat calls a tool by a tag with the tool's name, `<calculator>12 * 7</calculator>`, in its answer;
the env hears the call, and shows the result in the seat's next observation. Results are thus
context, never a seat's own tokens.
"""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from opentinker import sandbox
from opentinker.errors import ConfigError
from opentinker.options import number, whole
from opentinker.registry import call_factory, load_object

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Tool(Protocol):
    """What a seat may call: `name` in the tag, `usage` as shown to the seat, text in, text out.

    A tool tells the seat's faults in its result and raises nothing for them.
    """

    @property
    def name(self) -> str: ...

    @property
    def usage(self) -> str: ...

    def __call__(self, argument: str) -> str: ...


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The name of the tool, and the text between its tags."""

    tool: str
    argument: str


def find_call(answer: str, tools: Mapping[str, Tool]) -> ToolCall | None:
    """The first call in `answer` of one of `tools`, or None; an end tag may be missing."""
    if not tools:
        return None
    names = "|".join(map(re.escape, tools))
    match = re.search(rf"<({names})>(.*?)(?:</\1>|$)", answer, flags=re.DOTALL)
    return None if match is None else ToolCall(match[1], match[2].strip())


def make_tools(where: str, names: Sequence[str]) -> dict[str, Tool]:
    """Tools by their name: `"calculator"`, `"python"` or `"package.module:factory"`."""
    if isinstance(names, str):
        raise ConfigError(f"{where}: tools is {names!r}; allowed: a list of names")
    found: dict[str, Tool] = {}
    for name in names:
        if name not in BUILT_IN and ":" not in str(name):
            raise ConfigError(
                f"{where}: tools names {name!r}; allowed: {', '.join(map(repr, BUILT_IN))}, or "
                f"'package.module:factory'"
            )
        factory = BUILT_IN[name] if name in BUILT_IN else load_object(name)
        tool: Any = call_factory("tool", name, factory)
        called = str(getattr(tool, "name", ""))
        if not callable(tool) or not _NAME.fullmatch(called):
            raise ConfigError(
                f"{where}: {name!r} gave {tool!r}, not a tool with a name as [a-z0-9_]"
            )
        found[called] = cast(Tool, tool)
    return found


@dataclass(frozen=True, slots=True)
class Calculator:
    """+ - * / // % ** and brackets over numbers; the expression is read by hand, never evaluated.

    At most 200 letters; results of more than 30 digits are refused.
    """

    name: str = "calculator"
    usage: str = "<calculator>2 * (3 + 4)</calculator>"

    def __call__(self, argument: str) -> str:
        try:
            if len(argument) > 200:
                raise ValueError("too long")
            return _shown(_value(ast.parse(argument.strip(), mode="eval").body))
        except (ArithmeticError, ValueError) as error:
            return f"error: {error}"
        except (SyntaxError, MemoryError, RecursionError):
            return "error: this can't be read"


@dataclass(frozen=True, slots=True)
class PythonTool:
    """Python 3 with its standard library only, in a process of its own that `sandbox` ties down.

    No network, no files written, no other processes; it can read what its user can read. `seconds`
    of clock time and of processor time, `memory` in MiB, `output` letters shown of what it printed.
    ConfigError at the making where the machine can't tie it down. The caller waits for the result.
    """

    seconds: float = 2.0
    memory: int = 256
    output: int = 1000
    name: str = "python"
    usage: str = "<python>print(2 ** 10)</python>"

    def __post_init__(self) -> None:
        number("python tool", "seconds", self.seconds, 0.1)
        whole("python tool", "memory", self.memory, 64)
        whole("python tool", "output", self.output, 1, 1_000_000)
        if self("print(6 * 7)") != "42":
            raise ConfigError(
                f"the python tool can't be used here: {self('print(6 * 7)')!r}; it needs Linux on "
                f"x86-64 or aarch64 with seccomp filters, and {self.seconds} s to start"
            )

    def __call__(self, argument: str) -> str:
        limits = (math.ceil(self.seconds), self.memory * 2**20, 16 * self.output + 4096)
        command = [sys.executable, "-I", "-S", str(Path(sandbox.__file__)), *map(str, limits)]
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={"PYTHONIOENCODING": "utf-8:replace", "PYTHONUTF8": "1"},
                start_new_session=True,
            )
            try:
                process.communicate(argument.encode("utf-8", "replace"), timeout=self.seconds)
                late = process.returncode == -signal.SIGXCPU
            except subprocess.TimeoutExpired:
                late = True
            finally:
                _end(process)
            printed.seek(0)
            text = printed.read(limits[2]).decode("utf-8", "replace").strip()
        return self._told(text, process.returncode, late)

    def _told(self, text: str, status: int, late: bool) -> str:
        if late:
            return f"error: stopped after {self.seconds:g} s"
        if status == sandbox.REFUSED:
            return "error: no sandbox on this machine"
        if status != 0:
            lines = text.splitlines()
            return f"error: {lines[-1] if lines else f'ended with status {status}'}"[: self.output]
        if len(text) > self.output:
            return f"{text[: self.output]} ... (cut)"
        return text or "(nothing was printed)"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole group, whether it ended or not, and collect it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


BUILT_IN: Mapping[str, Callable[..., Any]] = {"calculator": Calculator, "python": PythonTool}

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_LARGEST = 10**30


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _value(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            one, two = _value(left), _value(right)
            if isinstance(op, ast.Pow):
                _check_power(one, two)
            return _bounded(_BINARY[type(op)](one, two))
    raise ValueError("only numbers, + - * / // % ** and brackets are understood")


def _check_power(base: int | float, exponent: int | float) -> None:
    if abs(base) > 1 and exponent * math.log10(abs(base)) > 30:
        raise ValueError("the result is too large")


def _bounded(value: Any) -> int | float:
    if isinstance(value, complex) or not abs(value) <= _LARGEST:
        raise ValueError("the result is no number" if value != value else "the result is too large")
    return value


def _shown(value: int | float) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.10g}"
    return str(value)
