"""The protocols of talk, each walked over an env that it fits: who is asked, and what is heard."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from opentinker.agent import Agent, Answer, View
from opentinker.errors import ConfigError, ProtocolError
from opentinker.protocol import END, EnvFacts, Protocol, WalkState
from opentinker.protocols import gossip
from opentinker.registry import make_env, make_protocol
from opentinker.rollout.seating import Table
from opentinker.rollout.walker import walk
from opentinker.rollout.worker import NoSampler
from opentinker.testing import check_protocol
from opentinker.types import Episode, EpisodeRequest

CASES = json.loads((Path(__file__).parents[1] / "cases" / "protocols.json").read_text())
ACCEPT = {case["name"]: case for case in CASES["accept"]}


class Speaker:
    """Says the next of its lines (the last for ever), and keeps what it was shown."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.seen: list[str] = []

    async def answer(self, view: View, sampler: Any) -> Answer:
        self.seen.append(view.prompt)
        return Answer(self.lines.pop(0) if len(self.lines) > 1 else self.lines[0])


def play(env: Any, protocol: Protocol, agents: Mapping[str, Agent], options: Any = None) -> Episode:
    protocol.check(EnvFacts.of(env))
    table = Table(env)
    request = EpisodeRequest("1", "1", 7, dict.fromkeys(table.seats, "x"), options)
    return asyncio.run(walk(table, protocol, agents, request, NoSampler()))


def asked(episode: Episode) -> list[tuple[str, str]]:
    return [(turn.stage, turn.seat) for turn in episode.turns]


def heard(seen: str, speakers: Sequence[str]) -> int:
    """How many messages of others stand in what a seat was shown."""
    return sum(line.startswith(tuple(f"{name}:" for name in speakers)) for line in seen.split("\n"))


def debaters(count: int, **options: Any) -> tuple[Any, dict[str, Speaker]]:
    env: Any = make_env("debate_v0", debaters=count, **options)
    agents = {seat: Speaker(f"I am {seat}.") for seat in env.possible_agents}
    for seat in ("judge",) if "judge" in agents else tuple(agents):
        agents[seat].lines = ["[red]"]
    return env, agents


def test_a_debate_before_a_judge_is_walked_as_the_case_says() -> None:
    case = ACCEPT["debate of two with a judge, one rebuttal"]
    env, agents = debaters(2)
    seats = dict(zip(("pro", "con", "judge"), env.possible_agents, strict=True))
    episode = play(env, make_protocol("debate", tuple(env.possible_agents)), agents)
    turns = [seats[name] for group in case["turns"] for name in group]
    assert [seat for _, seat in asked(episode)] == turns
    assert episode.outcome == "finished"
    for number, stage in enumerate(("opening", "rebuttal", "verdict")):
        for name, count in case["heard"][stage].items():
            seen = agents[seats[name]].seen
            assert heard(seen[-1 if stage == "verdict" else number], env.possible_agents) == count


def test_what_debaters_quote_in_their_turn_reaches_the_judge() -> None:
    env, agents = debaters(2)
    agents["debater_1"].lines = ["See [2]."]
    play(env, make_protocol("debate", tuple(env.possible_agents), order="turns"), agents)
    assert "debater_1: See [2]." in agents["judge"].seen[0]
    assert f"Fact 2: {env.evidence[1]}." in agents["judge"].seen[0]


def test_in_turns_each_hears_those_before_it() -> None:
    env, agents = debaters(3)
    protocol = make_protocol("debate", tuple(env.possible_agents), order="turns", rounds=2)
    episode = play(env, protocol, agents)
    order = ["debater_0", "debater_1", "debater_2"] * 3 + ["judge"]
    assert [seat for _, seat in asked(episode)] == order
    counts = [[heard(seen, order) for seen in agents[f"debater_{k}"].seen] for k in range(3)]
    assert counts == [[0, 2, 2], [1, 2, 2], [2, 2, 2]]
    assert heard(agents["judge"].seen[0], order) == 9


