"""The public names, and the wheel that carries them."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opentinker
from opentinker import errors, types
from opentinker.agent import Answer, View
from opentinker.rollout.walker import Limits
from opentinker.rollout.worker import AgentSpec

ROOT = Path(__file__).parents[1]


def test_public_names_are_sorted_and_all_there() -> None:
    assert opentinker.__all__ == sorted(set(opentinker.__all__)) == dir(opentinker)
    names = [name for name in opentinker.__all__ if name != "__version__"]
    assert all(getattr(opentinker, name).__name__ == name for name in names)


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert opentinker.__version__ == project["version"]


VALUES: list[Any] = [
    types.PolicyVersion("alice", 3),
    types.AdapterSpec(8, 16.0, ("q_proj",)),
    types.SampleRequest("alice", (1, 2), types.SamplingParams(4, 0.5, 7), 3),
    types.Completion((1, 2), (-0.5, -0.25), 3, "length"),
    types.Message("a_0", "hello", frozenset({"b_0"}), "talk"),
    types.EpisodeRequest("1", "1", 0, {"a_0": "alice"}, {"deal": ["K", "J"]}),
    types.Episode(
        types.EpisodeRequest("1", "1", 0, {"a_0": "alice"}),
        "e",
        "p",
        (types.Turn(0, "move", "a_0", "alice", "see", "say", tokens=(1,), logprobs=(-0.5,)),),
        {"a_0": 1.0},
        "finished",
    ),
    types.UpdateReport("alice", 4, {"loss": 0.5}),
    View("a_0", "move", "prompt", "observation", ("go",)),
    Answer("[go]", "alice", types.Completion((1,), (-0.5,), 3, "stop"), (4, 5), True),
    Limits(3, 4.0, 5.0),
    AgentSpec("scripted", {"lines": ["x"]}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_that_cross_a_process_are_frozen_and_can_be_pickled(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)
    with pytest.raises((AttributeError, TypeError)):  # slotted: no field by mistake
        object.__setattr__(value, "no_such_field", 1)


def test_a_batch_of_arrays_can_be_pickled() -> None:
    ids = np.arange(6, dtype=np.int32).reshape(2, 3)
    lengths = np.array([3, 2], np.int32)
    trained = ids > 3
    floats = ids.astype(np.float32)
    batch = types.TrainBatch("alice", ids, lengths, trained, floats, floats, ids, floats)
    again = pickle.loads(pickle.dumps(batch))
    for field in dataclasses.fields(batch)[1:]:
        before, after = getattr(batch, field.name), getattr(again, field.name)
        assert before.dtype == after.dtype and (before == after).all()


ERRORS = [
    errors.OpenTinkerError("a"),
    errors.ConfigError("a"),
    errors.UnknownNameError("env", "khun", ["kuhn", "rps"], "a hint"),
    errors.ProtocolError("a"),
    errors.EnvironmentFault("a"),
    errors.ContextFull("a"),
    errors.RenderingError("a"),
    errors.EngineError("a"),
    errors.PublishError("a"),
    errors.LearningError("a"),
    errors.CheckpointError("a"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_cross_a_process_with_their_type_and_words(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert isinstance(again, errors.OpenTinkerError)


def test_every_error_is_in_the_tree_above() -> None:
    kinds = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)}
    assert {type(error) for error in ERRORS} == kinds
    tree = errors.__doc__ or ""
    assert all(kind.__name__ in tree for kind in kinds)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        opentinker.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_the_wheel_carries_the_three_folders_inside_the_package(tmp_path: Path) -> None:
    source = tmp_path / "source"  # built in a copy: what a `build/` left over would be packed too
    left_out = shutil.ignore_patterns(".*", "build", "runs", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, source, symlinks=True, ignore=left_out)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    [wheel] = tmp_path.glob("*.whl")
    place = tmp_path / "elsewhere"
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        archive.extractall(place)
    assert {name for name in tops if not name.endswith(".dist-info")} == {"opentinker"}
    packed = {str(p.relative_to(place)) for p in place.rglob("*.py")}
    sources = {str(p.relative_to(ROOT)) for p in (ROOT / "opentinker").rglob("*.py")}
    for folder in ("envs", "agents", "protocols"):  # rglob does not go through links
        paths = (ROOT / folder).rglob("*.py")
        sources |= {str("opentinker" / p.relative_to(ROOT)) for p in paths}
    assert packed == sources
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
