"""`opentinker envs` and `opentinker protocols`: every one is there, with what it is."""

from __future__ import annotations

import re
import sys

import pytest

from opentinker import cli
from opentinker.registry import env_ids, protocol_ids

LIBRARIES = {
    "rlcard": "classic",
    "pyspiel": "openspiel",
    "textarena": "textarena",
    "pygame": "gymnasium",
    "reasoning_gym": "reasoning-gym",
}


def _shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> str:
    monkeypatch.setattr(cli.console, "width", 400)
    assert cli.main([command]) == 0
    return capsys.readouterr().out


def _row(shown: str, name: str) -> list[str]:
    [line] = [line for line in shown.splitlines() if re.match(rf"│{re.escape(name)} ", line)]
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_every_env_is_listed_with_its_seats_and_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("pyspiel", "textarena", "reasoning_gym"):  # slow to load
        monkeypatch.setitem(sys.modules, module, None)
    shown = _shown(monkeypatch, capsys, "envs")
    assert all(_row(shown, id) for id in env_ids())
    assert _row(shown, "kuhn_poker_v0")[1:3] == ["2", "turn-based"]
    assert _row(shown, "rps_v2")[1:3] == ["2", "simultaneous"]
    assert _row(shown, "werewolf_v0")[1:3] == ["5", "turn-based"]
    assert "the smallest poker" in _row(shown, "kuhn_poker_v0")[3]
    assert "missing 1 required keyword-only argument: 'file'" in _row(shown, "tasks_v0")[3]
    # Blackjack, CliffWalking and its slippery one, FrozenLake and its 8x8 one, Taxi.
    assert _row(shown, "gymnasium/<Id>")[1:3] == ["6", "installed"]


def test_a_family_whose_library_is_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in LIBRARIES:
        monkeypatch.setitem(sys.modules, module, None)
    shown = _shown(monkeypatch, capsys, "envs")
    for extra in LIBRARIES.values():
        assert f"pip install 'opentinker[{extra}]'" in shown


def test_every_protocol_is_listed_with_its_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _shown(monkeypatch, capsys, "protocols")
    assert all(_row(shown, id) for id in protocol_ids())
    row = _row(shown, "simultaneous")
    assert row[1] == "prompt, window, trainable, rounds" and row[2].startswith("Ask all seats")
