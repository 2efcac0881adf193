"""Native games by hand: gomoku, negotiation, public goods, signalling."""

from __future__ import annotations

from typing import Any

import pytest

from opentinker.analysis.solve import nash_conv, values
from opentinker.envs import gomoku_v0, negotiation_v0, public_goods_v0, signalling_v0
from opentinker.errors import ConfigError

TWO = ("player_0", "player_1")


def board(moves: str, **options: Any) -> Any:
    game = gomoku_v0.env(**options)
    game.reset(seed=0)
    for move in moves.split():
        assert not any(game.terminations.values())
        game.step(f"[{move}]")
    return game


@pytest.mark.parametrize(
    ("size", "line", "moves", "returns"),
    [
        (5, 4, "a1 a2 b1 b2 c1 c2 d1", (1.0, -1.0)),  # a row
        (5, 4, "a1 b1 a2 b2 a4 b3 c3 b4", (-1.0, 1.0)),  # a column
        (5, 4, "b2 a1 c3 a2 e5 a3 d4", (1.0, -1.0)),  # a diagonal, closed in its middle
        (5, 4, "e1 a1 d2 a2 c3 a3 b4", (1.0, -1.0)),  # the other one
        (5, 3, "a1 a5 b1 b5 e1 e5 d1 d5 c1", (1.0, -1.0)),  # five in a row are three, too
        (3, 3, "a1 b1 c1 b2 a2 c2 b3 a3 c3", (0.0, 0.0)),  # full
        (1, 1, "a1", (1.0, -1.0)),
    ],
)
def test_gomoku_by_hand(size: int, line: int, moves: str, returns: tuple[float, float]) -> None:
    game = board(moves, size=size, line=line)
    assert tuple(game.rewards[seat] for seat in TWO) == returns
    assert all(game.terminations.values())


def test_a_line_does_not_run_over_the_edge() -> None:
    game = board("b1 b3 c1 c3 a2 a3", size=3, line=3)
    assert game.rewards == {"player_0": -1.0, "player_1": 1.0}  # b1 c1 a2 follow in the text only


def test_the_board_is_shown_with_names() -> None:
    game = board("b2 a1", size=3, line=3)
    assert game.observe("player_0") == (
        "Gomoku, 3 in a row win. You are player_0 and play X.\n"
        "   a b c\n 1 O . .\n 2 . X .\n 3 . . .\n"
        "The other one played a1. Answer a free cell, column and row, as [b1]."
    )
    info = game.infos["player_0"]
    assert info["legal_actions"] == ["b1", "c1", "a2", "c2", "a3", "b3", "c3"]
    assert info["infostate"] == "O../.X./..."


def test_three_by_three_has_as_many_positions_as_tic_tac_toe() -> None:
    """5478 positions can be reached; 626 are won by X, 316 by O, 16 drawn (all well known)."""
    ends = {"X": 0, "O": 0, "": 0}
    seen, todo = set(), ["." * 9]
    while todo:
        position = todo.pop()
        if position in seen:
            continue
        seen.add(position)
        stones = [k for k, mark in enumerate(position) if mark != "."]
        won = {position[k] for k in stones if gomoku_v0.longest(position, 3, k) >= 3}
        if won or len(stones) == 9:
            ends[won.pop() if won else ""] += 1
            continue
        mark = "XO"[len(stones) % 2]
        todo += [position[:k] + mark + position[k + 1 :] for k in range(9) if k not in stones]
    assert len(seen) == 5478 and ends == {"X": 626, "O": 316, "": 16}


@pytest.mark.parametrize("options", [{"size": 0}, {"size": 27}, {"size": 3, "line": 4}])
def test_a_board_that_can_not_be_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="gomoku_v0"):
        gomoku_v0.env(**options)


DEAL = {"counts": [2, 1, 2], "values": [[3, 4, 0], [1, 2, 3]]}


def talk(*said: str, **options: Any) -> Any:
    game = negotiation_v0.env(**options)
    game.reset(seed=0, options=DEAL)
    for words in said:
        game.step(words)
    return game


def test_a_deal_pays_each_its_own_value_of_its_share() -> None:
    """player_0 takes 2 books, 3 each; player_1 has a hat at 2 and 2 balls at 3 each."""
    game = talk("I love books: [take 2 0 0]", "[accept]")
    assert game.rewards == {"player_0": 0.6, "player_1": 0.8}
    assert (
        "A deal: player_1 has books 0, hats 1, balls 2, player_0 books 2, hats 0, balls 0."
        in game.observe("player_0")
    )
    game = talk("[take 2 1 2]", "[take 0 1 2]", "[accept]")
    assert game.rewards == {"player_0": 0.6, "player_1": 0.8}


def test_no_deal_pays_nothing() -> None:
    game = talk("[take 2 1 2]", "[no deal]")
    assert game.rewards == {"player_0": 0.0, "player_1": 0.0} and all(game.terminations.values())


def test_there_is_nothing_to_accept_at_first_and_nothing_to_propose_at_last() -> None:
    game = talk(turns=2)
    legal = game.infos["player_0"]["legal_actions"]
    assert len(legal) == 3 * 2 * 3 + 1 and "accept" not in legal
    game.step("[take 1 1 1]")
    assert game.infos["player_1"]["legal_actions"] == ["accept", "no deal"]


