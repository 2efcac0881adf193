from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from pettingzoo import AECEnv, ParallelEnv

from opentinker.errors import ConfigError, ProtocolError
from opentinker.protocol import (
    ALL,
    CURRENT,
    END,
    EnvFacts,
    Protocol,
    Stage,
    WalkState,
    audience_over,
    predicate_names,
    register_predicate,
    register_predicate_family,
)
from opentinker.types import Message
from opentinker.walk import Predicate

CASES = json.loads((Path(__file__).parent / "cases" / "protocols.json").read_text())
ACCEPT = {case["name"]: case for case in CASES["accept"]}
TWO = ("player_0", "player_1")
GAME = EnvFacts(TWO, turn_based=True)


def from_case(case: dict[str, Any], seats: tuple[str, ...]) -> Protocol:
    stages = [
        Stage(name, tuple(each["seats"]), each["kind"], max_visits=each.get("max_visits"))
        for name, each in case["stages"].items()
    ]
    return Protocol.of(case["name"], seats, stages, case["edges"])


def moving(*edges: tuple[Any, ...], seats: tuple[str, ...] = TWO, **stages: Stage) -> Protocol:
    """A protocol of stages a, b, ... that each ask `@current` to move, unless said otherwise."""
    names = sorted({name for edge in edges for name in edge[:2]} - {END})
    given = [stages.get(name, Stage(name, (CURRENT,), "move")) for name in names]
    return Protocol.of("test", seats, given, edges)


def walk(protocol: Protocol, state: WalkState, limit: int = 50) -> list[Stage]:
    """The stages that a walker would pass through, in which nothing happens but the visits."""
    passed = []
    name = protocol.start
    while name != END and len(passed) < limit:
        state.visits[name] = state.visits.get(name, 0) + 1
        passed.append(protocol.stage(name))
        name = protocol.next(name, state)
    return passed


@pytest.mark.parametrize("case", CASES["refuse"], ids=lambda case: case["name"])
def test_a_graph_that_can_not_be_walked_is_refused(case: dict[str, Any]) -> None:
    seats = tuple(case.get("env_seats", TWO))
    facts = EnvFacts(seats, turn_based=True, kind=case.get("env_kind", "game"))
    with pytest.raises(ProtocolError) as caught:
        from_case(case, seats).check(facts)
    assert str(caught.value).startswith(case["error"].removesuffix("..."))


def test_an_unknown_predicate_is_told_with_the_known_and_the_nearest() -> None:
    with pytest.raises(ProtocolError, match=r"'env_don' on edge a -> END; known: .*'env_done'\?"):
        moving(("a", "a", "*"), ("a", END, "env_don")).check(GAME)


@pytest.mark.parametrize("asked", [(ALL,), TWO, (CURRENT, "player_1")])
def test_several_moves_at_once_do_not_fit_a_turn_based_env(asked: tuple[str, ...]) -> None:
    protocol = moving(("a", "a", "*"), a=Stage("a", asked, "move"))
    with pytest.raises(ProtocolError, match=r"the env is turn-based .*; use follow_env"):
        protocol.check(GAME)
    protocol.check(EnvFacts(TWO, turn_based=False))


def test_several_seats_may_speak_at_once_in_a_turn_based_env() -> None:
    talk = Stage("a", (ALL,), "speak")
    moving(("a", "b", "*"), ("b", "a", "*"), a=talk).check(GAME)


def test_an_unknown_seat_in_the_audience_is_refused() -> None:
    audience = nx.DiGraph([("player_0", "zed")])
    stages = [Stage("a", (CURRENT,), "move")]
    protocol = Protocol.of("p", TWO, stages, [("a", "a", "*")], audience=audience)
    with pytest.raises(ProtocolError, match="unknown seat 'zed' in the audience of protocol 'p'"):
        protocol.check(GAME)


