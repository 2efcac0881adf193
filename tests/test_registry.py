"""`opentinker.registry`: the ways to a name, also from outside the repository, and its errors."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pettingzoo
import pytest
from pettingzoo import AECEnv, ParallelEnv

from opentinker import registry
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.testing import check_env

HINT_GAME = Path(__file__).parents[1] / "experiments" / "custom_env" / "hint_game.py"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder outside the repository, on sys.path, with a user's env in it."""
    (tmp_path / "my_games.py").write_text(HINT_GAME.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    for collection in (registry._envs, registry._agents, registry._protocols):
        copied = replace(collection, registered=dict(collection.registered))
        monkeypatch.setattr(registry, f"_{collection.kind}s", copied)
    importlib.invalidate_caches()
    yield tmp_path
    pettingzoo.aec_registry.pop("opentinker/my_game-v0", None)
    pettingzoo.parallel_registry.pop("opentinker/my_game-v0", None)


def test_built_ins_are_listed_by_file_without_being_imported() -> None:
    names = ["connect_four_v3", "kuhn_poker_v0", "rps_v2", "tictactoe_v3"]
    assert set(names) <= set(registry.env_ids())
    assert {"random", "scripted", "tabular"} <= set(registry.agent_ids())
    assert "policy" not in registry.agent_ids()
    assert {"follow_env", "simultaneous", "single"} <= set(registry.protocol_ids())


def test_built_ins_are_made_by_name() -> None:
    assert isinstance(registry.make_env("kuhn_poker_v0"), AECEnv)
    assert isinstance(registry.make_env("rps_v2"), ParallelEnv)
    assert registry.make_protocol("follow_env", ("a", "b")).seats == ("a", "b")
    assert callable(registry.agent_factory("random"))


def test_an_env_outside_is_made_by_its_place(outside: Path) -> None:
    check_env("my_games:env")
    env: Any = registry.make_env("my_games:env", illegal="random")
    assert env.metadata["name"] == "hint_game"


def test_an_env_outside_is_registered_with_defaults(outside: Path) -> None:
    registry.register_env("my_game-v0", "my_games:env", illegal="retry(7), forfeit")
    assert "my_game-v0" in registry.env_ids()
    env: Any = registry.make_env("my_game-v0")
    assert env.rule.retries == 7
    other: Any = registry.make_env("my_game-v0", illegal="random")
    assert other.rule.then == "random"


def test_a_callable_can_be_registered(outside: Path) -> None:
    factory = registry.load_object("my_games:env")
    registry.register_env("my_game-v0", factory)
    assert isinstance(registry.make_env("my_game-v0"), AECEnv)


def test_an_entry_point_of_an_installed_package_is_a_name(outside: Path) -> None:
    info = outside / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[opentinker.envs]\nhints = my_games:env\n"
        "[opentinker.agents]\nparrot = my_games:parrot\n"
        "[opentinker.protocols]\nmine = opentinker.protocols.follow_env:build\n"
    )
    importlib.invalidate_caches()
    assert "hints" in registry.env_ids()
    check_env("hints")
    assert "parrot" in registry.agent_ids()
    assert registry.make_protocol("mine", ("a",)).name == "follow_env"


def test_what_is_registered_is_mirrored_in_pettingzoos_registry(outside: Path) -> None:
    registry.register_env("my_game-v0", "my_games:env")
    registry.register_env("my_game-v0", "my_games:env", illegal="random")
    made: Any = pettingzoo.make("aec", "opentinker/my_game-v0")
    assert made.rule.then == "random"
    assert isinstance(pettingzoo.make("aec", "opentinker/kuhn_poker_v0"), AECEnv)
    assert isinstance(pettingzoo.make("aec", "opentinker/kuhn_poker-v0"), AECEnv)
    assert isinstance(pettingzoo.make("parallel", "opentinker/rps_v2"), ParallelEnv)
    assert isinstance(pettingzoo.make("aec", "opentinker/rps_v2"), AECEnv)
    with pytest.raises(ConfigError, match="turn based"):
        pettingzoo.make("parallel", "opentinker/kuhn_poker_v0")


def test_agents_and_protocols_are_registered_the_same_way(outside: Path) -> None:
    registry.register_agent("rock", "opentinker.agents.scripted:make", lines=["[rock]"])
    agent = registry.agent_factory("rock")(seat="player_0", seed=0)
    assert type(agent).__name__ == "ScriptedAgent"
    registry.register_protocol("mine", "opentinker.protocols.follow_env:build", window=2)
    assert registry.make_protocol("mine", ("a", "b")).stage("move").window == 2


def test_a_registered_name_goes_before_a_built_in_one(outside: Path) -> None:
    registry.register_env("kuhn_poker_v0", "my_games:env")
    assert registry.make_env("kuhn_poker_v0").metadata["name"] == "hint_game"


def test_an_unknown_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown env .*did you mean 'kuhn_poker_v0'"):
        registry.make_env("kuhn_poker")
    with pytest.raises(UnknownNameError, match=r"did you mean 'random'"):
        registry.agent_factory("randon")
    with pytest.raises(UnknownNameError, match=r"did you mean 'follow_env'"):
        registry.make_protocol("follow", ("a",))


def test_a_typo_in_a_factory_is_an_error_with_the_names_of_its_module(outside: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'HintGame'\? known: HintGame, env"):
        registry.make_env("my_games:HintGam")


def test_a_missing_module_says_how_python_would_find_it(outside: Path) -> None:
    with pytest.raises(ConfigError, match=r"no module 'my_gamez' .*PYTHONPATH"):
        registry.make_env("my_gamez:env")
    (outside / "broken_game.py").write_text("import surely_not_installed\n")
    with pytest.raises(ConfigError, match=r"importing 'broken_game' .*surely_not_installed"):
        registry.make_env("broken_game:env")


def test_options_that_a_factory_does_not_take_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'kuhn_poker_v0'.*colour"):
        registry.make_env("kuhn_poker_v0", colour="red")
    with pytest.raises(ConfigError, match="windoe"):
        registry.make_protocol("follow_env", ("a",), windoe=1)


def test_what_is_no_env_or_no_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="gave a dict, not a PettingZoo"):
        registry.make_env("builtins:dict")
    with pytest.raises(ConfigError, match="not a Protocol"):
        registry.make_protocol("builtins:list", ("a",))


def test_a_name_that_could_be_taken_for_a_place_can_not_be_registered() -> None:
    for name in ("a:b", "a/b", ""):
        with pytest.raises(ConfigError, match="can't be registered"):
            registry.register_env(name, "my_games:env")
    with pytest.raises(ConfigError, match="neither a callable"):
        registry.register_env("fine", "my_games")


def test_a_found_factory_is_picklable() -> None:
    for name in ("kuhn_poker_v0", "pettingzoo/classic/tictactoe-v3"):
        factory = pickle.loads(pickle.dumps(registry._envs.find(name)))
        assert isinstance(factory(), AECEnv)


def _strict(*, size: int) -> None:
    raise AssertionError(size)


def _loose(**options: Any) -> Any:
    return _strict(**options)


def test_an_option_that_a_factory_hands_on_in_vain_is_told() -> None:
    with pytest.raises(ConfigError, match=r"can't be made with \{\}: .*'size'"):
        registry.call_factory("env", "mine", _loose)
