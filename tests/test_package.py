"""The public names, and the wheel that carries them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import opentinker

ROOT = Path(__file__).parents[1]


def test_public_names_are_sorted_and_all_there() -> None:
    assert opentinker.__all__ == sorted(opentinker.__all__)
    assert all(getattr(opentinker, name).__name__ == name for name in opentinker.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        opentinker.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_the_wheel_carries_the_three_folders_inside_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    [wheel] = tmp_path.glob("*.whl")
    place = tmp_path / "elsewhere"
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        archive.extractall(place)
    assert {name for name in tops if not name.endswith(".dist-info")} == {"opentinker"}
    code = "import opentinker.envs.kuhn_poker_v0 as m; print(m.__file__, m.env().possible_agents)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(place)},
        timeout=60,
    )
    assert done.stdout.startswith(str(place)), done.stderr
    assert "['player_0', 'player_1']" in done.stdout
