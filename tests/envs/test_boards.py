"""Chess and go: known games played out, both notations, rules that are easy to get wrong."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from opentinker.errors import ConfigError
from opentinker.registry import make_env
from opentinker.testing import check_env


def play(name: str, moves: str, **options: Any) -> Any:
    env: Any = make_env(name, **options)
    env.reset(seed=0)
    for move in moves.split():
        assert not any(env.terminations.values())
        env.step(f"[{move}]")
        assert env._read[next(iter(env.moves[-1]))]["legal"], move
    return env


def lost_by(env: Any, loser: str) -> bool:
    """The game is over, `loser` is paid -1 and the other 1."""
    won = next(seat for seat in env.possible_agents if seat != loser)
    return all(env.terminations.values()) and env.rewards == {loser: -1.0, won: 1.0}


@pytest.mark.parametrize("name", [pytest.param("chess_v6", marks=pytest.mark.slow), "go_v5"])
def test_the_board_games_keep_the_contract(name: str) -> None:
    check_env(name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "games"), [("chess_v6", 10), ("go_v5", 200)])
def test_random_games_end_and_pay_one_what_the_other_loses(name: str, games: int) -> None:
    env: Any = make_env(name)
    for seed in range(games):
        env.reset(seed=seed)
        player = random.Random(seed)
        paid = dict.fromkeys(env.possible_agents, 0.0)
        while not any(env.terminations.values()):
            env.step(f"[{player.choice(env.infos[env.agent_selection]['legal_actions'])}]")
            for seat, amount in env.rewards.items():
                paid[seat] += amount
        assert sorted(paid.values()) in ([-1.0, 1.0], [0.0, 0.0])
        told = {1.0: "You won.", -1.0: "You lost.", 0.0: "A draw."}
        assert all(env.observe(seat).endswith(told[amount]) for seat, amount in paid.items())


@pytest.mark.parametrize("moves", ["f3 e5 g4 Qh4#", "f3 e5 g4 Qh4", "f2f3 e7e5 g2g4 d8h4"])
def test_fools_mate_is_a_win_for_black_in_each_notation(moves: str) -> None:
    env = play("chess_v6", moves)
    assert lost_by(env, "player_0")
    assert env.moves[-1] == {"player_1": "Qh4#"}
    seen = env.observe("player_1")
    assert "4 . . . . . . P q\n" in seen and "Last moves: 1. f3 e5 2. g4 Qh4#\n" in seen
    assert seen.endswith("You won.") and env.observe("player_0").endswith("You lost.")


def test_scholars_mate_is_a_win_for_white() -> None:
    assert lost_by(play("chess_v6", "e4 e5 Bc4 Nc6 Qh5 Nf6 Qxf7"), "player_1")


def test_the_first_moves_of_chess_are_the_twenty() -> None:
    env = play("chess_v6", "")
    pawns = {f"{column}{row}" for column in "abcdefgh" for row in "34"}
    assert set(env.infos["player_0"]["legal_actions"]) == pawns | {"Na3", "Nc3", "Nf3", "Nh3"}
    start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    assert env.infos["player_0"]["infostate"] == start


def test_castling_en_passant_and_promotion_are_played_from_both_sides() -> None:
    env = play("chess_v6", "e4 e5 Nf3 Nf6 Be2 Be7 O-O 0-0")
    assert [*env.moves[-1].values()] == ["O-O"]
    assert env.infos["player_0"]["infostate"].startswith("rnbq1rk1/ppppbppp/5n2/4p3/4P3/5N2")
    assert "8 r n b q . r k .\n" in env.observe("player_0")
    env = play("chess_v6", "e4 a6 e5 d5 exd6 a5 dxc7 a4 cxb8=N a3 Nc6 axb2 Nxd8 bxa1n")
    assert [*env.moves[-1].values()] == ["bxa1=N"]
    board = env.observe("player_0")
    assert "8 r . b N k b n r\n" in board and "1 n N B Q K B N R\n" in board


def test_a_threefold_repetition_is_a_draw() -> None:
    """The start, then it again after four and eight moves; PettingZoo draws as soon as one can.

    A draw may be claimed before the move that repeats, so the seventh ends the game.
    """
    env = play("chess_v6", "Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1")
    assert all(env.terminations.values())
    assert env.rewards == {"player_0": 0.0, "player_1": 0.0}
    assert env.observe("player_0").endswith("A draw.")


def test_two_tags_of_one_move_are_one_and_of_two_moves_are_refused() -> None:
    env = play("chess_v6", "")
    assert env.read("player_0", "[e4], that is [e2e4]").action == "e4"
    assert env.read("player_0", "I play [E2E4].").action == "e4"
    assert env.read("player_0", "g1f3").action == "Nf3"
    assert env.read("player_0", "[e4] or [d2d4]").reason.startswith("ambiguous")
    for said in ("[e5]", "[e2e5]", "[--]", "[0000]", "[]", "castle", ""):
        assert env.read("player_0", said).action is None


def test_go_takes_a_stone_without_liberties() -> None:
    env = play("go_v5", "A1 A2 E5 B1")
    assert "1 . O . . . . . . .\n" in env.observe("black_0")
    # A1 has no liberty and would take nothing
    assert "A1" not in env.infos["black_0"]["legal_actions"]


def test_a_ko_is_not_taken_back_at_once() -> None:
    """Black takes D5's stone from E5's side; white may not retake before playing elsewhere."""
    env = play("go_v5", "D6 E6 D4 E4 C5 F5 H1 D5 E5")
    assert "D5" not in env.infos["white_0"]["legal_actions"]
    assert env.infos["white_0"]["infostate"].endswith(" O D5 -")
    for move in ("H9", "H2"):
        env.step(move)
    assert "D5" in env.infos["white_0"]["legal_actions"]


@pytest.mark.parametrize(
    ("moves", "komi", "loser"),
    [
        ("pass pass", 7.5, "black_0"),  # an empty board: 0 - 7.5
        ("E5 pass pass", 7.5, "white_0"),  # one stone owns all: 81 - 7.5
        ("E5 A1 pass pass", 7.5, "black_0"),  # all free points touch both: 1 - 1 - 7.5
        ("E5 A1 pass pass", -0.5, "white_0"),
    ],
)
def test_two_passes_end_go_and_area_decides(moves: str, komi: float, loser: str) -> None:
    assert lost_by(play("go_v5", moves, komi=komi), loser)


def test_boards_of_two_sizes_are_played_side_by_side_and_copied() -> None:
    """PettingZoo's go holds the size of the board in its module."""
    small, large = play("go_v5", "A5", size=5), play("go_v5", "K10", size=19)
    small.step("[E1]")
    assert len(small.infos["black_0"]["legal_actions"]) == 5 * 5 - 2 + 1
    large.step("[T19]")
    assert len(large.infos["black_0"]["legal_actions"]) == 19 * 19 - 2 + 1
    other = copy.deepcopy(small)
    large.step("[A1]")
    assert other.observe("black_0") == small.observe("black_0")
    assert "\n5 X . . . .\n" in small.observe("black_0")
    assert "\n1 . . . . O\n  A B C D E\n" in small.observe("black_0")


@pytest.mark.parametrize("options", [{"size": 1}, {"size": 20}, {"size": 9.0}, {"komi": 1e9}])
def test_odd_boards_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="go_v5"):
        make_env("go_v5", **options)