def test_a_protocol_built_for_other_seats_is_refused() -> None:
    with pytest.raises(ProtocolError, match="built for seats black, white; the env has player_0, "):
        moving(("a", "a", "*"), seats=("black", "white")).check(GAME)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Stage("a", (CURRENT,), "shout"), "kind 'shout'; allowed: move, speak"),  # type: ignore[arg-type]
        (Stage("a", (), "move"), "stage 'a' asks no seats"),
        (Stage("a", (CURRENT,), "move", max_visits=0), "max_visits 0; it must be 1 or more"),
        (Stage("a", (CURRENT,), "move", window=-1), "window -1; it must be 0 or more"),
        (Stage("a", ("player_9",), "move"), r"unknown seat 'player_9' .*did you mean 'player_\d'"),
    ],
)
def test_a_stage_that_makes_no_sense_is_refused(stage: Stage, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        moving(("a", "a", "*"), a=stage).check(GAME)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("a", "zz", "*")], "edge a -> zz names an unknown stage 'zz'; the stages are a"),
        ([("a", "a", "*"), ("zz", "a", "*")], "edge zz -> a names an unknown stage 'zz'"),
        ([("a", "a", "*"), (END, "a", "*")], "edge END -> a leaves END"),
        ([("a", "a")], "is not"),
    ],
)
def test_an_edge_that_leads_nowhere_is_refused(edges: list[Any], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        Protocol.of("p", TWO, [Stage("a", (CURRENT,), "move")], edges).check(GAME)


def test_stages_must_be_there_once_and_have_a_known_start() -> None:
    stage = Stage("a", (CURRENT,), "move")
    loop = [("a", "a", "*")]
    with pytest.raises(ProtocolError, match="unknown start stage 'b'; the stages are a"):
        Protocol.of("p", TWO, [stage], loop, start="b").check(GAME)
    with pytest.raises(ProtocolError, match="two stages are named 'a'"):
        Protocol.of("p", TWO, [stage, stage], loop)
    with pytest.raises(ProtocolError, match="protocol 'p' has no stages"):
        Protocol.of("p", TWO, [], loop)
    with pytest.raises(ProtocolError, match="a stage can't be named END"):
        Protocol.of("p", TWO, [Stage(END, (CURRENT,), "move")], [(END, END, "*")]).check(GAME)


SPEAK_A, SPEAK_B = (Stage(name, (seat,), "speak") for name, seat in zip("ab", TWO, strict=True))
TALK = [("a", "b", "*"), ("b", "a", "*")]


@pytest.mark.parametrize(
    "more",
    [
        [("a", "m", "answer_illegal"), ("m", "a", "*")],
        [("b", "m", "always"), ("m", END, "*")],
        [("a", END, "answer_illegal"), ("b", "m", "always"), ("m", "m", "*")],
    ],
)
def test_talk_with_a_way_out_is_accepted(more: list[Any]) -> None:
    moving(*TALK, *more, a=SPEAK_A, b=SPEAK_B).check(GAME)


def test_talk_with_a_budget_is_accepted() -> None:
    once = Stage("b", ("player_1",), "speak", max_visits=1)
    conversation = EnvFacts(TWO, turn_based=False, kind="conversation")
    moving(*TALK, a=SPEAK_A, b=once).check(conversation)


def test_a_way_out_that_a_budget_closes_is_none() -> None:
    """m can be entered once: after that a and b talk for ever."""
    move = Stage("m", (CURRENT,), "move", max_visits=1)
    edges = [*TALK, ("a", "m", "answer_illegal"), ("m", "a", "*")]
    with pytest.raises(ProtocolError, match="the cycle a -> b -> a never moves"):
        moving(*edges, a=SPEAK_A, b=SPEAK_B, m=move).check(GAME)


def test_talk_can_not_wait_for_the_env_to_end() -> None:
    conversation = EnvFacts(TWO, turn_based=False, kind="conversation")
    with pytest.raises(ProtocolError, match="the cycle a -> b -> a never moves"):
        moving(*TALK, ("a", END, "env_done"), a=SPEAK_A, b=SPEAK_B).check(conversation)


def test_a_conversation_need_not_move() -> None:
    protocol = moving(("a", END, "*"), a=SPEAK_A)
    protocol.check(EnvFacts(TWO, turn_based=False, kind="conversation"))


def test_a_debate_of_two_with_a_judge_is_walked_in_order() -> None:
    case = ACCEPT["debate of two with a judge, one rebuttal"]
    seats: tuple[str, ...] = ("pro", "con", "judge")
    protocol = from_case(case, seats)
    protocol.check(EnvFacts(seats, turn_based=False, kind="conversation"))
    state = WalkState(current=seats)
    asked = [list(protocol.asked(stage, seats, seats)) for stage in walk(protocol, state)]
    assert asked == case["turns"]


def test_what_was_heard_before_each_stage_of_the_debate_is_as_known() -> None:
    case = ACCEPT["debate of two with a judge, one rebuttal"]
    seats: tuple[str, ...] = ("pro", "con", "judge")
    protocol = from_case(case, seats)
    heard: dict[str, int] = dict.fromkeys(seats, 0)
    for stage in walk(protocol, WalkState(current=seats)):
        asked = protocol.asked(stage, seats, seats)
        assert {seat: heard[seat] for seat in asked} == case["heard"][stage.name]
        for speaker in asked:
            for hearer in protocol.hears(speaker):
                heard[hearer] += 1


def test_propose_critique_revise_twice_is_walked_in_order() -> None:
    case = ACCEPT["propose, critique, revise twice"]
    seats = ("proposer", "critic", "reviser")
    protocol = Protocol.of(
        "chain",
        seats,
        [
            Stage("propose", ("proposer",), "move"),
            Stage("critique", ("critic",), "move", max_visits=2),
            Stage("revise", ("reviser",), "move"),
        ],
        [("propose", "critique", "*"), ("critique", "revise", "*"), ("revise", "critique", "*")],
    )
    protocol.check(EnvFacts(seats, turn_based=False, kind="conversation"))
    stages = walk(protocol, WalkState(current=seats))
    assert [list(protocol.asked(stage, seats, seats)) for stage in stages] == case["turns"]


def test_in_a_small_world_each_seat_hears_its_four_neighbours() -> None:
    case = ACCEPT["small world of 8 seats, degree 4, one gossip round"]
    seats = tuple(f"player_{number}" for number in range(8))
    graph = nx.watts_strogatz_graph(8, 4, 0)
    protocol = Protocol.of(
        "gossip",
        seats,
        [Stage("talk", (ALL,), "speak"), Stage("move", (ALL,), "move")],
        [("talk", "move", "*"), ("move", END, "*")],
        audience=audience_over(seats, graph),
    )
    protocol.check(EnvFacts(seats, turn_based=False))
    heard = {seat: {one for one in seats if seat in protocol.hears(one)} for seat in seats}
    assert {len(each) for each in heard.values()} == {case["heard_in_second_round"]}
    assert heard["player_0"] == {"player_1", "player_2", "player_6", "player_7"}


def test_without_an_audience_graph_everybody_hears_everybody_else() -> None:
    protocol = moving(("a", "a", "*"), seats=("a", "b", "c"))
    assert protocol.hears("b") == {"a", "c"}


def test_hearing_goes_one_way_and_never_to_oneself() -> None:
    audience = nx.DiGraph([("player_0", "player_1"), ("player_0", "player_0")])
    stages = [Stage("a", (CURRENT,), "move")]
    protocol = Protocol.of("p", TWO, stages, [("a", "a", "*")], audience=audience)
    assert protocol.hears("player_0") == {"player_1"}
    assert protocol.hears("player_1") == frozenset()


def test_an_audience_graph_of_another_size_is_refused() -> None:
    with pytest.raises(ProtocolError, match="has 3 nodes for 2 seats: player_0, player_1"):
        audience_over(TWO, nx.path_graph(3))


def test_conditional_edges_are_asked_by_priority_and_the_default_edge_last() -> None:
    edges = [
        ("a", "d", "*", 0),
        ("a", "b", "answer_illegal", 2),
        ("a", "c", "when:always", 1),
        *((name, END, "*") for name in "bcd"),
    ]
    illegal = WalkState(last_legal=False)
    assert moving(*edges).next("a", illegal) == "c"
    edges[2] = ("a", "c", "when:always", 3)
    assert moving(*edges).next("a", illegal) == "b"
    assert moving(*edges).next("a", WalkState()) == "c"
    del edges[2:4]
    assert moving(*edges[:2], ("b", END, "*"), ("d", END, "*")).next("a", WalkState()) == "d"


def test_an_edge_into_a_stage_whose_visits_are_used_up_is_closed() -> None:
    once = Stage("b", (CURRENT,), "move", max_visits=1)
    protocol = moving(("a", "b", "always"), ("a", "a", "*"), ("b", "a", "*"), b=once)
    assert protocol.next("a", WalkState(visits={"a": 1})) == "b"
    assert protocol.next("a", WalkState(visits={"a": 2, "b": 1})) == "a"


def test_the_walk_ends_when_even_the_default_edge_is_closed() -> None:
    thrice = Stage("a", (CURRENT,), "move", max_visits=3)
    assert len(walk(moving(("a", "a", "*"), a=thrice), WalkState())) == 3


def test_a_loop_ends_with_the_env() -> None:
    assert moving(("a", "a", "*")).next("a", WalkState(env_done=True)) == END


def test_after_the_env_ended_an_edge_that_asks_leads_to_words_but_never_to_a_move() -> None:
    last = Stage("b", (ALL,), "speak")
    edges = [("a", "b", "env_done"), ("a", "a", "*"), ("b", END, "*")]
    assert moving(*edges, b=last).next("a", WalkState(env_done=True)) == "b"
    assert moving(*edges).next("a", WalkState(env_done=True)) == END


def test_who_is_asked_is_whoever_the_env_selects_all_or_those_named() -> None:
    protocol = moving(("a", "a", "*"))
    current, agents = ("player_1",), TWO
    assert protocol.asked(Stage("a", (CURRENT,), "move"), current, agents) == ("player_1",)
    assert protocol.asked(Stage("a", (ALL,), "speak"), current, agents) == TWO
    named = Stage("a", ("player_1", "player_0", CURRENT), "speak")
    assert protocol.asked(named, current, agents) == ("player_1", "player_0")


def test_finished_seats_are_not_asked() -> None:
    protocol = moving(("a", "a", "*"))
    left = ("player_1",)
    assert protocol.asked(Stage("a", (ALL,), "move"), left, left) == left
    assert protocol.asked(Stage("a", ("player_0",), "move"), left, left) == ()
    assert protocol.asked(Stage("a", (CURRENT,), "move"), ("player_0",), left) == ()


def test_a_move_for_a_seat_that_the_env_does_not_select_names_both() -> None:
    with pytest.raises(
        ProtocolError, match="asks 'player_0' to move, but the env selects 'player_1'"
    ):
        moving(("a", "a", "*")).asked(Stage("a", ("player_0",), "move"), ("player_1",), TWO)


def test_a_registered_predicate_is_asked_with_the_state() -> None:
    register_predicate("ten_turns", ten_turns)
    register_predicate("ten_turns", ten_turns)
    assert "ten_turns" in predicate_names()
    protocol = moving(("a", "b", "ten_turns"), ("a", "a", "*"), ("b", END, "*"))
    protocol.check(GAME)
    assert [protocol.next("a", WalkState(turns=turns)) for turns in (9, 10)] == ["a", "b"]


def ten_turns(state: WalkState) -> bool:
    return state.turns >= 10


def test_a_predicate_is_not_replaced_by_another_and_has_a_name_of_its_own() -> None:
    with pytest.raises(ProtocolError, match="'env_done' is registered already"):
        register_predicate("env_done", ten_turns)
    with pytest.raises(ProtocolError, match=r"can't be named '\*'"):
        register_predicate("*", ten_turns)


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        ("You, [Player_1]!", True),
        (" player_1 ", True),
        ("[player_0] or [player_1]", False),
        ("player_1 speaks", False),
        ("", False),
    ],
)
def test_a_seat_is_named_by_the_first_tag_of_the_newest_message(words: str, holds: bool) -> None:
    said = [Message("player_0", text, frozenset(), "a") for text in ("[player_1]", words)]
    protocol = moving(("a", "b", "named(player_1)"), ("a", "a", "*"), ("b", END, "*"))
    protocol.check(GAME)
    assert protocol.next("a", WalkState(messages=said)) == ("b" if holds else "a")
    assert protocol.next("a", WalkState()) == "a"