def test_each_sees_its_own_values_only() -> None:
    game = talk()
    seen = game.observe("player_0")
    assert "books are worth 3, hats are worth 4, balls are worth 0 each" in seen
    assert "worth 1" not in seen


def test_all_the_things_are_worth_ten_to_both() -> None:
    game = negotiation_v0.env()
    for seed in range(100):
        game.reset(seed=seed)
        assert all(1 <= count <= 3 for count in game.counts) and len({*game.values}) == 2
        for seat in TWO:
            assert game.worth(seat, game.counts) == 1.0


def test_the_ways_to_value_things_are_all_there() -> None:
    """3x + 3y + 3z = 10 has no whole solution, x + y + z = 10 has 66, 2x + y + 2z = 10 has 21."""
    counts: list[tuple[int, ...]] = [(3, 3, 3), (1, 1, 1), (2, 1, 2)]
    assert [len(negotiation_v0.valuations(each)) for each in counts] == [0, 66, 21]


@pytest.mark.parametrize(
    "given",
    [
        {"counts": [2, 1], "values": DEAL["values"]},
        {"counts": [2, 1, 2], "values": [[3, 4, 0]]},
        {"counts": [2, 1, 2], "values": [[3, 4, 1], [1, 2, 3]]},
        {"counts": [0, 1, 2], "values": DEAL["values"]},
        {"values": DEAL["values"]},
    ],
)
def test_a_deal_that_can_not_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="negotiation_v0: counts"):
        negotiation_v0.env().reset(seed=0, options=given)


def test_a_round_of_public_goods_by_hand() -> None:
    """10 - given + 1.5 * (0 + 4 + 10) / 3, which is 7 each."""
    game = public_goods_v0.parallel_env(players=3, rounds=2, multiplier=1.5)
    game.reset(seed=0)
    gifts = {"player_0": "[0]", "player_1": "[4]", "player_2": "[10]"}
    seen, paid, ended, _, infos = game.step(gifts)
    assert paid == {"player_0": 17.0, "player_1": 13.0, "player_2": 7.0}
    assert not any(ended.values())
    assert "Round 1: you gave 4, player_0 0, player_2 10; you earned 13." in seen["player_1"]
    assert infos["player_1"]["infostate"] == "player_1:0-4-10"
    seen, paid, ended, *_ = game.step(dict.fromkeys(gifts, "10"))
    assert set(paid.values()) == {15.0} and all(ended.values())
    assert "You earned 32 in all" in seen["player_0"]


def test_giving_all_is_best_for_all_and_nothing_for_each() -> None:
    game = public_goods_v0.parallel_env()
    payoffs = game.payoffs
    all_, none = dict.fromkeys(game.seats, 10), dict.fromkeys(game.seats, 0)
    assert sum(payoffs(all_).values()) == 80 and sum(payoffs(none).values()) == 40
    for others in (all_, none):
        alone = [payoffs(others | {"player_0": gift})["player_0"] for gift in range(11)]
        assert alone == sorted(alone, reverse=True)


def test_a_round_of_signalling_by_hand() -> None:
    game = signalling_v0.env(rounds=2)
    game.reset(seed=0)
    for right in (True, False):
        thing = game.thing
        assert f"You see: {thing}." in game.observe("sender_0")
        assert thing not in game.observe("receiver_0").split("\n")[-1]
        game.step("[du]")
        assert "The word: du. Guess [sun] [moon] [star]." in game.observe("receiver_0")
        others = [each for each in game.objects if each != thing]
        game.step(thing if right else others[0])
        assert game.rewards == dict.fromkeys(game.seats, float(right))
    assert all(game.terminations.values())


@pytest.mark.parametrize(
    ("objects", "signals", "best"), [(3, 3, 1.0), (3, 2, 2 / 3), (2, 1, 1 / 2)]
)
def test_a_code_is_worth_what_is_known(objects: int, signals: int, best: float) -> None:
    """A code that gives each thing a word of its own as long as there are words."""
    things, words = signalling_v0.OBJECTS[:objects], signalling_v0.SIGNALS[:signals]
    table = {f"sees {thing}": {words[min(k, signals - 1)]: 1.0} for k, thing in enumerate(things)}
    table |= {f"hears {word}": {things[k]: 1.0} for k, word in enumerate(words)}
    tree = signalling_v0.game_tree(objects, signals)
    assert values(tree, table)["sender_0"] == pytest.approx(best)
    assert nash_conv(tree, table) == pytest.approx(0.0)


def test_saying_always_the_same_is_an_equilibrium_too() -> None:
    table = {f"sees {thing}": {"ba": 1.0} for thing in signalling_v0.OBJECTS[:3]}
    table |= {f"hears {word}": {"sun": 1.0} for word in signalling_v0.SIGNALS[:3]}
    tree = signalling_v0.game_tree()
    assert values(tree, table)["receiver_0"] == pytest.approx(1 / 3)
    assert nash_conv(tree, table) == pytest.approx(0.0)
