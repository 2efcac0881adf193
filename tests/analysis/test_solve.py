from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from opentinker.analysis.solve import (
    AveragePolicy,
    best_response_value,
    exploitability,
    infostates,
    nash_conv,
    uniform,
    values,
)
from opentinker.game import Chance, Decision, Node, Table, Terminal

CASES = json.loads((Path(__file__).parents[1] / "cases" / "games.json").read_text())
KUHN = CASES["kuhn_poker"]
RPS = CASES["rock_paper_scissors"]
MOVES = ("rock", "paper", "scissors")


def ends(first: float) -> Terminal:
    return Terminal({"player_0": first, "player_1": -first})


def kuhn() -> Node:
    """Kuhn poker written out by hand; an infostate is the card and what was done so far."""

    def play(one: str, two: str) -> Node:
        sign = 1.0 if "JQK".index(one) > "JQK".index(two) else -1.0

        def facing_bet(seat: str, card: str, done: str, fold: float) -> Decision:
            return Decision(seat, card + done, {"fold": ends(fold), "call": ends(2 * sign)})

        after_check = Decision(
            "player_1",
            f"{two} check",
            {"check": ends(sign), "bet": facing_bet("player_0", one, " check bet", -1.0)},
        )
        after_bet = facing_bet("player_1", two, " bet", 1.0)
        return Decision("player_0", one, {"check": after_check, "bet": after_bet})

    return Chance(tuple((1 / 6, play(*deal)) for deal in itertools.permutations("JQK", 2)))