def turns_of(count: str) -> Predicate:
    return lambda state: state.turns >= int(count)


def test_a_family_of_predicates_takes_what_stands_in_its_brackets() -> None:
    register_predicate_family("turns_of", turns_of)
    register_predicate_family("turns_of", turns_of)
    assert "turns_of(...)" in predicate_names()
    protocol = moving(("a", "b", "turns_of(3)"), ("a", "a", "*"), ("b", END, "*"))
    again = Protocol.from_json(protocol.to_json())
    assert [again.next("a", WalkState(turns=turns)) for turns in (2, 3)] == ["a", "b"]
    with pytest.raises(ProtocolError, match=r"unknown predicate 'turn_of\(3\)' .*did you mean"):
        moving(("a", END, "turn_of(3)"), ("a", "a", "*")).check(GAME)
    with pytest.raises(ProtocolError, match="registered already"):
        register_predicate_family("named", turns_of)
    with pytest.raises(ProtocolError, match="can't be named"):
        register_predicate_family("a(b", turns_of)


def gossip() -> Protocol:
    """A protocol that uses every part of the format."""
    seats = ("ann", "ben", "cy")
    talk = Stage("talk", ("ann", "cy"), "speak", 'Say "hi"', 2, trainable=False, max_visits=3)
    return Protocol.of(
        "gossip",
        seats,
        [Stage("move", (CURRENT,), "move"), talk],
        [
            ("talk", "talk", "answer_illegal"),
            ("talk", "move", "*"),
            ("move", "talk", "*"),
            ("move", END, "when:env_done", 7),
        ],
        start="talk",
        audience=audience_over(seats, nx.path_graph(3)),
    )


