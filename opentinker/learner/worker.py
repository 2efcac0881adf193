"""The learner of one base model: every policy's updates, exports, scores and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from opentinker.errors import CheckpointError, ConfigError, UnknownNameError
from opentinker.learner.folders import written_whole
from opentinker.learner.scoring import Sequences, score
from opentinker.learner.settings import PolicySettings
from opentinker.learner.update import PolicyLearner
from opentinker.learner.weights import BaseModel
from opentinker.types import BASE, AdapterSpec, AdapterWeights, TrainBatch, UpdateReport

MANIFEST = "learner.json"


class LearnerWorker:
    """Holds one frozen base, and an adapter and an optimizer a policy; calls come one at a time.

    `model` is a folder that transformers saved; `dtype` is the base's, None for float32. A policy's
    first weights depend on `seed` and its name, not on when it was added.
    """

    def __init__(
        self, model: str, *, threads: int = 1, seed: int = 0, dtype: str | None = None
    ) -> None:
        torch.set_num_threads(threads)
        self._base = BaseModel(model, dtype=dtype)
        self._seed = seed
        self._learners: dict[str, PolicyLearner] = {}

    def add_policy(self, name: str, spec: AdapterSpec, settings: PolicySettings) -> None:
        """ConfigError: a name that is taken, a spec that doesn't fit the model, an unknown loss."""
        if name == BASE:
            raise ConfigError(f"{BASE!r} is the base model's name; choose another for the policy")
        self._learners[name] = PolicyLearner(self._base, name, spec, settings, self._seed)

    def update(
        self, policy: str, batches: Sequence[TrainBatch], progress: float = 0.0
    ) -> UpdateReport:
        """One optimizer step on all `batches` together: see `PolicyLearner.update`."""
        return self._learner(policy).update(batches, progress)

    def export(self, policy: str) -> AdapterWeights:
        """A copy of the weights of the policy's newest version."""
        self._learner(policy)
        return self._base.export(policy)

    def version(self, policy: str) -> int:
        return self._learner(policy).version

    def score(
        self, policy: str, sequences: Sequences, temperature: float = 1.0
    ) -> list[NDArray[np.float32]]:
        """Logprobs [len(tokens)] of each (prompt_ids, tokens) under `policy`, or under `"base"`."""
        if policy != BASE:
            self._learner(policy)
        return score(self._base, None if policy == BASE else policy, sequences, temperature)

    def save(self, folder: str | Path) -> None:
        """Write everything that later updates depend on; the folder is there whole or not at all.

        `<folder>/<policy>/` holds the adapter as PEFT saves it, so it can be served as it is.
        """
        with written_whole(Path(folder)) as beside:
            for name, learner in self._learners.items():
                learner.save(beside / name)
            manifest = {"model": self._base.model, "policies": list(self._learners)}
            (beside / MANIFEST).write_text(json.dumps(manifest) + "\n")

    def load(self, folder: str | Path) -> None:
        """Go on from what `save` wrote. The same policies must have been added before.

        CheckpointError: a folder that is missing or torn, or of other policies or specs.
        """
        folder = Path(folder)
        if not (folder / MANIFEST).is_file():
            raise CheckpointError(f"no learner's checkpoint in {str(folder)!r}")
        saved = json.loads((folder / MANIFEST).read_text())["policies"]
        if odd := set(saved) ^ self._learners.keys():
            raise CheckpointError(
                f"{str(folder)!r} is of policies {', '.join(saved)}, the learner has "
                f"{', '.join(self._learners)}; {min(odd)!r} is not in both"
            )
        for name, learner in self._learners.items():
            learner.load(folder / name)

    def _learner(self, policy: str) -> PolicyLearner:
        if policy not in self._learners:
            raise UnknownNameError("policy", policy, self._learners)
        return self._learners[policy]
