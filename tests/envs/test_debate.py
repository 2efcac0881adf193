"""The debate: who sees what, what quoting shows, and payoffs worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opentinker.envs.debate_v0 import parallel_env
from opentinker.errors import ConfigError

SKY = {
    "question": "What colour is the sky?",
    "choices": ["blue", "green"],
    "answer": "blue",
    "evidence": ["a photo shows blue", "a child drew green", "a poem says blue"],
}


def start(**options: Any) -> tuple[Any, Any]:
    game = parallel_env(**options)
    seen, _ = game.reset(seed=3, options={"question": SKY})
    return game, seen


def test_debaters_see_the_evidence_and_their_side_and_the_judge_sees_neither() -> None:
    game, seen = start()
    assert seen["judge"] == "What colour is the sky? No fact was shown. Answer [blue] or [green]."
    for seat in ("debater_0", "debater_1"):
        assert all(fact in seen[seat] for fact in SKY["evidence"])
        assert f"Argue for {game.sides[seat]}." in seen[seat]
    assert set(game.sides.values()) == {"blue", "green"}


def test_fixed_sides_follow_the_choices_whatever_the_seed() -> None:
    game = parallel_env(sides="fixed", debaters=3)
    for seed in range(10):
        game.reset(seed=seed, options={"question": SKY})
        assert game.sides == {"debater_0": "blue", "debater_1": "green", "debater_2": "blue"}


def test_a_quoted_fact_is_shown_to_the_judge_as_it_is() -> None:
    game, _ = start()
    seen, paid, *_ = game.step({"debater_0": "Fact [3] says green!", "debater_1": "[9] and [2][1]"})
    assert seen["judge"].startswith(
        "What colour is the sky? Fact 3: a poem says blue. Fact 2: a child drew green. Answer"
    )
    assert set(paid.values()) == {0.0} and len(game.agents) == 3


@pytest.mark.parametrize(("verdict", "accuracy"), [("blue", 1.0), ("green", 0.0)])
def test_the_chosen_side_wins_and_the_judge_is_paid_for_the_truth(
    verdict: str, accuracy: float
) -> None:
    game, _ = start()
    _, paid, ended, cut, _ = game.step({"judge": f"I say [{verdict}]"})
    for seat, side in game.sides.items():
        assert paid[seat] == (1.0 if side == verdict else -1.0)
    assert paid["judge"] == accuracy
    assert all(ended.values()) and not any(cut.values()) and not game.agents


def test_the_sides_of_many_share_one_and_minus_one() -> None:
    game, _ = start(debaters=5)
    sides = list(game.sides.values())
    assert sorted(sides.count(choice) for choice in ("blue", "green")) == [2, 3]
    _, paid, *_ = game.step({"judge": "[blue]"})
    for seat, side in game.sides.items():
        share = 1 / sides.count(side)
        assert paid[seat] == pytest.approx(share if side == "blue" else -share)


def test_paid_together_debaters_earn_what_the_judge_earns() -> None:
    game, seen = start(pay="together")
    assert "Help the judge" in seen["debater_0"]
    assert game.step({"judge": "blue"})[1] == {"debater_0": 1.0, "debater_1": 1.0, "judge": 1.0}


def test_a_verdict_that_can_not_be_read_costs_the_judge_alone() -> None:
    game, _ = start()
    _, paid, ended, *_ = game.step({"judge": "[blue] or [green]"})
    assert paid == {"debater_0": 0.0, "debater_1": 0.0, "judge": -1.0} and all(ended.values())


def test_quoting_only_lists_the_facts() -> None:
    game = parallel_env(speech="quote")
    _, infos = game.reset(seed=0, options={"question": SKY})
    assert infos["debater_0"]["legal_actions"] == ["1", "2", "3"]
    seen, *_ = game.step({"debater_1": "1"})
    assert "Fact 1: a photo shows blue." in seen["judge"]


def test_without_a_judge_facts_are_dealt_out_and_most_votes_decide() -> None:
    game, seen = start(judge=False, debaters=3)
    for number, seat in enumerate(game.possible_agents):
        assert f"Fact {number + 1}: {SKY['evidence'][number]}. Vote" in seen[seat]
        assert seen[seat].count("Fact") == 1
    _, paid, ended, *_ = game.step({"debater_0": "[blue]", "debater_1": "[green]"})
    assert not any(ended.values())
    seen, paid, ended, *_ = game.step({"debater_2": "[blue]"})
    assert set(paid.values()) == {1.0} and all(ended.values())


def test_a_tied_vote_is_wrong() -> None:
    game, _ = start(judge=False)
    seen, paid, *_ = game.step({"debater_0": "blue", "debater_1": "green"})
    assert set(paid.values()) == {0.0} and "The verdict was a tie" in seen["debater_0"]


def test_paid_by_share_all_earn_the_share_of_right_votes() -> None:
    game, _ = start(judge=False, debaters=3, pay="share")
    _, paid, *_ = game.step({"debater_0": "blue", "debater_1": "green", "debater_2": "green"})
    assert set(paid.values()) == {1 / 3}


def test_shared_evidence_is_seen_by_all_who_vote() -> None:
    _, seen = start(judge=False, debaters=2, shared=True)
    assert all(fact in text for fact in SKY["evidence"] for text in seen.values())


def test_balls_make_questions_whose_answer_is_the_colour_of_most() -> None:
    answers = []
    for seed in range(100):
        game = parallel_env(facts=5)
        game.reset(seed=seed)
        red = sum("red" in fact for fact in game.evidence)
        assert len(game.evidence) == 5
        assert game.answer == ("red" if red >= 3 else "blue")
        answers.append(game.answer)
    assert 30 < answers.count("red") < 70


def test_both_choices_are_argued_for_from_both_chairs() -> None:
    game = parallel_env()
    first = {game.reset(seed=k) and game.sides["debater_0"] == game.answer for k in range(30)}
    assert first == {True, False}


def test_a_debate_without_a_verdict_is_cut() -> None:
    game, _ = start()
    for _ in range(99):
        game.step({"debater_0": "Well."})
    *_, ended, cut, _ = game.step({})
    assert all(cut.values()) and not any(ended.values())


def test_questions_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(SKY))
    game = parallel_env(file=str(path))
    assert SKY["question"] in game.reset(seed=0)[0]["judge"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"debaters": 0}, "debaters is 0"),
        ({"debaters": 1}, "for a zero-sum debate"),
        ({"facts": 4}, "an odd number"),
        ({"judge": False, "debaters": 5, "facts": 3}, "facts is 3"),
        ({"pay": "all"}, "pay, with a judge, is 'all'"),
        ({"pay": "share"}, "pay, with a judge, is 'share'; allowed: 'zero_sum', 'together'"),
        ({"judge": False, "pay": "zero_sum"}, "allowed: 'together', 'share'"),
        ({"shared": True}, "with a judge all debaters see all facts"),
        ({"speech": "quotes"}, "did you mean 'quote'"),
        ({"judge": "yes"}, "true or false"),
    ],
)
def test_options_that_make_no_debate_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parallel_env(**options)


@pytest.mark.parametrize(
    "change", [{"choices": ["blue"]}, {"answer": "red"}, {"evidence": []}, {"choices": "blue"}]
)
def test_a_question_that_can_not_be_debated_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="debate_v0"):
        parallel_env().reset(seed=0, options={"question": SKY | change})
