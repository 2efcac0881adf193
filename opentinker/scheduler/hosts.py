"""The host of a tuner: a plain class, which `opentinker.scheduler.cluster` makes an actor.

Torch is loaded when one is made, not when this module is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Items = Sequence[tuple[tuple[NDArray[np.int32], NDArray[np.float32]], ...]]


class TunerHost:
    """Makes the tiny model, and fits a model or an adapter over it, some steps a call."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._fitted: Any = None
        self._fit: Any = None

    def make_tiny(self, folder: str, corpus: Sequence[str], options: Mapping[str, Any]) -> str:
        from opentinker.learner.tiny_model import make_tiny

        return str(make_tiny(Path(folder), corpus, **options))

    def begin(self, model: str, items: Items, options: Mapping[str, Any]) -> dict[str, int]:
        """Take what is to be fitted; returns how many `steps` there are, and looks `every` so many.

        `options`: `settings` of the fit, the `adapter`'s shape or None, DPO's `beta` or None for
        cross-entropy.
        """
        from opentinker.learner.fitted import Fitted
        from opentinker.learner.fitting import FitSettings
        from opentinker.learner.preference import prefer
        from opentinker.learner.supervised import supervise

        settings = FitSettings(**options["settings"])
        adapter, beta = options["adapter"], options["beta"]
        self._fitted = Fitted(model, adapter=adapter, seed=settings.seed, threads=self._threads)
        if beta is None:
            self._fit = supervise(self._fitted, [example for (example,) in items], settings)
        else:
            self._fit = prefer(self._fitted, [(a, b) for a, b in items], settings, beta=beta)
        return {"steps": self._fit.steps, "every": self._fit.every}

    def step(self) -> int:
        """How many steps are done."""
        return self._fit.step

    def advance(self, steps: int) -> list[dict[str, float]]:
        """The metrics of the next steps; fewer when the fit has ended."""
        return list(islice(self._fit, steps))

    def checkpoint(self, folder: str) -> None:
        """Write all that the fit needs to go on into `folder`."""
        self._fit.save(Path(folder))

    def restore(self, folder: str) -> None:
        """Go on from what `checkpoint` wrote, on the same items and options."""
        self._fit.load(Path(folder))

    def finish(self, folder: str) -> dict[str, float]:
        """Save what was fitted; returns whether it `stopped` early, the best `step`, `val_loss`."""
        self._fit.finish()
        self._fitted.save(folder)
        step, value = self._fit.best
        return {"stopped": self._fit.stopped, "step": step, "val_loss": value}
