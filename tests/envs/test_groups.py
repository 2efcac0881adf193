"""Native games of hidden knowledge by hand: twenty questions, hidden profile, werewolf."""

from __future__ import annotations

from typing import Any

import pytest

from opentinker.envs import hidden_profile_v0, twenty_questions_v0, werewolf_v0
from opentinker.errors import ConfigError


def quiz(*said: str, secret: str = "cat", **options: Any) -> Any:
    game = twenty_questions_v0.env(**options)
    game.reset(seed=0, options={"secret": secret})
    for words in said:
        game.step(words)
    return game


def test_the_questions_tell_all_things_apart() -> None:
    answers = {
        thing: tuple(thing in yes for yes in twenty_questions_v0.QUESTIONS.values())
        for thing in twenty_questions_v0.THINGS
    }
    assert len(set(answers.values())) == len(answers) == 16
    assert set().union(*twenty_questions_v0.QUESTIONS.values()) <= set(answers)


def test_alone_the_env_answers_and_a_right_guess_pays_one_less_the_cost() -> None:
    game = quiz("[alive]", "[swims]", cost=0.1)
    assert "alive: yes.\nswims: no." in game.observe("guesser_0")
    game.step("[guess dog]")
    assert game.rewards == {"guesser_0": 0.0} and "guess dog: wrong." in game.observe("guesser_0")
    game.step("[guess cat]")
    assert game.rewards["guesser_0"] == pytest.approx(0.7)
    assert game.terminations == {"guesser_0": True}


def test_out_of_turns_pays_nothing() -> None:
    game = quiz("[alive]", "[guess dog]", turns=2)
    assert game.rewards == {"guesser_0": 0.0} and game.terminations == {"guesser_0": True}
    assert "It was: cat." in game.observe("guesser_0")


def test_the_secret_is_not_shown_before_the_end() -> None:
    game = quiz(secret="kite")
    assert game.observe("guesser_0").count("kite") == 1  # among all things


def test_in_two_the_other_seat_answers_and_both_are_paid() -> None:
    game = quiz("Does it purr?", players=2)
    assert game.agent_selection == "answerer_0"
    seen = game.observe("answerer_0")
    assert "It is: cat." in seen and seen.endswith("Asked: Does it purr?\nAnswer [yes] or [no].")
    game.step("[yes]")
    assert game.agent_selection == "guesser_0"
    assert "Does it purr?: yes." in game.observe("guesser_0")
    game.step("So: [Guess dog]")
    assert game.agent_selection == "guesser_0"
    game.step("[guess cat]")
    assert game.rewards == {"guesser_0": 1.0, "answerer_0": 1.0}


def test_an_unknown_secret_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'cat'"):
        quiz(secret="cats")


@pytest.mark.parametrize("players", [3, 5, 9])
def test_each_alone_prefers_the_decoy_and_all_together_the_best(players: int) -> None:
    game = hidden_profile_v0.parallel_env(players=players)
    for seed in range(20):
        game.reset(seed=seed)
        for seat in game.seats:
            points = [fact.split()[0] for fact in game.known[seat]]
            assert max(hidden_profile_v0.PEOPLE, key=points.count) == game.decoy
        together = {fact for facts in game.known.values() for fact in facts}
        points = [fact.split()[0] for fact in together]
        assert max(hidden_profile_v0.PEOPLE, key=points.count) == game.best
        assert points.count(game.best) == players and points.count(game.decoy) == 2


def profile(**options: Any) -> Any:
    game = hidden_profile_v0.parallel_env(**options)
    game.reset(seed=1)
    return game


def test_most_votes_hire_and_all_are_paid_alike() -> None:
    game = profile()
    _, paid, ended, *_ = game.step({"player_0": game.best, "player_1": f"I say [{game.decoy}]"})
    assert not any(ended.values()) and set(paid.values()) == {0.0}
    seen, paid, ended, *_ = game.step({"player_2": game.best})
    assert set(paid.values()) == {1.0} and all(ended.values())
    assert f"Hired was {game.best}, the best was {game.best}." in seen["player_0"]


def test_a_tie_hires_nobody() -> None:
    game = profile()
    _, paid, *_ = game.step(dict(zip(game.seats, hidden_profile_v0.PEOPLE, strict=True)))
    assert set(paid.values()) == {0.0} and game.hired == ""


