"""The protocols of talk, each walked over an env that it fits: who is asked, and what is heard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from opentinker.agent import Agent, Answer, View
from opentinker.errors import ConfigError, ProtocolError
from opentinker.protocol import EnvFacts, Protocol
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
