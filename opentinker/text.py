"""Text as PettingZoo and Gymnasium accept it: an observation, and the space of all texts."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np


class Text(str):
    """An observation: a `str` with the `dtype` that PettingZoo's `api_test` reads."""

    __slots__ = ()
    dtype = np.dtype(str)


class FreeText(gymnasium.spaces.Text):
    """Any text up to `max_length` characters: empty, with blanks, in any script.

    A sample is one of `words` in brackets half of the time, and else short printable noise.
    """

    def __init__(self, max_length: int = 1_000_000, words: Sequence[str] = ()) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)
        self.words = tuple(words)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        if self.words and self.np_random.random() < 0.5:
            return f"[{self.words[self.np_random.integers(len(self.words))]}]"
        length = min(self.max_length, int(self.np_random.integers(33)))
        return super().sample(mask=(length, None))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"
