"""Messages to token ids through the model's own chat template, appending only.

The template is taken apart once, with marker texts, into the pieces that stand around a user's
message. A later turn then costs one encoding of its own words: nothing is rendered or tokenized
twice, and the ids of an answer are the sampled ones for ever. A template that rewrites earlier
turns is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from opentinker.errors import RenderingError
from opentinker.types import Completion

_SYSTEM, _USERS, _ANSWERS = (
    "XsystemX",
    ("XuseroneX", "XusertwoX", "XuserthreeX"),
    ("XanswoneX", "XanswtwoX"),
)
_THOUGHT = "<think>XthoughtX</think>"
"""stands before an answer, to find a template that drops the thinking of earlier turns"""


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The template's text around a user's message: at the opening, and after an answer."""

    before: str
    after: str
    bridge_before: str
    bridge_after: str


class Renderer:
    """Turns a conversation's next message into ids, for one tokenizer and its chat template.

    Raises `RenderingError` when the tokenizer has no chat template, or one that rewrites history.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise RenderingError(
                f"the tokenizer {tokenizer.name_or_path!r} has no chat template; "
                "use an instruction-tuned model"
            )
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        self._plain = self._take_apart(None)
        self._with_system: _Pieces | None = None
        self.encode = lru_cache(maxsize=1 << 16)(self._encode)
        self.decode = lru_cache(maxsize=1 << 16)(self._decode)

    @classmethod
    def load(cls, folder: str | Path) -> Renderer:
        """The renderer of a Hugging Face folder or id."""
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(str(folder)))

    @property
    def end_id(self) -> int:
        """The id that ends an answer."""
        return int(self._tokenizer.eos_token_id)

    def reads_like(self, other: Renderer) -> bool:
        """Whether both give every conversation the same ids."""
        mine, theirs = self._tokenizer, other._tokenizer
        return (
            mine.chat_template == theirs.chat_template
            and mine.get_vocab() == theirs.get_vocab()
            and self.end_id == other.end_id
        )

    def opening(self, text: str, system: str = "") -> tuple[int, ...]:
        """The ids of a whole first prompt, up to where the answer begins."""
        pieces = self._plain
        if system:
            if self._with_system is None:
                self._with_system = self._take_apart(_SYSTEM)
            pieces = self._with_system
        before = pieces.before.replace(_SYSTEM, system) if system else pieces.before
        return self.encode(before + text + pieces.after)

    def following(self, text: str, last: int | None) -> tuple[int, ...]:
        """The ids that a later message adds after an answer whose last sampled id was `last`.

        The answer's end token is added when it was not sampled, and never twice.
        """
        ids = self.encode(self._plain.bridge_before + text + self._plain.bridge_after)
        return ids[1:] if ids and ids[0] == last else ids

    def answer_ids(self, text: str) -> tuple[int, ...]:
        """The ids of an answer written by hand, end token included."""
        return (*self.encode(text), self.end_id)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._backend.encode(text, add_special_tokens=False).ids)

    def _decode(self, tokens: tuple[int, ...]) -> str:
        return self._backend.decode(list(tokens), skip_special_tokens=True)

    def _render(self, system: str | None, turns: int, thought: str = "") -> str:
        messages = [] if system is None else [{"role": "system", "content": system}]
        for index in range(turns):
            messages.append({"role": "user", "content": _USERS[index]})
            if index < turns - 1:
                messages.append({"role": "assistant", "content": thought + _ANSWERS[index]})
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=False
                )
            )
        except TemplateError as error:
            with_system = "" if system is None else " with a system message"
            raise RenderingError(
                f"the chat template of {self._tokenizer.name_or_path!r} can't render a "
                f"conversation{with_system}: {error}"
            ) from error

    def _take_apart(self, system: str | None) -> _Pieces:
        one, two, three = (self._render(system, turns) for turns in (1, 2, 3))
        thinking = self._render(system, 2, _THOUGHT)
        before, found, after = one.partition(_USERS[0])
        bridges = []
        for shorter, longer, answer, user in (
            (one, two, _ANSWERS[0], _USERS[1]),
            (two, three, _ANSWERS[1], _USERS[2]),
            (one, thinking, _THOUGHT + _ANSWERS[0], _USERS[1]),
        ):
            if not found or not longer.startswith(shorter + answer) or user not in longer:
                raise RenderingError(
                    f"the chat template of {self._tokenizer.name_or_path!r} rewrites earlier "
                    "turns, so ids sampled in one turn would not be those of the next; use one "
                    "that only appends"
                )
            bridges.append(longer[len(shorter + answer) :].partition(user))
        if any(bridge != bridges[0] for bridge in ((b[0], _USERS[1], b[2]) for b in bridges)):
            raise RenderingError(
                f"the chat template of {self._tokenizer.name_or_path!r} renders the second and the "
                "third turn differently; use a template that only appends"
            )
        if system is not None and system not in before:
            raise RenderingError(
                f"the chat template of {self._tokenizer.name_or_path!r} drops the system message"
            )
        return _Pieces(before, after, bridges[0][0], bridges[0][2])


@dataclass(slots=True)
class Conversation:
    """What one seat saw and said in one episode: texts, and the ids really sent and sampled."""

    renderer: Renderer
    system: str = ""
    ids: list[int] = field(default_factory=list)
    _asked: list[str] = field(default_factory=list)
    _said: list[tuple[int, ...]] = field(default_factory=list)
    _cut: int = 0
    """how many of the oldest turns are no longer in `ids`"""

    def ask(self, text: str, window: int | None = None) -> tuple[tuple[int, ...], bool]:
        """Append a message to be answered; return the ids it added and whether the view was cut.

        With `window` n only the last n turns stay in view. A cut rebuilds the prompt from the kept
        turns' own ids; the ids returned are then the whole new prompt.
        """
        first = self._cut if window is None else max(self._cut, len(self._said) - window)
        self._asked.append(text)
        if first > self._cut:
            self._cut = first
            self.ids = self._rebuilt(first)
            return tuple(self.ids), True
        if not self._said:
            added = self.renderer.opening(text, self.system)
        else:
            added = self.renderer.following(text, self._said[-1][-1] if self._said[-1] else None)
        self.ids.extend(added)
        return added, False

    def answered(self, tokens: Sequence[int]) -> None:
        """Append the sampled ids of the answer."""
        self._said.append(tuple(tokens))
        self.ids.extend(tokens)

    def complete(self, completion: Completion) -> str:
        """Append a completion and return its text."""
        self.answered(completion.tokens)
        return self.renderer.decode(completion.tokens)

    def _rebuilt(self, first: int) -> list[int]:
        ids = list(self.renderer.opening(self._asked[first], self.system))
        for said, asked in zip(self._said[first:], self._asked[first + 1 :], strict=True):
            ids.extend(said)
            ids.extend(self.renderer.following(asked, said[-1] if said else None))
        return ids