def kuhn_policy(bets: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The policy whose chance of the bold action (bet or call) at each infostate is `bets`."""
    policy = {}
    for name, state in infostates(kuhn()).items():
        passive, bold = state.actions
        policy[name] = {passive: 1 - bets[name], bold: bets[name]}
    return policy


def kuhn_nash(alpha: float) -> dict[str, dict[str, float]]:
    reply = KUHN["nash_player_1"]
    bold = {"J": alpha, "Q": 0.0, "K": 3 * alpha}
    bold |= {"J check bet": 0.0, "Q check bet": alpha + 1 / 3, "K check bet": 1.0}
    bold |= {f"{card} check": chance for card, chance in reply["bet_after_check"].items()}
    bold |= {f"{card} bet": chance for card, chance in reply["call_after_bet"].items()}
    return kuhn_policy(bold)


def rock_paper_scissors() -> Node:
    def end(one: int, two: int) -> Terminal:
        return ends((0.0, 1.0, -1.0)[(one - two) % 3])

    return Decision(
        "player_0",
        "first",
        {
            MOVES[one]: Decision(
                "player_1", "second", {MOVES[two]: end(one, two) for two in range(3)}
            )
            for one in range(3)
        },
    )


def test_kuhn_has_twelve_infostates() -> None:
    assert len(infostates(kuhn())) == KUHN["uniform_policy"]["infostates"] == 12


def test_uniform_kuhn_play_is_as_exploitable_as_known() -> None:
    play = uniform(kuhn())
    assert nash_conv(kuhn(), play) == pytest.approx(KUHN["uniform_policy"]["nash_conv"], abs=1e-12)
    known = KUHN["uniform_policy"]["exploitability"]
    assert exploitability(kuhn(), play) == pytest.approx(known, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3])
def test_each_member_of_the_nash_family_has_value_minus_an_18th_and_no_gap(alpha: float) -> None:
    play = kuhn_nash(alpha)
    assert exploitability(kuhn(), play) == pytest.approx(0.0, abs=1e-12)
    assert values(kuhn(), play)["player_0"] == pytest.approx(KUHN["game_value_player_0"], abs=1e-12)


def test_alpha_outside_the_family_is_exploitable() -> None:
    outside = kuhn_nash(0.0) | {"J": {"check": 0.5, "bet": 0.5}}
    assert exploitability(kuhn(), outside) > 0.01


def test_always_passive_kuhn_play_is_worth_nothing_to_both() -> None:
    play = kuhn_policy(dict.fromkeys(infostates(kuhn()), 0.0))
    known = KUHN["always_first_action_check_or_fold"]["value_player_0"]
    assert values(kuhn(), play) == pytest.approx({"player_0": known, "player_1": -known})


def test_weak_card_dependent_kuhn_play_is_exploitable_by_a_sixth() -> None:
    boldness = {"J": 0.25, "Q": 0.5, "K": 0.75}
    play = kuhn_policy({name: boldness[name[0]] for name in infostates(kuhn())})
    assert exploitability(kuhn(), play) == pytest.approx(1 / 6, abs=1e-4)


@pytest.mark.parametrize("case", RPS["cases"], ids=lambda case: case["player_1"])
def test_rock_paper_scissors_gaps_are_as_known(case: dict) -> None:
    plans = {"always rock": {"rock": 1.0}, "uniform": dict.fromkeys(MOVES, 1 / 3)}
    play = {"first": plans[case["player_0"]], "second": plans[case["player_1"]]}
    tree = rock_paper_scissors()
    assert nash_conv(tree, play) == pytest.approx(case["nash_conv"], abs=1e-12)
    assert exploitability(tree, play) == pytest.approx(case["exploitability"], abs=1e-12)


def test_the_best_answer_needs_no_policy_of_its_own_seat() -> None:
    rock = {"second": {"rock": 1.0}}
    assert best_response_value(rock_paper_scissors(), "player_0", rock) == 1.0


def test_the_best_answer_can_not_tell_decisions_of_one_infostate_apart() -> None:
    coin = Chance(
        (
            (
                0.6,
                Decision(
                    "a", "blind", {"heads": Terminal({"a": 1.0}), "tails": Terminal({"a": 0.0})}
                ),
            ),
            (
                0.4,
                Decision(
                    "a", "blind", {"heads": Terminal({"a": 0.0}), "tails": Terminal({"a": 1.0})}
                ),
            ),
        )
    )
    assert best_response_value(coin, "a", {}) == pytest.approx(0.6)


def test_a_seat_that_forgets_its_own_move_is_refused() -> None:
    def last(paid: float) -> Decision:
        return Decision("a", "forgot", {"on": Terminal({"a": paid})})

    tree = Decision("a", "first", {"left": last(0.0), "right": last(1.0)})
    with pytest.raises(ValueError, match="infostate 'forgot' stands for decisions that differ"):
        infostates(tree)


def test_an_infostate_of_two_seats_is_refused() -> None:
    then = Decision("b", "same", {"on": Terminal({"a": 0.0, "b": 0.0})})
    with pytest.raises(ValueError, match="infostate 'same' stands for decisions that differ"):
        infostates(Decision("a", "same", {"on": then}))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "no entry for infostate 'second' of 'player_1'"),
        ({"second": {"rock": 0.5, "paper": 0.4}}, "'second' is no distribution"),
        ({"second": {"rock": 1.5, "paper": -0.5}}, "'second' is no distribution"),
        ({"second": {"rock": float("nan")}}, "'second' is no distribution"),
        ({"second": {}}, "'second' is no distribution"),
        (
            {"second": {"well": 1.0}},
            "plays 'well' at infostate 'second'; the actions are rock, paper",
        ),
    ],
)
def test_a_policy_that_is_no_distribution_is_refused(entry: Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        values(rock_paper_scissors(), {"first": {"rock": 1.0}, **entry})


def test_an_average_counts_a_policy_only_where_its_own_seat_plays_to() -> None:
    """a goes left with 1 and 1/4; after left it goes on with 0 and 1: the weights are 1 and 1/4."""
    tail = Decision("a", "after left", {"on": Terminal({"a": 1.0}), "off": Terminal({"a": 0.0})})
    tree = Decision("a", "first", {"left": tail, "right": Terminal({"a": 0.0})})
    average = AveragePolicy(tree)
    average.add({"first": {"left": 1.0}, "after left": {"off": 1.0}})
    average.add({"first": {"left": 0.25, "right": 0.75}, "after left": {"on": 1.0}})
    assert average.policy() == {
        "first": {"left": pytest.approx(0.625), "right": pytest.approx(0.375)},
        "after left": {"on": pytest.approx(0.2), "off": pytest.approx(0.8)},
    }
    assert values(tree, average.policy())["a"] == pytest.approx((0.0 + 0.25) / 2)


def test_an_average_is_uniform_where_nobody_played_to() -> None:
    tail = Decision("a", "after left", {"on": Terminal({"a": 1.0}), "off": Terminal({"a": 0.0})})
    tree = Decision("a", "first", {"left": tail, "right": Terminal({"a": 0.0})})
    average = AveragePolicy(tree)
    average.add({"first": {"right": 1.0}, "after left": {"on": 1.0}})
    assert average.policy()["after left"] == {"on": 0.5, "off": 0.5}


def test_the_average_of_kuhn_equilibria_is_an_equilibrium() -> None:
    average = AveragePolicy(kuhn())
    average.add(kuhn_nash(0.0))
    average.add(kuhn_nash(1 / 3), weight=2.0)
    assert exploitability(kuhn(), average.policy()) == pytest.approx(0.0, abs=1e-12)
    assert average.policy()["J"]["bet"] == pytest.approx(2 / 9)


def test_a_saved_average_goes_on_as_if_it_had_not_stopped() -> None:
    whole, first, second = (AveragePolicy(kuhn()) for _ in range(3))
    for average in (whole, first):
        average.add(uniform(kuhn()))
    second.load(json.loads(json.dumps(first.state())))
    for average in (whole, second):
        average.add(kuhn_nash(0.2))
    assert second.policy() == whole.policy()


def test_an_average_of_another_game_is_refused() -> None:
    with pytest.raises(ValueError, match="other infostates"):
        AveragePolicy(kuhn()).load(AveragePolicy(rock_paper_scissors()).state())
