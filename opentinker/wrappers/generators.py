"""Random numbers of a game's own for libraries that draw from the process-wide generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class OwnGenerators:
    """States of Python's and NumPy's generators that follow from `seed`, and from what is drawn.

    Not for two threads at once: what is put aside is the whole process's.
    """

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed % 2**32).get_state()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """These states within, everybody else's untouched outside."""
        python, numpy = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()
            random.setstate(python)
            np.random.set_state(numpy)
