"""Views of OpenSpiel's games: no leak, no loss, texts worked by hand, lines of known returns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from opentinker.registry import load_object, make_env
from opentinker.testing import check_env
from opentinker.wrappers.openspiel import VIEWS, load_game
from opentinker.wrappers.spiel_deals import deal_name
from opentinker.wrappers.spiel_dice import bid_name
from opentinker.wrappers.spiel_view import PlainView

pyspiel: Any = pytest.importorskip("pyspiel")

WHOLE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("kuhn_poker", {}),
    ("kuhn_poker", {"players": 3}),
    ("leduc_poker", {}),
    ("liars_dice", {"dice_sides": 3}),
    ("goofspiel", {"num_cards": 3}),
    ("goofspiel", {"num_cards": 3, "imp_info": True}),
    ("goofspiel", {"num_cards": 3, "imp_info": True, "players": 3, "points_order": "ascending"}),
    *((name, {}) for name in VIEWS if name.startswith("matrix_")),
)
"""Small enough for every state to be seen."""
SAMPLED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("kuhn_poker", {"players": 10}),
    ("leduc_poker", {"players": 3, "starting_player": 2}),
    ("leduc_poker", {"suit_isomorphism": True, "action_mapping": True}),
    ("leduc_poker", {"players": 10}),
    ("liars_dice", {"numdice": 2}),
    ("liars_dice", {"numdice": 2, "bidding_rule": "reset-quantity"}),
    ("goofspiel", {}),
    ("goofspiel", {"num_turns": 2, "num_cards": 5, "egocentric": True, "imp_info": True}),
    ("bargaining", {"max_num_instances": 3, "max_turns": 3}),
    ("bargaining", {"prob_end": 0.3, "discount": 0.9}),
)
REST: tuple[tuple[str, dict[str, Any]], ...] = (
    ("negotiation", {}),
    ("negotiation", {"num_items": 1, "num_symbols": 2, "utterance_dim": 1}),
    ("negotiation", {"enable_utterances": False}),
    ("backgammon", {}),
    ("backgammon", {"hyper_backgammon": True, "scoring_type": "full_scoring"}),
    ("liars_dice", {"dice_sides": 14}),
)
"""Games without an information state of the library, or with one that doesn't tell all."""


def view_of(name: str) -> Any:
    return load_object(VIEWS[name])()


def steps(state: Any) -> list[Any]:
    """What can be done next: a number, or a list of them where all move at once."""
    if not state.is_simultaneous_node():
        return state.legal_actions()
    joint: list[list[int]] = [[]]
    for player in range(state.num_players()):
        joint = [[*before, number] for before in joint for number in state.legal_actions(player)]
    return joint


def after(state: Any, step: Any) -> Any:
    child = state.clone()
    child.apply_actions(step) if isinstance(step, list) else child.apply_action(step)
    return child


def every_state(state: Any) -> Iterator[Any]:
    if not state.is_chance_node():
        yield state
    for step in [] if state.is_terminal() else steps(state):
        yield from every_state(after(state, step))


def random_states(game: Any, games: int) -> Iterator[Any]:
    draw = random.Random(0)
    for _ in range(games):
        state = game.new_initial_state()
        while True:
            if not state.is_chance_node():
                yield state
            if state.is_terminal():
                break
            if state.is_simultaneous_node():
                seats = range(state.num_players())
                step: Any = [draw.choice(state.legal_actions(k)) for k in seats]
            else:
                step = draw.choice(state.legal_actions())
            state = after(state, step)


def assert_faithful(name: str, states: Iterator[Any]) -> int:
    """One text for one information state, another for another; names map to all actions."""
    view, texts, known = view_of(name), {}, {}
    for state in states:
        for player in range(state.num_players()):
            text = player, view.describe(state, player)
            state_of = player, state.information_state_string(player)
            assert texts.setdefault(state_of, text) == text
            assert known.setdefault(text, state_of) == state_of
        assert_named(view, state)
    return len(texts)


def assert_named(view: Any, state: Any) -> None:
    """Every legal action has one short name that reads as an answer."""
    if state.is_terminal():
        return
    players = range(state.num_players())
    for player in players if state.is_simultaneous_node() else [state.current_player()]:
        names = view.actions(state, player)
        assert sorted(names.values()) == state.legal_actions(player)
        for word in names:
            assert word == word.strip().lower() and not set(word) & set("[],\n") and len(word) < 30


@pytest.mark.parametrize(("name", "options"), WHOLE, ids=str)
def test_every_text_tells_what_the_seat_knows_and_no_more(
    name: str, options: dict[str, Any]
) -> None:
    assert assert_faithful(name, every_state(load_game(name, options).new_initial_state()))


@pytest.mark.parametrize(("name", "options"), SAMPLED, ids=str)
def test_texts_of_large_games_do_too_in_random_play(name: str, options: dict[str, Any]) -> None:
    assert assert_faithful(name, random_states(load_game(name, options), 60))


def test_kuhn_poker_has_its_twelve_information_sets_before_the_ends() -> None:
    view = view_of("kuhn_poker")
    states = every_state(load_game("kuhn_poker", {}).new_initial_state())
    asked = [(s.current_player(), s) for s in states if not s.is_terminal()]
    assert len({(who, view.describe(state, who)) for who, state in asked}) == 12