def test_without_a_judge_the_debaters_talk_and_then_vote() -> None:
    env, agents = debaters(5, judge=False)
    protocol = make_protocol("debate", tuple(env.possible_agents))
    assert {stage.name: stage.kind for stage in protocol.stages.values()} == {
        "opening": "speak",
        "rebuttal": "speak",
        "verdict": "move",
    }
    episode = play(env, protocol, agents)
    assert len(episode.turns) == 15 and episode.outcome == "finished"
    assert set(episode.returns.values()) == {float(env.answer == "red")}


def test_no_rebuttal_and_prompts_of_ones_own() -> None:
    env, agents = debaters(2)
    prompts = {"opening": "{seat} speaks. {observation}", "verdict": ""}
    protocol = make_protocol("debate", tuple(env.possible_agents), rounds=0, prompts=prompts)
    episode = play(env, protocol, agents)
    assert [stage for stage, _ in asked(episode)] == ["opening", "opening", "verdict"]
    assert agents["debater_1"].seen[0].startswith("debater_1 speaks. Of 3 balls")
    assert agents["judge"].seen[0].startswith("debater_0: I am debater_0.\ndebater_1: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge": "jugde"}, "did you mean 'judge'"),
        ({"debaters": ["judge"]}, "'judge'; allowed: 'debater_0', 'debater_1'"),
        ({"debaters": []}, "at least 1 different"),
        ({"rounds": -1}, "rounds is -1"),
        ({"order": "random"}, "order is 'random'"),
        ({"speeches": "shout"}, "speeches is 'shout'"),
        ({"prompts": {"closing": "x"}}, "'closing'; allowed: 'opening'"),
    ],
)
def test_options_that_make_no_debate_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_protocol("debate", ("debater_0", "debater_1", "judge"), **options)


FITS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("debate", "debate_v0", {}, {}),
    ("debate", "debate_v0", {"order": "turns", "rounds": 3}, {"debaters": 5}),
    ("debate", "debate_v0", {}, {"debaters": 5, "judge": False}),
    ("debate", "hidden_profile_v0", {"speeches": "speak"}, {}),
    ("debate", "hidden_profile_v0", {"judge": "player_0"}, {"decide": "captain"}),
    ("chain", "arithmetic_v0", {"rounds": 2}, {}),
    ("chain", "hidden_profile_v0", {"reviser": "player_0"}, {"decide": "captain"}),
    ("chain", "kuhn_poker_v0", {"reviser": "@current"}, {}),
    ("mixture_of_agents", "hidden_profile_v0", {"layers": 2}, {"decide": "captain"}),
    ("mixture_of_agents", "arithmetic_v0", {"layers": 2}, {}),
    ("mixture_of_agents", "gomoku_v0", {"aggregator": "@current"}, {"size": 3, "line": 3}),
    ("team_talk", "hidden_profile_v0", {}, {}),
    ("team_talk", "hidden_profile_v0", {"captain": "player_0"}, {"decide": "captain"}),
    ("team_talk", "tictactoe_v3", {"teams": [["player_1"], ["player_2"]]}, {}),
    *(
        ("gossip", "hidden_profile_v0", {"topology": topology, "probability": 0.4}, {"players": 8})
        for topology in ("complete", "ring", "star", "tree", "small_world", "random")
    ),
    ("gossip", "debate_v0", {"topology": "ring"}, {"debaters": 5, "judge": False}),
    ("vote", "hidden_profile_v0", {}, {}),
    ("vote", "kuhn_poker_v0", {}, {}),
    ("auction", "negotiation_v0", {}, {}),
    ("auction", "hidden_profile_v0", {"rounds": 5}, {}),
    ("cheap_talk", "public_goods_v0", {}, {}),
    ("cheap_talk", "negotiation_v0", {"order": "turns", "rounds": 2, "every": "game"}, {}),
    ("cheap_talk", "rps_v2", {}, {}),
    ("tool_loop", "arithmetic_v0", {}, {"tools": ["calculator"]}),
    ("tool_loop", "twenty_questions_v0", {}, {}),
    ("moderated", "hidden_profile_v0", {}, {}),
    ("moderated", "debate_v0", {"speeches": "move", "mover": "judge"}, {"debaters": 3}),
    ("moderated", "signalling_v0", {}, {"rounds": 2}),
]


