"""Examples from files and transcripts: broken lines each with number and reason, selection."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.finetuning import DataSection
from opentinker.learner.tiny_model import make_tiny
from opentinker.recorder import Run
from opentinker.rendering import Renderer
from opentinker.scheduler import transcripts
from opentinker.scheduler.dataset import (
    Answer,
    Chat,
    Pair,
    read_chats,
    read_pairs,
    texts,
    write_lines,
)
from opentinker.scheduler.rendered import length_limit, render_chat, render_pair, within
from opentinker.types import Episode, EpisodeRequest, Turn

USER = {"role": "user", "content": "two and two?"}
SAYS = {"role": "assistant", "content": "four"}
SYSTEM = {"role": "system", "content": "be brief"}


def _file(folder: Path, *lines: Any) -> Path:
    path = folder / "data.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def _messages(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def test_conversations_of_any_number_of_turns_are_read(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        _messages(USER, SAYS),
        "",
        "   ",
        _messages(SYSTEM, USER, {**SAYS, "weight": 0}, USER, {**SAYS, "weight": 2.5}),
    )
    assert read_chats(path) == [
        Chat(("two and two?",), (Answer("four"),)),
        Chat(("two and two?",) * 2, (Answer("four", 0.0), Answer("four", 2.5)), "be brief"),
    ]


BROKEN = [
    ('{"messages": [', "not JSON: Expecting value at column 15"),
    ("[1]", "not a JSON object, but a list"),
    ({}, "no messages"),
    (_messages(), "no messages"),
    ({"messages": "hi"}, "messages is a string, not a list"),
    ({"mesages": []}, "unknown key 'mesages'; did you mean 'messages'?"),
    (_messages("hi"), "message 1: a string, not an object"),
    (_messages({**USER, "wieght": 1}), "message 1: unknown key 'wieght'; did you mean 'weight'?"),
    (
        _messages({"role": "asistant", "content": "x"}),
        "message 1: unknown role 'asistant'; did you mean 'assistant'? known: assistant, system",
    ),
    (_messages({"role": ["user"], "content": "x"}), "message 1: unknown role \"['user']\""),
    (_messages({"role": "user"}), "message 1: content is null, not a string"),
    (_messages(USER, {**SAYS, "content": 4}), "message 2: content is a number, not a string"),
    (_messages(USER, SAYS, SYSTEM), "message 3: a system message that is not the first"),
    (_messages(SYSTEM, SYSTEM, USER), "message 2: a system message that is not the first"),
    (_messages(USER, USER, SAYS), "message 2: two users in a row"),
    (_messages(USER, SAYS, SAYS), "message 3: two assistants in a row"),
    (_messages(SAYS), "message 1: an assistant before any user"),
    (_messages(SYSTEM), "no user's message"),
    (_messages(USER, SAYS, USER), "ends without an assistant's message"),
    (_messages(USER, {**SAYS, "weight": -1}), "message 2: weight is -1; it is at least 0"),
    ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", '
     '"weight": NaN}]}', "message 2: weight is nan"),
    (_messages(USER, {**SAYS, "weight": True}), "message 2: weight is a boolean, not a number"),
    (_messages({**USER, "weight": 1}, SAYS), "message 1: weight on a user message"),
    (_messages(USER, {**SAYS, "weight": 0}), "no assistant's message has a weight above 0"),
    ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "holds half of a surrogate pair"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), BROKEN, ids=[reason for _, reason in BROKEN])
def test_a_broken_line_gets_its_number_and_reason(tmp_path: Path, line: Any, reason: str) -> None:
    path = _file(tmp_path, _messages(USER, SAYS), "", line)
    with pytest.raises(ConfigError) as caught:
        read_chats(path)
    assert f"1 of 2 lines are broken: {path}:3: {reason}" in str(caught.value).replace(
        "message 1: content holds", "holds"
    )
    assert "\n" not in str(caught.value)


def test_many_broken_lines_are_counted_and_the_first_ones_told(tmp_path: Path) -> None:
    path = _file(tmp_path, *["nonsense"] * 8, _messages(USER, SAYS))
    with pytest.raises(ConfigError, match=r"8 of 9 lines are broken: .*; and 3 more$") as caught:
        read_chats(path)
    for number in range(1, 10):
        assert (f"{path}:{number}: not JSON" in str(caught.value)) == (number <= 5)


def test_bytes_that_are_no_text_and_a_mark_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    good = json.dumps(_messages(USER, SAYS)).encode()
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\r\n" + good.replace(b"four", b"\xff"))
    with pytest.raises(ConfigError, match=r"1 of 2 .*:2: not UTF-8"):
        read_chats(path)
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\r\n")
    assert len(read_chats(path)) == 1


def test_no_file_or_no_line_is_said(tmp_path: Path) -> None:
    path = _file(tmp_path, "", "  ")
    with pytest.raises(ConfigError, match="holds no line"):
        read_chats(path)
    with pytest.raises(ConfigError, match=r"no file .*did you mean 'data\.jsonl'"):
        read_chats(tmp_path / "dta.jsonl")
    with pytest.raises(ConfigError, match="no file"):
        read_chats(tmp_path)


def test_preferences_are_read_and_their_faults_told(tmp_path: Path) -> None:
    good = _messages(SYSTEM, USER, SAYS, USER, chosen="4", rejected="5")
    asked = ("two and two?",) * 2
    expected = Pair(asked, (Answer("four"),), "4", "5", "be brief")
    assert read_pairs(_file(tmp_path, good)) == [expected]
    for line, reason in (
        (_messages(USER, chosen="4"), "no 'rejected'"),
        (_messages(USER, chosen="4", rejected=5), "rejected is a number, not a string"),
        (_messages(USER, chosen="4", rejected="4"), "chosen and rejected are the same"),
        (_messages(USER, SAYS, chosen="4", rejected="5"), "ends with an assistant's message"),
        (_messages(USER, chosn="4", rejected="5"), "unknown key 'chosn'; did you mean 'chosen'"),
        (
            _messages(USER, {**SAYS, "weight": 1}, USER, chosen="4", rejected="5"),
            "message 2: weight in a prompt",
        ),
    ):
        with pytest.raises(ConfigError, match=rf":1: .*{reason}"):
            read_pairs(_file(tmp_path, line))


def test_what_is_written_is_read_back_as_it_was(tmp_path: Path) -> None:
    chats = [
        Chat(("zwei\nund ünf? 🂡", ""), (Answer("a", 0.25), Answer("", 1.0)), "sys"),
        Chat(("q",), (Answer("x"),)),
    ]
    pairs = [Pair(("q", "r"), (Answer("x"),), "good", "bad", "sys")]
    write_lines(tmp_path / "data" / "c.jsonl", chats)
    assert read_chats(tmp_path / "data" / "c.jsonl") == chats
    write_lines(tmp_path / "data" / "p.jsonl", pairs)
    assert read_pairs(tmp_path / "data" / "p.jsonl") == pairs
    assert texts([chats[1], *pairs]) == ["q", "x", "sys", "r", "good", "bad"]


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    folder = make_tiny(tmp_path_factory.mktemp("tiny"), ["be brief two and two? four 4 5"])
    assert length_limit(folder, None) == 512 and length_limit(folder, 9) == 9
    with pytest.raises(ConfigError, match=r"fit\.max_length = 513.*at most 512"):
        length_limit(folder, 513)
    return Renderer.load(folder)


def test_only_answers_and_their_ends_weigh(renderer: Renderer) -> None:
    chat = Chat(("two", "and"), (Answer("four", 0.5), Answer("4", 2.0)), "be brief")
    ids, weights = render_chat(chat, renderer)
    text = (
        "<|system|>be brief<|end|><|user|>two<|end|><|assistant|>four<|end|>"
        "<|user|>and<|end|><|assistant|>4<|end|>"
    )
    backend = renderer._tokenizer.backend_tokenizer
    assert ids.tolist() == backend.encode(text, add_special_tokens=False).ids
    weighed = [
        (backend.id_to_token(int(token)), float(weight))
        for token, weight in zip(ids, weights, strict=True)
        if weight
    ]
    assert weighed == [("four", 0.5), ("<|end|>", 0.5), ("4", 2.0), ("<|end|>", 2.0)]


def test_of_a_preference_only_the_two_answers_weigh(renderer: Renderer) -> None:
    chosen, rejected = render_pair(Pair(("two", "and"), (Answer("four"),), "4", "5"), renderer)
    for (ids, weights), last in ((chosen, "4"), (rejected, "5")):
        assert renderer.decode(tuple(ids[weights > 0].tolist())) == last
    prompts = [ids[weights == 0].tolist() for ids, weights in (chosen, rejected)]
    assert prompts[0] == prompts[1]


def test_too_long_examples_are_left_out_and_none_left_is_an_error(
    renderer: Renderer, caplog: pytest.LogCaptureFixture
) -> None:
    items = [(render_chat(Chat((" two" * n,), (Answer("4"),)), renderer),) for n in (3, 30, 7)]
    lengths = [len(ids) for ((ids, _),) in items]
    assert within(items, max(lengths)) == items and within(items, None) == items
    assert not caplog.records
    assert within(items, lengths[2]) == [items[0], items[2]]
    assert f"1 of 3 examples are longer than {lengths[2]} tokens" in caplog.text
    with pytest.raises(ConfigError, match=rf"all 3 .*shortest has {lengths[0]} .*limit is 5 "):
        within(items, 5)


def _turn(index: int, seat: str, saw: str, said: str, **changes: Any) -> Turn:
    agent = changes.pop("agent", "alice")
    return Turn(index, "move", seat, agent, saw, said, **{"policy": agent, **changes})


def _episode(
    number: int, paid: float, *said: str, group: str = "g", saw: str = "start", **changes: Any
) -> Episode:
    turns = [
        _turn(i, "p0", saw if i == 0 else f"{saw}, {'-'.join(said[:i])}", text)
        for i, text in enumerate(said)
    ]
    request = EpisodeRequest(str(number), group, 0, {"p0": "alice"})
    episode = Episode(request, "game", "follow_env", tuple(turns), {"p0": paid}, "finished")
    return replace(episode, **changes)


def test_the_best_share_of_each_seat_and_those_paid_enough_are_kept() -> None:
    found = transcripts.parts(_episode(i, paid, "x") for i, paid in enumerate([1, 3, 2, 3, -1]))

    def kept(**data: Any) -> list[float]:
        section = DataSection(run="r", **data)
        return [float(part.episode.request.id) for part in transcripts.best(found, section)]

    assert kept() == [0, 1, 2, 3, 4]
    assert kept(top=0.2) == [3]  # of equal returns the newest
    assert kept(top=0.4) == [1, 3] and kept(top=0.5) == [1, 2, 3]
    assert kept(min_reward=2) == [1, 2, 3] and kept(min_reward=3, top=0.2) == [3]
    with pytest.raises(ConfigError, match=r"min_reward = 4: .*the most is 3"):
        kept(min_reward=4)


def test_the_share_is_taken_seat_by_seat() -> None:
    pay = {"p0": 5.0, "p1": -5.0}
    turns = (_turn(0, "p0", "a", "b"), _turn(1, "p1", "c", "d"))
    request = EpisodeRequest("0", "g", 0, {})
    one = Episode(request, "game", "follow_env", turns, pay, "finished")
    two = replace(one, returns={"p0": 4.0, "p1": -4.0})
    best = transcripts.best(transcripts.parts([one, two]), DataSection(run="r", top=0.5))
    assert [(part.seat, part.paid) for part in best] == [("p0", 5.0), ("p1", -4.0)]


def test_answers_that_were_illegal_or_cut_are_context_only() -> None:
    turns = (
        _turn(0, "p0", "a", "bad", legal=False),
        _turn(1, "p0", "b", "long", finish="length"),
        _turn(2, "p0", "c", "good"),
    )
    part = transcripts.Part(_episode(0, 1.0), "p0", turns)
    (chat,) = transcripts.chats([part])
    assert chat.asked == ("a", "b", "c")
    assert chat.answers == (Answer("bad", 0.0), Answer("long", 0.0), Answer("good"))
    assert transcripts.chats([replace(part, turns=turns[:2])]) == []


def test_a_runs_transcripts_are_chosen_by_step_seat_and_policy(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r", "")
    with pytest.raises(ConfigError, match="has no transcripts"):
        transcripts.chosen(run, DataSection(run="r"))
    script = replace(_turn(0, "p1", "s", "t", agent="random"), policy=None)
    for step in (1, 2, 3):
        episode = _episode(step, 1.0, "x")
        both = replace(episode, turns=(*episode.turns, script), returns={"p0": 1.0, "p1": 0.0})
        run.write_episodes(step, [both, replace(both, outcome="failed")])

    def chosen(**data: Any) -> list[tuple[str, str]]:
        found = transcripts.chosen(run, DataSection(run="r", **data))
        return [(part.episode.request.id, part.seat) for part in found]

    assert chosen() == [("1", "p0"), ("2", "p0"), ("3", "p0")]
    assert chosen(last_steps=2) == [("2", "p0"), ("3", "p0")]
    assert chosen(last_steps=1, policies=["alice", "random"]) == [("3", "p0"), ("3", "p1")]
    with pytest.raises(UnknownNameError, match="unknown seat in data 'p2'"):
        chosen(seats=["p2"])
    with pytest.raises(UnknownNameError, match="did you mean 'alice'"):
        chosen(policies=["alce"])
    with pytest.raises(ConfigError, match=r"no turns of a policy.*alice, random"):
        chosen(seats=["p1"])


def test_the_first_other_answer_of_two_in_a_group_makes_a_preference() -> None:
    def pairs(*episodes: Episode) -> list[Pair]:
        return transcripts.pairs(transcripts.parts(episodes))

    low, high = _episode(0, -1.0, "same", "no", "end"), _episode(1, 2.0, "same", "yes")
    expected = Pair(("start", "start, same"), (Answer("same"),), "yes", "no")
    assert pairs(low, high) == pairs(high, low) == [expected]
    assert len(pairs(low, high, _episode(2, 0.0, "other"))) == 3
    illegal = replace(high.turns[1], legal=False)
    cut = replace(low.turns[1], finish="length")
    for others in (
        (low, replace(high, returns={"p0": -1.0})),  # paid alike
        (low, _episode(1, 2.0, "same", "yes", group="h")),
        (low, _episode(1, 2.0, "same", "yes", saw="elsewhere")),
        (low, _episode(1, 2.0, "same", "no", "end")),  # said alike
        (low, replace(high, turns=(high.turns[0], illegal))),
        (replace(low, turns=(low.turns[0], cut)), high),
    ):
        with pytest.raises(ConfigError, match=r"no two episodes of one group"):
            pairs(*others)
