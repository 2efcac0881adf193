"""The learner of one base model: every policy's updates, exports, scores and checkpoints."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from opentinker.errors import CheckpointError, ConfigError, UnknownNameError
from opentinker.learner import critic, losses
from opentinker.learner.adapter import Bare, fresh_adapter, frozen_adapter
from opentinker.learner.folders import written_whole
from opentinker.learner.full import frozen_model, trainable_model
from opentinker.learner.peft_folder import is_adapter
from opentinker.learner.policy import Policy, Trainable, vocabulary
from opentinker.learner.scoring import Sequences, score
from opentinker.learner.settings import (
    COPY,
    FrozenSource,
    FullSource,
    LoraSource,
    PolicySettings,
    Source,
)
from opentinker.learner.update import PolicyLearner
from opentinker.learner.weights import BaseModel
from opentinker.types import BASE, TrainBatch, Trajectory, UpdateReport, Weights

MANIFEST = "learner.json"


class LearnerWorker:
    """Holds one frozen base, policies over it or whole, and an optimizer for each that learns.

    Calls come one at a time. `model` is a folder that transformers saved; `dtype` is that of what
    never learns, None for float32. A policy's first weights depend on `seed` and its name, not on
    when it was added.
    """

    def __init__(
        self, model: str, *, threads: int = 1, seed: int = 0, dtype: str | None = None
    ) -> None:
        torch.set_num_threads(threads)
        self._base = BaseModel(model, dtype=dtype)
        self._seed = seed
        self._dtype = dtype
        self._policies: dict[str, Policy] = {BASE: Bare(self._base)}
        self._frozen: list[str] = []
        self._learners: dict[str, PolicyLearner] = {}

    def add_policy(self, name: str, source: Source, settings: PolicySettings | None = None) -> None:
        """A policy from `source`, which learns as `settings` say; a frozen one has None.

        ConfigError: a name that is taken, weights that are not there or don't fit, a loss or a
        reference that is unknown.
        """
        self._check_name(name)
        if isinstance(source, FrozenSource):
            if settings is not None:
                raise ConfigError(f"policy {name!r} is frozen, and was given settings to learn by")
            self._policies[name] = self._freeze(name, source)
            self._frozen.append(name)
            return
        if settings is None:
            raise ConfigError(f"policy {name!r} learns, and was given no settings")
        loss = losses.of(settings)
        reference = self._reference(name, settings)
        policy = self._make(name, source)
        if reference is not None and vocabulary(reference) != vocabulary(policy):
            raise ConfigError(
                f"policy {name!r} speaks {vocabulary(policy)} tokens, its reference "
                f"{settings.reference!r} {vocabulary(reference)}; they must be the same"
            )
        self._learners[name] = PolicyLearner(name, policy, loss, settings, reference)
        self._policies[name] = policy

    def update(
        self, policy: str, batches: Sequence[TrainBatch], progress: float = 0.0
    ) -> UpdateReport:
        """One update on all `batches` together: see `PolicyLearner.update`."""
        return self._learner(policy).update(batches, progress)

    def export(self, policy: str) -> Weights:
        """A copy of the weights of the policy's newest version; ConfigError for a frozen base."""
        return self._policy(policy).export()

    def version(self, policy: str) -> int:
        """How many updates it has had; 0 for a frozen one."""
        self._policy(policy)
        return self._learners[policy].version if policy in self._learners else 0

    def score(
        self, policy: str, sequences: Sequences, temperature: float = 1.0
    ) -> list[NDArray[np.float32]]:
        """Logprobs [len(tokens)] of each (prompt_ids, tokens) under `policy`, or under `"base"`."""
        return score(self._policy(policy), sequences, temperature)

    def values(self, policy: str, rows: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """What the policy's critic says of each turn [K] in each of its rows, in order.

        ConfigError: the policy has no critic. ValueError: a row of another policy.
        """
        learner = self._learner(policy)
        if learner.critic is None:
            raise ConfigError(f"policy {policy!r} has no critic")
        for row in rows:
            if row.policy != policy:
                raise ValueError(f"a row of policy {row.policy!r} came to policy {policy!r}")
        return critic.values(self._policies[policy], learner.critic, rows)

    def save(self, folder: str | Path) -> None:
        """Write everything that later updates depend on; the folder is there whole or not at all.

        `<folder>/<policy>/` holds a trainable policy as PEFT or transformers saves it, so it can be
        served as it is.
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
        try:
            saved = json.loads((folder / MANIFEST).read_text())["policies"]
        except (ValueError, LookupError, TypeError) as error:
            raise CheckpointError(f"{MANIFEST} in {str(folder)!r} is torn: {error!r}") from error
        if odd := set(saved) ^ self._learners.keys():
            raise CheckpointError(
                f"{str(folder)!r} is of policies {', '.join(saved)}, the learner has "
                f"{', '.join(self._learners)}; {min(odd)!r} is not in both"
            )
        for name, learner in self._learners.items():
            learner.load(folder / name)

    def _make(self, name: str, source: LoraSource | FullSource) -> Trainable:
        if isinstance(source, LoraSource):
            return fresh_adapter(self._base, name, source, self._seed)
        return trainable_model(source.model or self._base.model, self._base.model)

    def _freeze(self, name: str, source: FrozenSource) -> Policy:
        if source.folder is None:
            return Bare(self._base)
        if is_adapter(source.folder):
            return frozen_adapter(self._base, name, source.folder)
        return frozen_model(source.folder, self._dtype)

    def _reference(self, name: str, settings: PolicySettings) -> Policy | None:
        """None is a copy of the policy itself."""
        if settings.reference == COPY:
            return None
        known = [BASE, *self._frozen]
        if settings.reference not in known:
            raise UnknownNameError(
                "reference", settings.reference, [COPY, *known], f"of policy {name!r}"
            )
        return self._policies[settings.reference]

    def _check_name(self, name: str) -> None:
        if name in (BASE, COPY):
            what = "the base model's name" if name == BASE else "a word for a reference"
            raise ConfigError(f"{name!r} is {what}; choose another for the policy")
        if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
            raise ConfigError(
                f"policy {name!r}: a name is of letters, digits, '_', '.' and '-', "
                "and starts with none of the last two"
            )
        if name in self._policies:
            raise ConfigError(f"policy {name!r} is there already; names are unique")

    def _policy(self, name: str) -> Policy:
        if name not in self._policies:
            raise UnknownNameError("policy", name, self._policies)
        return self._policies[name]

    def _learner(self, policy: str) -> PolicyLearner:
        if policy in self._frozen:
            raise ConfigError(f"policy {policy!r} is frozen: it never learns")
        if policy not in self._learners:
            raise UnknownNameError("policy", policy, self._learners)
        return self._learners[policy]