def test_json_goes_round_and_keeps_everything() -> None:
    protocol = gossip()
    again = Protocol.from_json(protocol.to_json())
    assert again.to_json() == protocol.to_json()
    assert (again.name, again.seats, again.start) == ("gossip", ("ann", "ben", "cy"), "talk")
    assert again.stages == protocol.stages
    assert set(again.flow.edges) == set(protocol.flow.edges)
    assert [again.hears(seat) for seat in again.seats] == [{"ben"}, {"ann", "cy"}, {"ben"}]


def test_json_keeps_that_there_is_no_audience_graph() -> None:
    again = Protocol.from_json(moving(("a", "a", "*")).to_json())
    assert again.audience is None
    assert again.hears("player_0") == {"player_1"}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"name": "p"}', '{"stages": [{"seats": [], "x": 1}]}']
)
def test_text_that_is_no_protocol_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="this is not a protocol's JSON"):
        Protocol.from_json(text)


def test_a_protocol_that_has_been_walked_is_pickled() -> None:
    protocol = gossip()
    walk(protocol, WalkState())
    protocol.hears("ann")
    again = pickle.loads(pickle.dumps(protocol))
    assert again.to_json() == protocol.to_json()
    assert again.next("move", WalkState(visits={"talk": 3})) == END


def test_mermaid_and_dot_show_stages_edges_and_who_hears_whom() -> None:
    mermaid, dot = gossip().draw("mermaid"), gossip().draw("dot")
    assert "begin((start)) --> s1" in mermaid
    assert 's1["talk<br/>ann, cy<br/>speak · at most 3x · not trained"]' in mermaid
    assert 's1 -->|"answer_illegal"| s1' in mermaid
    assert "a0 -.-> a1" in mermaid
    assert "a0 -.-> a2" not in mermaid
    assert 'begin -> "talk";' in dot
    assert '"move" -> "END" [label="env_done"];' in dot
    assert '"seat ann" -> "seat ben";' in dot