def test_a_captain_decides_alone() -> None:
    game = profile(decide="captain")
    game.step({"player_1": game.decoy})
    assert game.hired is None
    _, paid, *_ = game.step({"player_0": game.best, "player_1": game.decoy})
    assert set(paid.values()) == {1.0}


def test_a_group_that_never_decides_is_cut() -> None:
    game = profile()
    for _ in range(99):
        game.step({})
    *_, cut, _ = game.step({})
    assert all(cut.values())


ROLES = {"wolves": ["player_0"], "seer": "player_1"}


def village(*said: str, roles: Any = ROLES, **options: Any) -> Any:
    game = werewolf_v0.env(**options)
    game.reset(seed=0, options=roles)
    for words in said:
        game.step(words)
    return game


def test_the_first_night_and_day_go_in_order_and_the_wolf_is_caught() -> None:
    game = village()
    assert game.agent_selection == "player_0"
    assert game.infos["player_0"]["legal_actions"] == [f"player_{k}" for k in (1, 2, 3, 4)]
    game.step("I bite [player_4]")
    assert game.agent_selection == "player_1"
    game.step("[player_0]")
    assert "Night: player_0 is a wolf." in game.observe("player_1")
    assert "is a wolf." not in game.observe("player_2")
    order = []
    for words in ("Good morning.", "player_0 is the wolf!", "Oh."):
        order.append(game.agent_selection)
        game.step(words)
    order.append(game.agent_selection)
    assert order == ["player_0", "player_1", "player_2", "player_3"]
    assert "player_1: player_0 is the wolf!" in game.observe("player_3")
    game.step("So it is.")
    for vote in ("[player_1]", "[player_0]", "[player_0]"):
        game.step(vote)
    assert "against" not in game.observe("player_3")  # votes are told when all have voted
    game.step("[player_0]")
    village_ = {f"player_{k}": 1.0 for k in (1, 2, 3, 4)}
    assert game.rewards == village_ | {"player_0": -1.0} and all(game.terminations.values())
    assert "player_0 is out and was a wolf" in game.observe("player_4")


def test_a_tied_vote_puts_nobody_out_and_the_wolf_wins_when_as_many_are_left() -> None:
    game = village("[player_1]", talks=0)  # who is to die still looks
    assert game.agent_selection == "player_1"
    for words in ("[player_2]", "[player_2]", "[player_0]", "[player_0]", "[player_2]"):
        game.step(words)
    assert game.living == ["player_0", "player_2", "player_3", "player_4"]
    assert game.agent_selection == "player_0"  # the next night, without a seer
    for words in ("[player_2]", "[player_3]", "[player_0]", "[player_3]"):
        game.step(words)
    assert game.rewards["player_0"] == 1.0 and game.rewards["player_2"] == -1.0
    assert "The wolves won. Wolves: player_0." in game.observe("player_4")


def test_wolves_talk_among_themselves_and_the_last_decides() -> None:
    roles = {"wolves": ["player_0", "player_3"], "seer": "player_1"}
    game = village("Shall it be the seer? [player_1]", roles=roles, players=7)
    assert game.agent_selection == "player_3"
    seen = game.observe("player_3")
    assert "You are player_3, a wolf with player_0." in seen
    assert "Night, to wolves only, player_0: Shall it be the seer? [player_1]" in seen
    assert "player_3" not in game.infos["player_3"]["legal_actions"]
    game.step("[player_2]")
    assert all("wolves only" not in game.observe(f"player_{k}") for k in (1, 2, 4, 5, 6))
    game.step("[player_0]")
    assert game.living == [f"player_{k}" for k in (0, 1, 3, 4, 5, 6)]


def test_long_speeches_are_cut() -> None:
    game = village("[player_4]", "[player_0]", "x" * 999)
    assert game.observe("player_2").endswith(f"player_0: {'x' * 200}\nWait.")


def test_the_dead_are_asked_no_more_but_paid() -> None:
    game = village("[player_4]", "[player_0]")
    assert "You are dead." in game.observe("player_4") and "player_4" in game.agents


@pytest.mark.parametrize(
    "roles", [{"wolves": ["player_9"]}, {"wolves": ["player_0", "player_1"]}, {"seer": "nobody"}]
)
def test_roles_that_can_not_be_are_refused(roles: Any) -> None:
    with pytest.raises(ConfigError, match="werewolf_v0"):
        village(roles=roles)