@pytest.mark.parametrize(("name", "env", "options", "env_options"), FITS)
def test_it_checks_is_drawn_and_ends(
    name: str, env: str, options: dict[str, Any], env_options: dict[str, Any], tmp_path: Path
) -> None:
    from opentinker.agents.random import RandomAgent

    game: Any = make_env(env, **env_options)
    check_protocol(name, game, **options)
    protocol = make_protocol(name, tuple(game.possible_agents), **options)
    assert protocol.draw().startswith("flowchart") and protocol.draw("dot").startswith("digraph")
    protocol.draw_png(tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000
    for seed in range(5):
        agents = {seat: RandomAgent(seed) for seat in game.possible_agents}
        episode = play(game, Protocol.from_json(protocol.to_json()), agents)
        assert episode.outcome == "finished", episode.reason


def test_a_debate_does_not_fit_a_turn_based_game() -> None:
    with pytest.raises(ProtocolError, match="turn-based"):
        check_protocol("debate", "kuhn_poker_v0")


def hiring(decide: str = "vote", players: int = 3) -> tuple[Any, dict[str, Speaker]]:
    env: Any = make_env("hidden_profile_v0", decide=decide, players=players)
    return env, {seat: Speaker("[Anna]") for seat in env.possible_agents}


def test_a_chain_of_three_is_walked_as_the_case_says() -> None:
    seats = ("proposer", "critic", "reviser")
    protocol = make_protocol("chain", seats, rounds=2)
    protocol.check(EnvFacts(seats, turn_based=False, kind="conversation"))
    stages = list(protocol.stages.values())
    case = ACCEPT["propose, critique, revise twice"]
    assert [list(stage.seats) for stage in stages] == case["turns"]
    assert [stage.kind for stage in stages] == ["speak"] * 4 + ["move"]
    names = [stage.name for stage in stages]
    assert names == ["propose", "critique_1", "revise_1", "critique_2", "revise_2"]
    assert protocol.next("revise_2", WalkState()) == "propose"
    assert protocol.next("revise_2", WalkState(env_done=True)) == END


def test_one_seat_criticizes_itself() -> None:
    env: Any = make_env("arithmetic_v0")
    agent = Speaker("I think 5.", "Is it?", "[5]")
    options = {"question": "2 + 3?", "answer": 5}
    episode = play(env, make_protocol("chain", ("solver_0",)), {"solver_0": agent}, options)
    assert [stage for stage, _ in asked(episode)] == ["propose", "critique", "revise"]
    assert episode.returns == {"solver_0": 1.0}


def test_proposers_answer_in_layers_and_the_aggregator_hears_them_all() -> None:
    env, agents = hiring("captain")
    seats = tuple(env.possible_agents)
    episode = play(env, make_protocol("mixture_of_agents", seats, layers=2), agents)
    assert [seat for _, seat in asked(episode)] == ["player_1", "player_2"] * 2 + ["player_0"]
    assert [heard(seen, seats) for seen in agents["player_1"].seen] == [0, 1]
    assert heard(agents["player_0"].seen[0], seats) == 4


def test_teams_confer_unheard_by_each_other_before_each_move() -> None:
    env: Any = make_env("public_goods_v0", rounds=2)
    seats = tuple(env.possible_agents)
    agents = {seat: Speaker(f"{seat} [1]") for seat in seats}
    protocol = make_protocol("team_talk", seats, teams=[seats[:2], seats[2:]])
    episode = play(env, protocol, agents)
    assert [stage for stage, _ in asked(episode)] == (["confer"] * 4 + ["move"] * 4) * 2
    assert agents["player_0"].seen[1].startswith("player_1: player_1 [1]\n4 players")
    assert heard(agents["player_3"].seen[1], ("player_0", "player_1")) == 0


@pytest.mark.parametrize("teams", [[["player_0"]], [["player_0", "player_1"], ["player_1"]]])
def test_teams_that_are_no_parts_of_the_whole_are_refused(teams: list[list[str]]) -> None:
    with pytest.raises(ConfigError, match="stands once"):
        make_protocol("team_talk", ("player_0", "player_1"), teams=teams)


def test_in_a_small_world_of_eight_each_hears_four_in_the_second_round() -> None:
    case = ACCEPT["small world of 8 seats, degree 4, one gossip round"]
    env, agents = hiring(players=8)
    seats = tuple(env.possible_agents)
    options = {"topology": "small_world", "degree": 4, "probability": 0.0, "rounds": 2}
    play(env, make_protocol("gossip", seats, **options), agents)
    assert {heard(agents[seat].seen[1], seats) for seat in seats} == {case["heard_in_second_round"]}


@pytest.mark.parametrize(
    ("topology", "degrees"),
    [
        ("complete", [4, 4, 4, 4, 4]),
        ("ring", [2, 2, 2, 2, 2]),
        ("star", [1, 1, 1, 1, 4]),
        ("tree", [1, 1, 1, 2, 3]),
        ("none", [0, 0, 0, 0, 0]),
    ],
)
def test_networks_of_five(topology: str, degrees: list[int]) -> None:
    graph = gossip.network(topology, 5)
    assert sorted(degree for _, degree in graph.degree) == degrees


def test_networks_that_are_drawn_are_connected_and_follow_the_seed() -> None:
    for topology in ("small_world", "random"):
        for seed in range(20):
            one, two = (gossip.network(topology, 9, probability=0.3, seed=seed) for _ in "ab")
            assert nx.is_connected(one) and nx.utils.graphs_equal(one, two)
    assert gossip.network("small_world", 9, seed=3).number_of_edges() == 18  # 9 * 4 / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topology": "rings"}, "did you mean 'ring'"),
        ({"topology": "random", "probability": 0.0}, "no connected random network of 5"),
        ({"topology": "small_world", "degree": 6}, "degree is 6"),
        ({"probability": 1.5}, "probability is"),
    ],
)
def test_networks_that_can_not_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_protocol("gossip", tuple("abcde"), **options)