def test_quotes_in_a_name_do_not_break_a_drawing() -> None:
    stage = Stage('a "b" <c>', (CURRENT,), "move")
    protocol = Protocol.of("p", TWO, [stage], [(stage.name, stage.name, "*")])
    assert 's0["a #quot;b#quot; #lt;c#gt;<br/>@current<br/>move"]' in protocol.draw()
    assert r'"a \"b\" <c>" -> "a \"b\" <c>";' in protocol.draw("dot")


def test_an_unknown_drawing_is_refused() -> None:
    with pytest.raises(ProtocolError, match="can't draw as 'svg'; allowed: mermaid, dot"):
        gossip().draw("svg")  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", [gossip(), moving(("a", "a", "*"))], ids=["both", "flow"])
def test_a_png_is_drawn(protocol: Protocol, tmp_path: Path) -> None:
    protocol.draw_png(tmp_path / "protocol.png")
    assert (tmp_path / "protocol.png").read_bytes().startswith(b"\x89PNG")


class Turns(AECEnv):
    metadata = {"kind": "game"}  # noqa: RUF012
    possible_agents = list(TWO)  # noqa: RUF012


class Talks(ParallelEnv):
    metadata = {"kind": "conversation"}  # noqa: RUF012
    possible_agents = list(TWO)  # noqa: RUF012


def test_the_facts_are_read_from_the_env() -> None:
    assert EnvFacts.of(Turns()) == EnvFacts(TWO, turn_based=True, kind="game")
    assert EnvFacts.of(Talks()) == EnvFacts(TWO, turn_based=False, kind="conversation")


def test_an_env_that_does_not_say_its_kind_is_a_game() -> None:
    env = Turns()
    env.metadata = {}
    assert EnvFacts.of(env).kind == "game"
    env.metadata = {"kind": "party"}
    with pytest.raises(ConfigError, match="is 'party'; allowed: game, conversation"):
        EnvFacts.of(env)


def test_what_is_no_env_is_refused() -> None:
    with pytest.raises(ConfigError, match="neither a PettingZoo AECEnv nor a ParallelEnv"):
        EnvFacts.of(Discrete(2))  # type: ignore[arg-type]


def test_a_turn_costs_the_walker_little() -> None:
    """The walker may take 60 microseconds a turn in all; the median of repeats shrugs off noise."""
    protocol = gossip()
    state = WalkState(current=("ann",))
    stage = protocol.stage("move")
    times = []
    for _ in range(21):
        begin = time.perf_counter()
        for _ in range(200):
            protocol.asked(stage, state.current, protocol.seats)
            protocol.hears("ann")
            protocol.next("move", state)
        times.append((time.perf_counter() - begin) / 200)
    assert np.median(times) < 20e-6
