from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.experience import credit
from opentinker.types import Play

CASES = json.loads((Path(__file__).parents[1] / "cases" / "credit.json").read_text())


def play(
    total: float, *, group: str = "g", seat: str = "player_0", env: str = "e", turns: int = 1
) -> Play:
    rewards = np.zeros(turns)
    rewards[-1] = total
    return Play("episode", group, env, seat, "alice", rewards, ("move",) * turns)


def values(estimator_name: str, totals: list[float], **options: object) -> list[float]:
    found = credit.make(estimator_name, **options).advantages([play(total) for total in totals])
    return [float(each[0]) for each in found.advantages]


def test_group_relative_gives_the_advantages_worked_by_hand() -> None:
    case = CASES["group_relative"]
    assert values("group_relative", case["rewards"]) == pytest.approx(case["advantages"], abs=1e-12)


def test_group_relative_without_std_takes_off_the_mean_only() -> None:
    case = CASES["group_relative"]
    found = values("group_relative", case["rewards"], std=False)
    assert found == pytest.approx(case["advantages_mean_only"], abs=1e-12)


def test_leave_one_out_gives_the_advantages_worked_by_hand() -> None:
    case = CASES["leave_one_out"]
    assert values("leave_one_out", case["rewards"]) == pytest.approx(case["advantages"], abs=1e-12)


def test_role_baseline_gives_the_advantages_and_baselines_worked_by_hand() -> None:
    case = CASES["role_baseline"]
    estimator = credit.make("role_baseline", decay=case["decay"])
    rows = zip(
        case["seat_player_0_rewards"], case["advantages"], case["baseline_after"], strict=True
    )
    for reward, advantage, baseline in rows:
        found = estimator.advantages([play(reward)])
        assert found.advantages[0] == pytest.approx([advantage])
        assert found.metrics == {"baseline/e/player_0": pytest.approx(baseline)}


@pytest.mark.parametrize("name", ["group_relative", "leave_one_out"])
@pytest.mark.parametrize("totals", [CASES["group_constant"]["rewards"], [5.0], [0.3, 0.1 + 0.2]])
def test_a_group_of_one_or_of_equal_returns_teaches_nothing_and_is_counted(
    name: str, totals: list[float]
) -> None:
    found = credit.make(name).advantages([play(total) for total in totals])
    assert [each.tolist() for each in found.advantages] == [[0.0]] * len(totals)
    assert found.metrics == {"groups": 1, "constant_groups": 1}


@pytest.mark.parametrize("name", ["group_relative", "leave_one_out"])
def test_groups_never_mix_starts_or_seats(name: str) -> None:
    plays = [
        play(1.0, group="g"),
        play(9.0, group="h"),
        play(5.0, group="g", seat="player_1"),
        play(3.0, group="g"),
        play(9.0, group="h"),
    ]
    found = credit.make(name, **({"std": False} if name == "group_relative" else {}))
    credited = found.advantages(plays)
    scale = 1.0 if name == "group_relative" else 2.0
    assert [each[0] for each in credited.advantages] == [-scale, 0.0, 0.0, scale, 0.0]
    assert credited.metrics == {"groups": 3, "constant_groups": 2}


@pytest.mark.parametrize("name", ["group_relative", "leave_one_out", "role_baseline"])
def test_every_turn_of_a_play_gets_its_advantage(name: str) -> None:
    plays = [play(1.0, turns=3), play(-1.0, turns=1), play(0.5, turns=2)]
    found = credit.make(name).advantages(plays)
    assert [each.shape for each in found.advantages] == [(3,), (1,), (2,)]
    assert all(each.dtype == np.float64 for each in found.advantages)
    assert all(np.ptp(each) == 0 for each in found.advantages)


def test_another_seat_or_env_never_moves_a_baseline() -> None:
    estimator = credit.make("role_baseline")
    estimator.advantages([play(1.0), play(-7.0, seat="player_1"), play(70.0, env="other")])
    assert estimator.advantages([play(1.0)]).advantages[0] == pytest.approx([0.95])


def test_a_saved_baseline_goes_on_as_if_it_had_not_stopped() -> None:
    whole, first, second = (credit.make("role_baseline") for _ in range(3))
    past, now = [play(1.0), play(-1.0, seat="player_1")], [play(0.5), play(2.0, seat="player_1")]
    whole.advantages(past)
    first.advantages(past)
    second.load(json.loads(json.dumps(first.state())))
    assert second.advantages(now).metrics == whole.advantages(now).metrics
    assert second.state() == whole.state()


def test_no_plays_give_no_credit() -> None:
    for name in credit.names():
        assert credit.make(name).advantages([]).advantages == []


def test_an_estimator_is_known_by_its_file_name() -> None:
    assert credit.names() == [
        "gae",
        "global_norm",
        "group_relative",
        "leave_one_out",
        "return_to_go",
        "role_baseline",
        "turn_level",
    ]


def test_an_unknown_estimator_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        UnknownNameError,
        match=r"unknown credit estimator 'rol_baseline'; did you mean 'role_baseline'\?",
    ):
        credit.make("rol_baseline")


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'role_baseline' has no option 'gamma'; it has decay"):
        credit.make("role_baseline", gamma=0.9)
    with pytest.raises(ConfigError, match=r"decay is 1\.5; allowed"):
        credit.make("role_baseline", decay=1.5)


@pytest.mark.parametrize(
    ("name", "option", "value", "allowed"),
    [
        ("group_relative", "std", "no", "true or false"),
        ("group_relative", "std", 1, "true or false"),
        ("role_baseline", "decay", "0.9", "a number"),
        ("return_to_go", "gamma", True, "a number"),
        ("return_to_go", "gamma", None, "a number"),
    ],
)
def test_an_option_of_the_wrong_type_is_refused(
    name: str, option: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=f"'{name}': {option} is {value!r}; allowed: {allowed}"):
        credit.make(name, **{option: value})


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("turn_level", "gamma"),
        ("return_to_go", "gamma"),
        ("global_norm", "gamma"),
        ("gae", "gamma"),
        ("gae", "lam"),
    ],
)
@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_discount_outside_0_to_1_is_refused(name: str, option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"'{name}': {option} is {value}; allowed: 0 <= {option}"):
        credit.make(name, **{option: value})
    for edge in (0, 1):
        credit.make(name, **{option: edge})


def test_only_gae_needs_a_critic() -> None:
    assert [name for name in credit.names() if credit.make(name).needs_values] == ["gae"]


def test_estimators_without_memory_go_on_from_nothing() -> None:
    for name in {*credit.names()} - {"role_baseline", "return_to_go"}:
        estimator = credit.make(name)
        assert estimator.state() == {}
        estimator.load({})