def test_votes_are_secret_until_all_have_voted() -> None:
    env, agents = hiring("captain")
    seats = tuple(env.possible_agents)
    episode = play(env, make_protocol("vote", seats, mover="player_0"), agents)
    assert [stage for stage, _ in asked(episode)] == ["ballot"] * 3 + ["move"]
    assert all(heard(agents[seat].seen[0], seats) == 0 for seat in seats)
    seen = agents["player_0"].seen[1]
    assert seen.startswith("The votes are:\nplayer_1: [Anna]\nplayer_2: [Anna]\nHire")


def test_the_highest_bidder_speaks_and_of_equals_the_first() -> None:
    env, agents = hiring()
    seats = tuple(env.possible_agents)
    lines = {
        "player_0": ["[2]", "none", "[4]", "Me.", "[Anna]"],
        "player_1": ["[7]", "Hear me!", "[5]", "Again.", "[0]", "[Anna]"],
        "player_2": ["I bid [3]", "5", "[0]", "[Anna]"],
    }
    for seat, said in lines.items():
        agents[seat].lines = said
    episode = play(env, make_protocol("auction", seats), agents)
    stages = [stage for stage, _ in asked(episode)]
    spoke = [name for name in stages if name.startswith("speak")]
    assert spoke == ["speak_player_1", "speak_player_1", "speak_player_0"]
    assert stages[-3:] == ["move"] * 3 and len(stages) == 3 * 4 + 3