@pytest.mark.parametrize(("name", "options"), REST, ids=str)
def test_the_other_games_are_told_and_named_in_random_play(
    name: str, options: dict[str, Any]
) -> None:
    view = view_of(name)
    for state in random_states(load_game(name, options), 5):
        for player in range(2):
            assert view.describe(state, player)
        if name != "backgammon":
            assert_named(view, state)


def test_backgammon_moves_that_share_a_name_do_the_same() -> None:
    view, plain, shared = view_of("backgammon"), PlainView(), 0
    for state in random_states(load_game("backgammon", {}), 2):
        if not state.is_terminal():
            player = state.current_player()
            names = view.actions(state, player)
            reached = {str(state.child(number)) for number in names.values()}
            every = plain.actions(state, player).values()
            assert reached == {str(state.child(number)) for number in every}
            shared += len(every) - len(names)
    assert shared


def test_bargaining_tells_nothing_of_what_items_are_worth_to_the_other() -> None:
    view, game = view_of("bargaining"), load_game("bargaining", {})
    deals: dict[Any, list[int]] = {}
    for number, deal in enumerate(game.all_instances()):
        deals.setdefault((tuple(deal.pool), tuple(deal.values[0])), []).append(number)
    [first, second] = next(numbers[:2] for numbers in deals.values() if len(numbers) > 1)
    texts = set()
    for number in (first, second):
        state = game.new_initial_state()
        for action in (number, 1, 0):
            state.apply_action(action)
        texts.add(view.describe(state, 0))
    assert len(texts) == 1


def test_negotiation_tells_nothing_of_what_items_are_worth_to_the_other() -> None:
    view, seen = view_of("negotiation"), {}
    hidden: dict[str, set[str]] = {}
    for seed in range(400):
        state = load_game("negotiation", {"num_items": 1, "rng_seed": seed}).new_initial_state()
        state.apply_action(0)
        public, own, other = (line for line in str(state).splitlines()[1:4])
        turns = str(state).splitlines()[0]
        text = view.describe(state, 0)
        assert seen.setdefault(f"{turns} {public} {own}", text) == text
        hidden.setdefault(f"{turns} {public} {own}", set()).add(other)
    assert max(map(len, hidden.values())) > 1


def told(name: str, line: tuple[Any, ...], player: int, **options: Any) -> str:
    """The text of `player` after the library's own numbers of draws and moves."""
    state = load_game(name, options).new_initial_state()
    for step in line:
        state = after(state, step)
    return view_of(name).describe(state, player)


def test_kuhn_poker_by_hand() -> None:
    rules = (
        "One card each of jack, queen, king; the highest wins. "
        "Each seat has paid 1; to bet or to call costs 1 more.\n"
    )
    assert told("kuhn_poker", (2, 0), 0) == f"{rules}Your card: king.\nMoves: none yet."
    assert told("kuhn_poker", (2, 0, 0, 1), 1) == (
        f"{rules}Your card: jack.\nMoves: player_0 checked, you bet."
    )
    assert told("kuhn_poker", (2, 0, 0, 1, 1), 0).endswith(
        "Moves: you checked, player_1 bet, you called."
    )


def test_leduc_poker_by_hand() -> None:
    text = told("leduc_poker", (4, 1, 1, 2, 1, 5), 0)
    assert text.splitlines()[1:] == [
        "Your card: king of hearts. Public card: king of spades.",
        "Round 1: you checked, player_1 raised, you called.",
        "Round 2: no moves yet.",
        "Paid so far: you 3, player_1 3.",
    ]
    assert told("leduc_poker", (4, 1, 2, 0), 1).splitlines()[-2:] == [
        "Round 1: player_0 raised, you folded.",
        "Won: player_0 1, you -1.",
    ]


def test_liars_dice_by_hand() -> None:
    text = told("liars_dice", (4, 0, 5, 1, 10), 1, numdice=2)
    assert text.splitlines()[1:] == ["Your dice: 2 6.", "Bids: player_0: 2 fives."]
    assert [bid_name(word) for word in ("1-6", "2-6", "3-1", "1-14", "Liar")] == [
        "1 six",
        "2 sixes",
        "3 ones",
        "1 of 14",
        "liar",
    ]


def test_goofspiel_by_hand() -> None:
    options = {"num_cards": 3, "points_order": "descending"}
    assert told("goofspiel", ([2, 0],), 1, **options).splitlines()[1:] == [
        "Round 2 of 3. Prize: 2.",
        "player_0's cards: 1 2.",
        "Your cards: 2 3.",
        "Points: player_0 3, you 0.",
        "Past prizes: 3 to player_0.",
    ]
    hidden = told("goofspiel", ([2, 2],), 0, imp_info=True, **options)
    assert hidden.splitlines()[2:] == [
        "Your cards: 1 2.",
        "Points: you 0, player_1 0.",
        "Past prizes: 3 to nobody, you bid 3.",
    ]


