"""Random play of the whole catalogue: no env raises or hangs, and each pays what its game says.

200 episodes of each. Where that takes more than some seconds, `FEWER` says how many are played, and
games that random play does not end are cut by `max_turns` (OpenSpiel's) or end by their own limit.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from pettingzoo import ParallelEnv

from opentinker.errors import ConfigError
from opentinker.registry import env_ids, make_env
from opentinker.wrappers.families import FAMILIES
from opentinker.wrappers.textarena_games import SEATS

Answer = Callable[[Any, str, random.Random], str]

pytestmark = pytest.mark.slow

NAMES: Mapping[str, Callable[[], Any]] = {family.prefix: family.names for family in FAMILIES}
EPISODES = 200
FEWER: Mapping[str, tuple[int, str]] = {
    "chess_v6": (2, "6 s a game; tests/envs/test_boards.py plays 10"),
    "go_v5": (10, "tests/envs/test_boards.py plays 200"),
    "gymnasium/Acrobot-v1": (25, "80 ms a game, of 500 moves"),
    "openspiel/backgammon": (120, "16 ms a game"),
    "openspiel/battleship": (100, "22 ms a game"),
    "openspiel/bridge": (5, "290 ms a game, after seconds of double-dummy tables"),
    "openspiel/bridge_uncontested_bidding": (2, "2.9 s a game"),
    "openspiel/capture_the_flag": (40, "53 ms a game, of 560 moves"),
    "openspiel/chess": (40, "47 ms a game, of 320 moves"),
    "openspiel/chinese_checkers": (30, "66 ms a game, which random play does not end: 1000 moves"),
    "openspiel/crazyhouse": (20, "84 ms a game"),
    "openspiel/go": (20, "97 ms a game, of 630 moves"),
    "openspiel/gomoku": (100, "22 ms a game"),
    "openspiel/hive": (40, "49 ms a game"),
    "openspiel/kriegspiel": (50, "38 ms a game, of 515 moves"),
    "openspiel/laser_tag": (10, "159 ms a game, of 1000 moves"),
    "openspiel/mnk": (70, "28 ms a game"),
    "openspiel/shogi": (50, "38 ms a game, of 480 moves"),
    "openspiel/stones_and_gems": (100, "19 ms a game"),
    "openspiel/xiangqi": (80, "25 ms a game, of 400 moves"),
    "openspiel/y": (100, "19 ms a game"),
    "openspiel/yacht": (10, "230 ms a game"),
    "pettingzoo/classic/chess-v6": (2, "seconds a game"),
    "pettingzoo/classic/go-v5": (10, "100 ms a game and more"),
    "reasoning_gym/advanced_geometry": (100, "16 ms a question"),
    "reasoning_gym/countdown": (60, "34 ms a question"),
    "reasoning_gym/futoshiki": (20, "106 ms a question"),
    "reasoning_gym/game_of_life": (100, "17 ms a question"),
    "reasoning_gym/intermediate_integration": (4, "0.6 s a question"),
    "reasoning_gym/knight_swap": (3, "0.8 s a question"),
    "reasoning_gym/polynomial_equations": (50, "42 ms a question"),
    "reasoning_gym/puzzle24": (20, "109 ms a question"),
    "reasoning_gym/quantum_lock": (80, "28 ms a question"),
    "reasoning_gym/rearc": (20, "100 ms a question"),
    "reasoning_gym/sokoban": (100, "20 ms a question"),
    "reasoning_gym/sudoku": (80, "27 ms a question"),
    "reasoning_gym/zebra_puzzles": (8, "0.27 s a question"),
    "textarena/RushHour-v0": (10, "0.3 s to deal a puzzle"),
    "textarena/Sokoban-v0": (20, "0.15 s to deal a puzzle"),
}
"""Env -> how many episodes are played, and why not 200: times on one core."""
VARIANTS = 20
"""episodes of a variant of a game of TextArena, which differs in sizes only: there are 108"""
BOUND = 5000
"""moves that no episode may exceed"""
SAYINGS = ("Well.", "Yes, I think so.", "No.", "", "7", "[1]")

ZERO_SUM = (
    "chess_v6",
    "connect_four_v3",
    "go_v5",
    "gomoku_v0",
    "kuhn_poker_v0",
    "leduc_holdem_v4",
    "rps_v2",
    "texas_holdem_no_limit_v6",
    "texas_holdem_v4",
    "tictactoe_v3",
    *(f"pettingzoo/classic/{name}" for name in ("chess-v6", "connect_four-v3", "go-v5")),
    *(f"pettingzoo/classic/{name}" for name in ("leduc_holdem-v4", "texas_holdem-v4")),
    *(f"pettingzoo/classic/{name}" for name in ("texas_holdem_no_limit-v6", "tictactoe-v3")),
    "pettingzoo/classic/rps-v2",
)
ALIKE = ("hanabi_v5", "hidden_profile_v0", "signalling_v0", "pettingzoo/classic/hanabi-v5")
"""Games in which all seats are paid the same."""


def episodes(name: str) -> range:
    count, _ = FEWER.get(name, (EPISODES, ""))
    if name.startswith("textarena/") and name.removeprefix("textarena/") not in SEATS:
        count = VARIANTS
    return range(count)


def legal(env: Any, info: Mapping[str, Any], player: random.Random) -> str:
    """A random legal action, or a saying where any text is one."""
    return player.choice(info.get("legal_actions") or SAYINGS)


def heard(env: Any, seat: str, player: random.Random) -> str:
    """Something in brackets that the seat was shown, or one or two small numbers: often legal."""
    shown = re.findall(r"\[[^\[\]\n]{1,20}\]", env.observe(seat))
    if shown and player.random() < 0.6:
        return player.choice(shown)
    numbers = [str(player.randrange(10)) for _ in range(player.choice([1, 1, 2, 2, 3, 4]))]
    return f"[{' '.join(numbers)}]"


def play(env: Any, seed: int, answer: Callable[[str], str] | None = None) -> dict[str, float]:
    """What random play pays each seat, summed move by move; how it ended is in the env.

    In a turn-based env that sum must be what PettingZoo's `last()` tells the seats in all.
    """
    player = random.Random(seed)
    seen = env.reset(seed=seed)
    infos = seen[1] if seen else {}
    paid = dict.fromkeys(env.possible_agents, 0.0)
    if isinstance(env, ParallelEnv):
        for _ in range(BOUND):
            _, rewards, _, _, infos = env.step(
                {seat: legal(env, infos[seat], player) for seat in env.agents}
            )
            for seat, amount in rewards.items():
                paid[seat] += amount
            if not env.agents:
                return paid
        raise AssertionError(f"{env} did not end within {BOUND} moves (seed {seed})")
    told = dict.fromkeys(env.possible_agents, 0.0)
    for seat in env.agent_iter(BOUND):
        _, reward, ended, cut, info = env.last(observe=False)
        told[seat] += reward
        if ended or cut:
            env.step(None)
            continue
        env.step(answer(seat) if answer else legal(env, info, player))
        for each, amount in env.rewards.items():
            paid[each] += amount
    assert not env.agents, f"{env} did not end within {BOUND} moves (seed {seed})"
    assert told == pytest.approx(paid, abs=1e-9)
    return paid


def holds(name: str, paid: Mapping[str, float]) -> bool:
    """What can be said of the returns without playing the game again."""
    if name in ZERO_SUM:
        return sum(paid.values()) == pytest.approx(0.0, abs=1e-9)
    return name not in ALIKE or len({round(amount, 9) for amount in paid.values()}) == 1


@pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision")  # PettingZoo's own poker
@pytest.mark.parametrize("name", [*env_ids(), *(f"pettingzoo/{n}" for n in NAMES["pettingzoo/"]())])
def test_ours_and_pettingzoos(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tasks.jsonl").write_text(json.dumps({"prompt": "Is 7 prime?", "answer": "yes"}))
    options = {"file": str(tmp_path / "tasks.jsonl")} if name == "tasks_v0" else {}
    env = make_env(name, **options)
    for seed in episodes(name):
        assert holds(name, play(env, seed)), seed


@pytest.mark.parametrize("name", [f"openspiel/{name}" for name in NAMES["openspiel/"]()])
def test_openspiels(name: str) -> None:
    env: Any = make_env(name, max_turns=1000)
    pays = env._game.get_type().reward_model
    for seed in episodes(name):
        paid = play(env, seed)
        ended = env._state.is_terminal()
        owed = env._state.returns() if ended or pays != pays.TERMINAL else [0.0] * len(paid)
        assert list(paid.values()) == pytest.approx(owed, abs=1e-9), seed


@pytest.mark.parametrize("name", [f"textarena/{id}" for id in NAMES["textarena/"]()])
def test_textarenas(name: str) -> None:
    env: Any = make_env(name)
    for seed in episodes(name):
        player = random.Random(seed)
        paid = play(env, seed, lambda seat, player=player: heard(env, seat, player))
        owed = (env._game.state.rewards or {}) if env._game.state.done else {}
        assert list(paid.values()) == [owed.get(k, 0.0) for k in range(len(paid))], seed


GYMNASIUM = ("Acrobot-v1", "CartPole-v1", "MountainCar-v0")
"""Those without a view of their own whose actions are numbers and that need no more packages."""
OLD = ("CartPole-v0",)
"""Those of them that Gymnasium itself warns of."""


@pytest.mark.parametrize("id", [*NAMES["gymnasium/"](), *GYMNASIUM])
def test_gymnasiums(id: str) -> None:
    """The same moves in Gymnasium's own env pay the same."""
    endless = {"max_episode_steps": 500} if id.startswith("CliffWalking") else {}
    env: Any = make_env(f"gymnasium/{id}", **endless)
    theirs = gymnasium.make(id, disable_env_checker=True, **endless)
    for seed in episodes(f"gymnasium/{id}"):
        player, moves = random.Random(seed), list[int]()

        def answer(seat: str, player: random.Random = player, moves: list[int] = moves) -> str:
            names = env._names()
            moves.append(names[said := player.choice([*names])])
            return said

        [paid] = play(env, seed, answer).values()
        theirs.reset(seed=seed)
        assert paid == pytest.approx(sum(float(theirs.step(move)[1]) for move in moves)), seed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of old versions
def test_every_other_gymnasium_env_is_refused_in_words() -> None:
    for id in gymnasium.registry.keys() - {*NAMES["gymnasium/"](), *GYMNASIUM, *OLD}:
        with pytest.raises(ConfigError):
            make_env(f"gymnasium/{id}")


@pytest.mark.parametrize("task", sorted(set(NAMES["reasoning_gym/"]()) - {"composite"}))
def test_reasoning_gyms(task: str) -> None:
    """One answer ends it; it pays the score, of 0 to 1, that the seat is told."""
    env: Any = make_env(f"reasoning_gym/{task}", size=EPISODES)
    for seed in episodes(f"reasoning_gym/{task}"):
        player = random.Random(seed)

        def answer(seat: str, player: random.Random = player) -> str:
            return player.choice([*SAYINGS, str(env._entry["answer"])])

        [paid] = play(env, seed, answer).values()
        assert 0.0 <= paid <= 1.0, seed
        assert env.observe("player_0").endswith(f"Your answer scores {paid:g}."), seed