def test_where_nobody_bids_the_talk_is_over() -> None:
    env, agents = hiring()
    episode = play(env, make_protocol("auction", tuple(env.possible_agents)), agents)
    assert [stage for stage, _ in asked(episode)] == ["bid"] * 3 + ["move"] * 3


def test_talk_is_cheap_and_comes_before_each_move_or_the_first() -> None:
    env: Any = make_env("public_goods_v0", players=2, rounds=2)
    seats = tuple(env.possible_agents)
    for every, stages in (("move", "ttmmttmm"), ("game", "ttmmmm")):
        agents = {seat: Speaker("[3]") for seat in seats}
        episode = play(env, make_protocol("cheap_talk", seats, every=every), agents)
        assert "".join(stage[0] for stage, _ in asked(episode)) == stages
        assert heard(agents["player_0"].seen[1], seats) == 1


def test_the_tool_loop_hears_results_and_then_asks_for_an_answer() -> None:
    env: Any = make_env("arithmetic_v0", tools=["calculator"], calls=5)
    agent = Speaker("<calculator>12 * 7</calculator>", "<calculator>84 + 1</calculator>", "[85]")
    options = {"question": "12 * 7 + 1?", "answer": 85}
    protocol = make_protocol("tool_loop", ("solver_0",), turns=2)
    episode = play(env, protocol, {"solver_0": agent}, options)
    assert [stage for stage, _ in asked(episode)] == ["work", "work", "answer"]
    assert "calculator: 12 * 7 -> 84" in agent.seen[1]
    assert agent.seen[2].endswith("No more tools now: give your answer.")
    assert episode.returns == {"solver_0": 1.0}


def test_the_moderator_picks_speakers_until_it_picks_nobody() -> None:
    env, agents = debaters(3)
    agents["judge"].lines = ["You, [debater_2]", "[debater_0]", "[nobody]", "[red]"]
    agents["debater_0"].lines = ["Look at [1]."]
    seats = tuple(env.possible_agents)
    protocol = make_protocol("moderated", seats, speeches="move", mover="judge")
    episode = play(env, protocol, agents)
    assert asked(episode) == [
        ("moderate", "judge"),
        ("speak_debater_2", "debater_2"),
        ("moderate", "judge"),
        ("speak_debater_0", "debater_0"),
        ("moderate", "judge"),
        ("move", "judge"),
    ]
    prompt = agents["judge"].seen[0]
    assert prompt.endswith("speaks next? [debater_0] [debater_1] [debater_2], or [nobody].")
    assert f"Fact 1: {env.evidence[0]}." in agents["judge"].seen[-1]
    assert episode.outcome == "finished"


def test_the_moderator_has_a_budget() -> None:
    env, agents = hiring()
    agents["player_0"].lines = ["[player_1]", "[player_2]", "[Anna]"]
    episode = play(env, make_protocol("moderated", tuple(env.possible_agents), turns=2), agents)
    assert [seat for _, seat in asked(episode)][:4] == [f"player_{k}" for k in (0, 1, 0, 2)]
    assert [stage for stage, _ in asked(episode)][4:] == ["move"] * 3


def test_a_moderator_needs_somebody_to_speak() -> None:
    with pytest.raises(ProtocolError, match="needs two seats"):
        make_protocol("moderated", ("solver_0",))


@pytest.mark.parametrize("name", ["chain", "mixture_of_agents", "team_talk", "gossip", "vote"])
def test_prompts_of_each_protocol_can_be_overridden(name: str) -> None:
    module = importlib.import_module(f"opentinker.protocols.{name}")
    prompts = {key: f"{key}: {{observation}}" for key in module.PROMPTS}
    protocol = make_protocol(name, ("a", "b"), prompts=prompts)
    assert {stage.prompt for stage in protocol.stages.values()} <= {*prompts.values()}
