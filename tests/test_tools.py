"""Tools: the calculator against sums worked by hand, Python's limits, and how calls are found."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opentinker.errors import ConfigError
from opentinker.sandbox import TABLES, give_up_rights, program
from opentinker.tools import Calculator, PythonTool, ToolCall, find_call, make_tools

CALC = {"calculator": Calculator()}


@pytest.mark.parametrize(
    ("sum_", "result"),
    [
        ("2 * (3 + 4)", "14"),
        ("7 / 2", "3.5"),
        ("6 / 2", "3"),
        ("-7 // 2", "-4"),
        ("-3 % 7", "4"),
        ("2 ** 10", "1024"),
        ("0.1 + 0.2", "0.3"),
        ("2 ** -1", "0.5"),
        ("+5 - -5", "10"),
        ("1 / 3", "0.3333333333"),
    ],
)
def test_the_calculator_calculates(sum_: str, result: str) -> None:
    assert Calculator()(sum_) == result


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1 / 0", "division by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("2 ** 101", "too large"),
        ("(-8) ** 0.5", "error"),
        ("__import__('os').getcwd()", "only numbers"),
        ("'a' * 9", "only numbers"),
        ("[1][0]", "only numbers"),
        ("True + 1", "only numbers"),
        ("x", "only numbers"),
        ("2 +", "can't be read"),
        ("", "can't be read"),
        ("(" * 150 + "1", "can't be read"),
        ("1" * 201, "too long"),
        ("-" * 199 + "1", ""),
    ],
)
def test_what_is_no_sum_is_told_and_raises_nothing(text: str, fault: str) -> None:
    said = Calculator()(text)
    assert fault in said and (not fault or said.startswith("error"))


@pytest.fixture(scope="module")
def python() -> Iterator[PythonTool]:
    if not any(name for name in TABLES):
        pytest.skip("no filter is known for this machine")
    yield PythonTool(seconds=5.0, output=200)


def test_python_prints(python: PythonTool) -> None:
    assert python("from math import comb\nprint(comb(5, 2))\nprint('ü')") == "10\nü"
    assert python("pass") == "(nothing was printed)"
    assert python("print('x' * 500)") == "x" * 200 + " ... (cut)"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import socket; socket.socket()", "PermissionError"),
        ("import socket; socket.create_connection(('127.0.0.1', 80))", "error"),
        ("import os; os.fork()", "PermissionError"),
        ("import subprocess; subprocess.run(['true'])", "PermissionError"),
        ("import os; os.execv('/bin/true', ['true'])", "PermissionError"),
        ("import threading; threading.Thread(target=print).start()", "can't start new thread"),
        ("open('x', 'w')", "PermissionError"),
        ("import os; os.mkdir('x')", "PermissionError"),
        ("import os; os.kill(os.getppid(), 0)", "PermissionError"),
        ("x = 'a' * 10 ** 9", "MemoryError"),
        ("import numpy", "ModuleNotFoundError"),
        ("import sys; sys.exit(3)", "ended with status 3"),
        ("1 +", "SyntaxError"),
    ],
)
def test_python_can_do_no_harm_and_tells_faults(python: PythonTool, code: str, fault: str) -> None:
    said = python(code)
    assert said.startswith("error") and fault in said


def test_python_deletes_no_file(python: PythonTool, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    for call in (f"os.unlink({str(kept)!r})", f"os.truncate({str(kept)!r}, 0)"):
        assert "PermissionError" in python(f"import os; {call}")
    assert kept.read_text() == "as it was"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
def test_python_is_killed_at_its_time_limit(code: str) -> None:
    tool = PythonTool(seconds=1.0)
    began = time.monotonic()
    assert tool(code) == "error: stopped after 1 s"
    assert time.monotonic() - began < 5.0


def test_python_sees_nothing_of_the_environment(
    python: PythonTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "sesame")
    assert "sesame" not in python("import os; print(dict(os.environ))")


def test_the_filter_is_refused_where_no_table_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert not give_up_rights()


@pytest.mark.parametrize("machine", TABLES)
def test_the_filter_jumps_only_inside_itself(machine: str) -> None:
    steps = program(machine)
    for place, (code, yes, no, _) in enumerate(steps):
        if code & 0x07 == 0x05:
            assert place + 1 + max(yes, no) < len(steps)
    assert len(steps) < 4096 and steps[-1][0] == 0x06


@pytest.mark.parametrize(
    ("answer", "call"),
    [
        ("Let me see. <calculator> 3 * 4 </calculator> so", ToolCall("calculator", "3 * 4")),
        ("<calculator>1</calculator><calculator>2</calculator>", ToolCall("calculator", "1")),
        ("<calculator>3 * 4", ToolCall("calculator", "3 * 4")),
        ("<calculator>1\n+ 2</calculator>", ToolCall("calculator", "1\n+ 2")),
        ("<python>1</python>", None),
        ("calculator 3", None),
        ("[12]", None),
    ],
)
def test_calls_are_found(answer: str, call: ToolCall | None) -> None:
    assert find_call(answer, CALC) == call
    assert find_call(answer, {}) is None


class Echo:
    name = "echo"
    usage = "<echo>text</echo>"

    def __call__(self, argument: str) -> str:
        return argument


def test_tools_are_made_by_name_or_place_and_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentinker.tools.Echo", Echo, raising=False)
    tools = make_tools("e", ["calculator", "python", "opentinker.tools:Echo"])
    assert list(tools) == ["calculator", "python", "echo"]
    again = pickle.loads(pickle.dumps([tools["calculator"], tools["python"]]))
    assert again == [Calculator(), PythonTool()]


@pytest.mark.parametrize("names", [["abacus"], "calculator", ["builtins:str"]])
def test_what_is_no_tool_is_refused(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="tool"):
        make_tools("e", names)
