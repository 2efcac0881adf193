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
