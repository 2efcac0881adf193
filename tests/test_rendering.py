"""Conversations as ids: appended to, never encoded again, cut only on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from opentinker.errors import RenderingError
from opentinker.learner.tiny_model import make_tiny
from opentinker.rendering import Conversation, Renderer

TEXTS = ["Your card: J. Answer [check] or [bet].", "Your card: K. Answer [fold] or [call]."]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = make_tiny(tmp_path_factory.mktemp("tiny") / "model", [*TEXTS, "[bet]", "[call]"])
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def renderer(tokenizer: Any) -> Renderer:
    return Renderer(tokenizer)


def _told(tokenizer: Any, *messages: tuple[str, str]) -> list[int]:
    """The ids that transformers gives the whole conversation at once."""
    asked = [{"role": role, "content": text} for role, text in messages]
    text = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text, add_special_tokens=False)


def _answer(renderer: Renderer, text: str) -> tuple[int, ...]:
    return (*renderer.encode(text), renderer.end_id)


def test_turn_by_turn_gives_the_ids_of_the_whole(tokenizer: Any, renderer: Renderer) -> None:
    talk = Conversation(renderer)
    first, fresh = talk.ask(TEXTS[0])
    assert list(first) == talk.ids == _told(tokenizer, ("user", TEXTS[0])) and not fresh
    talk.answered(_answer(renderer, "[bet]"))
    added, fresh = talk.ask(TEXTS[1])
    whole = _told(tokenizer, ("user", TEXTS[0]), ("assistant", "[bet]"), ("user", TEXTS[1]))
    assert talk.ids == whole and not fresh
    assert talk.ids[-len(added) :] == list(added)


def test_a_system_message_stands_first(tokenizer: Any, renderer: Renderer) -> None:
    talk = Conversation(renderer, system="Be brief.")
    talk.ask(TEXTS[0])
    assert talk.ids == _told(tokenizer, ("system", "Be brief."), ("user", TEXTS[0]))


def test_an_end_token_that_was_not_sampled_is_added_once(renderer: Renderer) -> None:
    for sampled, missing in ((_answer(renderer, "[bet]"), 0), (renderer.encode("[bet]"), 1)):
        talk = Conversation(renderer)
        talk.ask(TEXTS[0])
        before = talk.ids.count(renderer.end_id)
        talk.answered(sampled)
        added, _ = talk.ask(TEXTS[1])
        # one end for the answer, one for the second message, however the answer was cut off
        assert talk.ids.count(renderer.end_id) == before + 2
        assert added.count(renderer.end_id) == 1 + missing


def test_sampled_ids_are_kept_where_decoding_and_encoding_would_change_them(
    tokenizer: Any, renderer: Renderer
) -> None:
    letters = tuple(i for letter in "[bet]" for i in renderer.encode(letter))
    assert renderer.decode(letters) == "[bet]"
    assert renderer.encode("[bet]") != letters  # the tag is one token: not the identity
    talk = Conversation(renderer)
    talk.ask(TEXTS[0])
    start = len(talk.ids)
    talk.answered((*letters, renderer.end_id))
    talk.ask(TEXTS[1])
    assert tuple(talk.ids[start : start + len(letters)]) == letters
    talk.answered(_answer(renderer, "[call]"))
    added, fresh = talk.ask(TEXTS[0], window=2)
    assert not fresh and added
    talk.answered(_answer(renderer, "[bet]"))
    cut, fresh = talk.ask(TEXTS[1], window=2)  # rebuilt from the last two turns' own ids
    assert fresh and list(cut) == talk.ids
    assert letters not in [tuple(cut[i : i + len(letters)]) for i in range(len(cut))]


@pytest.mark.parametrize("window", [0, 1])
def test_a_window_keeps_the_last_turns_and_begins_afresh(
    tokenizer: Any, renderer: Renderer, window: int
) -> None:
    talk = Conversation(renderer)
    for text in TEXTS:
        talk.ask(text)
        talk.answered(_answer(renderer, "[bet]"))
    ids, fresh = talk.ask("And now?", window)
    kept = [("user", TEXTS[1]), ("assistant", "[bet]")] if window else []
    assert fresh and list(ids) == talk.ids == _told(tokenizer, *kept, ("user", "And now?"))


def _with_template(tokenizer: Any, template: str | None, tmp_path: Path) -> Any:
    tokenizer.save_pretrained(tmp_path)
    copy = AutoTokenizer.from_pretrained(tmp_path)
    copy.chat_template = template
    return copy


def test_a_template_that_rewrites_history_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    forgets = (
        "{% for m in messages %}{% if m.role != 'assistant' %}"
        "<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}<|assistant|>"
    )
    with pytest.raises(RenderingError, match="rewrites earlier turns"):
        Renderer(_with_template(tokenizer, forgets, tmp_path))


def test_a_tokenizer_without_a_template_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(RenderingError, match="no chat template"):
        Renderer(_with_template(tokenizer, None, tmp_path))


def test_a_window_of_two_keeps_two_turns_and_their_own_ids(
    tokenizer: Any, renderer: Renderer
) -> None:
    talk = Conversation(renderer)
    flags = []
    for text in (*TEXTS, "Third?"):
        flags.append(talk.ask(text, window=2)[1])
        talk.answered(_answer(renderer, "[call]"))
    ids, fresh = talk.ask("Fourth?", window=2)
    kept = [("user", TEXTS[1]), ("assistant", "[call]"), ("user", "Third?")]
    assert flags == [False, False, False] and fresh
    assert list(ids) == _told(tokenizer, *kept, ("assistant", "[call]"), ("user", "Fourth?"))


def test_what_was_cut_does_not_come_back(tokenizer: Any, renderer: Renderer) -> None:
    talk = Conversation(renderer)
    talk.ask(TEXTS[0])
    talk.answered(_answer(renderer, "[bet]"))
    talk.ask(TEXTS[1], window=0)
    talk.answered(_answer(renderer, "[call]"))
    _, fresh = talk.ask("And now?", window=None)
    kept = [("user", TEXTS[1]), ("assistant", "[call]")]
    assert not fresh and talk.ids == _told(tokenizer, *kept, ("user", "And now?"))


def test_an_answer_of_no_tokens_still_gets_its_end(tokenizer: Any, renderer: Renderer) -> None:
    talk = Conversation(renderer)
    talk.ask(TEXTS[0])
    talk.answered(())
    talk.ask(TEXTS[1])
    assert talk.ids == _told(tokenizer, ("user", TEXTS[0]), ("assistant", ""), ("user", TEXTS[1]))


def test_many_turns_encode_each_message_once(tokenizer: Any) -> None:
    renderer = Renderer(tokenizer)
    talk = Conversation(renderer)
    for turn in range(20):
        talk.ask(f"Round {turn}: who bets?")
        talk.answered((renderer.end_id,))
    assert renderer.encode.cache_info().misses == 20


TEMPLATES = {
    "thinking": (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
        "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|end|>"
        "{% endfor %}<|assistant|>",
        "rewrites earlier turns",
    ),
    "thinking put in by the generation prompt": (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "<|assistant|><think></think>",
        "rewrites earlier turns",
    ),
    "only the last message": (
        "<|user|>{{ messages[-1].content }}<|end|><|assistant|>",
        "rewrites earlier turns",
    ),
    "a count that grows": (
        "{% for m in messages %}<|{{ m.role }}|>{{ loop.index }}{{ m.content }}<|end|>"
        "{% endfor %}<|assistant|>",
        "differently|rewrites",
    ),
    "always raises": ("{{ raise_exception('no user') }}", "can't render.*no user"),
}


@pytest.mark.parametrize("what", TEMPLATES)
def test_a_template_that_does_not_append_is_refused(
    what: str, tokenizer: Any, tmp_path: Path
) -> None:
    template, said = TEMPLATES[what]
    with pytest.raises(RenderingError, match=said):
        Renderer(_with_template(tokenizer, template, tmp_path))


REFUSES = (
    "{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
)
IGNORES = (
    "{% for m in messages %}{% if m.role != 'system' %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}<|assistant|>"
)


@pytest.mark.parametrize(
    ("template", "said"),
    [(REFUSES, "with a system message: System role not supported"), (IGNORES, "drops the system")],
)
def test_a_template_without_system_messages_serves_until_one_is_asked_for(
    template: str, said: str, tokenizer: Any, tmp_path: Path
) -> None:
    renderer = Renderer(_with_template(tokenizer, template, tmp_path))
    talk = Conversation(renderer)
    talk.ask(TEXTS[0])
    assert talk.ids == _told(tokenizer, ("user", TEXTS[0]))
    with pytest.raises(RenderingError, match=said):
        Conversation(renderer, system="Be brief.").ask(TEXTS[0])
