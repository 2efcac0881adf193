"""Conversations and preferences as token ids with weights, none longer than the model takes.

Axes: T tokens of one example.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opentinker.errors import ConfigError
from opentinker.rendering import Conversation, Renderer
from opentinker.scheduler.dataset import Answer, Chat, Pair

log = logging.getLogger(__name__)

Example = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Ids [T], and what each of them counts in the loss [T]."""


def render_chat(chat: Chat, renderer: Renderer) -> Example:
    """The ids of a conversation; each answer's tokens, its end included, have its weight."""
    return _render(chat.system, chat.asked, chat.answers, renderer)


def render_pair(pair: Pair, renderer: Renderer) -> tuple[Example, Example]:
    """The prompt with the chosen answer and with the rejected one, whose tokens alone weigh 1."""
    before = tuple(Answer(answer.text, 0.0) for answer in pair.answers)
    chosen, rejected = (
        _render(pair.system, pair.asked, (*before, Answer(text)), renderer)
        for text in (pair.chosen, pair.rejected)
    )
    return chosen, rejected


def within(items: Sequence[tuple[Example, ...]], limit: int | None) -> list[tuple[Example, ...]]:
    """The items none of whose examples has more than `limit` tokens; the others are logged.

    ConfigError where every item is longer.
    """
    lengths = [max(len(ids) for ids, _ in item) for item in items]
    kept = [
        item
        for item, length in zip(items, lengths, strict=True)
        if limit is None or length <= limit
    ]
    if not kept:
        raise ConfigError(
            f"all {len(items)} examples are too long: the shortest has {min(lengths)} tokens, the "
            f"limit is {limit} (fit.max_length, else the model's context)"
        )
    if len(kept) < len(items):
        log.warning(
            "%d of %d examples are longer than %s tokens and left out",
            len(items) - len(kept),
            len(items),
            limit,
        )
    return kept


def length_limit(model: Path, wanted: int | None) -> int | None:
    """`wanted`, else how many tokens the model takes; ConfigError where it takes fewer."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config", config)  # where a model reads more than text
    context = config.get("max_position_embeddings")
    if wanted is not None and context is not None and wanted > context:
        raise ConfigError(
            f"fit.max_length = {wanted}: the model in {str(model)!r} takes at most {context} tokens"
        )
    return wanted or context


def _render(
    system: str, asked: Sequence[str], answers: Sequence[Answer], renderer: Renderer
) -> Example:
    conversation = Conversation(renderer, system)
    weights: list[float] = []
    for text, answer in zip(asked, answers, strict=True):
        added, _ = conversation.ask(text)
        ids = renderer.answer_ids(answer.text)
        conversation.answered(ids)
        weights += [0.0] * len(added) + [answer.weight] * len(ids)
    return np.array(conversation.ids, np.int32), np.array(weights, np.float32)