def test_bargaining_by_hand() -> None:
    text = told("bargaining", (0, 1, 0), 1)
    assert text.splitlines()[1:] == [
        "Items: books 1, hats 2, balls 3.",
        "What one is worth to you: books 4, hats 0, balls 2.",
        "So far: player_0: keep 1 0 0; you: keep 0 0 0.",
    ]


def test_negotiation_by_hand() -> None:
    text = told("negotiation", (0, 36, 41), 0, rng_seed=3)
    assert "There are 8 turns" in text
    assert text.splitlines()[1:3] == [
        "Items: A 2, B 4, C 0.",
        "What one is worth to you: A 1, B 5, C 4.",
    ]
    assert deal_name(", Utterance: [0, 1, 0]") == "say 0 1 0"
    assert deal_name("Proposal: Agreement reached!") == deal_name("Agree") == "agree"


def test_backgammon_by_hand() -> None:
    start = ["2 on 24, 5 on 13, 3 on 8, 5 on 6.", "5 on 19, 3 on 17, 5 on 12, 2 on 1."]
    for player in range(2):
        lines = told("backgammon", (0,), player).splitlines()[1:]
        assert lines == [
            f"Your checkers: {start[0]}",
            f"player_{1 - player}'s checkers: {start[1]}",
            "Dice: 1 and 2.",
        ]


def test_a_matrix_game_by_hand_from_both_sides() -> None:
    assert told("matrix_bos", (), 1) == (
        "Both choose at once. What each of your choices pays you, player_0:\n"
        "bach: 2, 3 against bach; 0, 0 against stravinsky.\n"
        "stravinsky: 0, 0 against bach; 3, 2 against stravinsky."
    )
    assert told("matrix_pd", ([1, 0],), 0).splitlines()[1:] == [
        "cooperate: 5, 5 against cooperate; 0, 10 against defect.",
        "defect: 10, 0 against cooperate; 1, 1 against defect.",
        "You played defect, player_1 cooperate.",
    ]


def played(name: str, line: tuple[Any, ...], answers: list[str], **options: Any) -> list[float]:
    """The library's returns after its own draws, then named answers of who is to move."""
    state = load_game(name, options).new_initial_state()
    view = view_of(name)
    for step in line:
        state = after(state, step)
    for word in answers:
        if state.is_simultaneous_node():
            parts = [view.actions(state, k)[part] for k, part in enumerate(word.split())]
            state = after(state, parts)
        else:
            state = after(state, view.actions(state, state.current_player())[word])
    assert state.is_terminal()
    return state.returns()


def test_named_answers_pay_what_the_rules_say() -> None:
    assert played("kuhn_poker", (2, 0), ["bet", "call"]) == [2, -2]
    assert played("kuhn_poker", (2, 0), ["bet", "fold"]) == [1, -1]
    assert played("kuhn_poker", (0, 1), ["check", "bet", "fold"]) == [-1, 1]
    assert played("kuhn_poker", (0, 1), ["check", "check"]) == [-1, 1]
    assert played("leduc_poker", (4, 0), ["raise", "raise", "fold"]) == [-3, 3]
    assert played("liars_dice", (5, 5), ["2 ones", "liar"]) == [1, -1], "sixes count as ones"
    assert played("liars_dice", (4, 1), ["2 fives", "liar"]) == [-1, 1]
    goof = {"num_cards": 3, "points_order": "descending", "returns_type": "total_points"}
    assert played("goofspiel", (), ["3 1", "1 3"], **goof) == [3, 2]
    assert played("goofspiel", (), ["3 1", "1 2"], **goof) == [3, 3]
    assert played("matrix_rps", (), ["rock paper"]) == [-1, 1]
    assert played("matrix_bos", (), ["bach bach"]) == [3, 2]


def test_who_proposes_keeps_what_is_named() -> None:
    """Pool 1 2 3; worth 8 1 0 to the first, 4 0 2 to the second."""
    assert played("bargaining", (0,), ["keep 1 0 0", "agree"]) == [8, 6]
    assert played("bargaining", (0,), ["keep 0 0 0", "keep 1 0 0", "agree"]) == [2, 4]
    halved = played("bargaining", (0,), ["keep 0 0 0", "keep 1 0 0", "agree"], discount=0.5)
    assert halved == [1, 2]
    # Pool 2 4 0; worth 1 5 4 to the first, 7 2 3 to the second.
    answers = ["keep 1 0 0", "say 0 1 0", "agree"]
    assert played("negotiation", (0,), answers, rng_seed=3) == [1, 15]


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_pettingzoos_contract_and_ours_are_kept_with_a_view(name: str) -> None:
    check_env(partial(make_env, f"openspiel/{name}", max_turns=20), games=2)


def test_plain_does_without_the_view() -> None:
    for name in VIEWS:
        own: Any = make_env(f"openspiel/{name}")
        plain: Any = make_env(f"openspiel/{name}", plain=True)
        assert isinstance(plain._view, PlainView) and not isinstance(own._view, PlainView)
    every = {kind.short_name for kind in pyspiel.registered_games()}
    assert {name for name in every if name.startswith("matrix_")} <= VIEWS.keys() <= every
