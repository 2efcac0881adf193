from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import opentinker
from opentinker.errors import ProtocolError
from opentinker.protocol import ALL, CURRENT, END, EnvFacts, Stage, WalkState
from opentinker.protocols import follow_env, simultaneous, single

TWO = ("player_0", "player_1")
TURN_BASED = EnvFacts(TWO, turn_based=True)
AT_ONCE = EnvFacts(TWO, turn_based=False)


def test_follow_env_asks_whoever_the_env_selects_until_it_ends() -> None:
    protocol = follow_env.build(TWO)
    protocol.check(TURN_BASED)
    stage = protocol.stage(protocol.start)
    assert protocol.asked(stage, ("player_1",), TWO) == ("player_1",)
    assert protocol.next("move", WalkState()) == "move"
    assert protocol.next("move", WalkState(env_done=True)) == END


def test_follow_env_fits_a_simultaneous_env_too() -> None:
    protocol = follow_env.build(TWO)
    protocol.check(AT_ONCE)
    assert protocol.asked(protocol.stage("move"), TWO, TWO) == TWO


def test_simultaneous_asks_all_at_once() -> None:
    protocol = simultaneous.build(TWO)
    protocol.check(AT_ONCE)
    assert protocol.asked(protocol.stage("round"), TWO, TWO) == TWO
    assert protocol.next("round", WalkState(visits={"round": 99})) == "round"


def test_simultaneous_over_a_turn_based_env_is_refused_and_follow_env_named() -> None:
    with pytest.raises(ProtocolError, match=r"turn-based .*use follow_env"):
        simultaneous.build(TWO).check(TURN_BASED)


def test_simultaneous_stops_after_its_rounds() -> None:
    protocol = simultaneous.build(TWO, rounds=2)
    assert protocol.next("round", WalkState(visits={"round": 1})) == "round"
    assert protocol.next("round", WalkState(visits={"round": 2})) == END


def test_single_asks_the_only_seat() -> None:
    protocol = single.build(("solver_0",), turns=3)
    protocol.check(EnvFacts(("solver_0",), turn_based=True))
    protocol.check(EnvFacts(("solver_0",), turn_based=False))
    assert protocol.asked(protocol.stage("answer"), ("solver_0",), ("solver_0",)) == ("solver_0",)
    assert protocol.next("answer", WalkState(visits={"answer": 3})) == END


@pytest.mark.parametrize("seats", [TWO, ()])
def test_single_over_several_seats_is_refused(seats: tuple[str, ...]) -> None:
    with pytest.raises(ProtocolError, match="'single' is for one seat, the env has"):
        single.build(seats)


@pytest.mark.parametrize(
    ("build", "stage"),
    [
        (follow_env.build, Stage("move", (CURRENT,), "move", "Your move.", 2, False)),
        (simultaneous.build, Stage("round", (ALL,), "move", "Your move.", 2, False)),
        (single.build, Stage("answer", ("a",), "move", "Your move.", 2, False)),
    ],
)
def test_options_reach_the_stage(build, stage: Stage) -> None:
    protocol = build(("a",), prompt="Your move.", window=2, trainable=False)
    assert list(protocol.stages.values()) == [stage]


README = (Path(opentinker.__path__[0]) / "protocols" / "README.md").read_text()


def test_the_readme_lists_every_protocol() -> None:
    files = {path.stem for path in (Path(opentinker.__path__[0]) / "protocols").glob("*.py")}
    assert set(re.findall(r"^\| `(\w+)`", README, flags=re.MULTILINE)) == files


def test_the_protocol_that_the_readme_adds_talks_at_most_four_times() -> None:
    lines = README.split("\n    from opentinker.protocol", 1)[1].split("\n\n- ", 1)[0]
    module: dict[str, Any] = {}
    exec(textwrap.dedent("    from opentinker.protocol" + lines), module)
    protocol = module["build"](TWO)
    protocol.check(TURN_BASED)
    state, passed, name = WalkState(), [], protocol.start
    for _ in range(10):
        state.visits[name] = state.visits.get(name, 0) + 1
        passed.append(name)
        name = protocol.next(name, state)
    assert passed == ["talk", "move"] * 4 + ["move"] * 2
