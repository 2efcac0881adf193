"""One policy's updates: gradients over micro-batches, optimizer steps, one new version."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Sequence
from pathlib import Path

import torch

from opentinker.errors import CheckpointError, LearningError
from opentinker.learner.chosen import Chosen, check, chosen
from opentinker.learner.critic import Critic
from opentinker.learner.losses import Loss
from opentinker.learner.policy import Policy, Trainable
from opentinker.learner.settings import PolicySettings, at, ends
from opentinker.learner.tally import Tally
from opentinker.learner.terms import Terms
from opentinker.types import TrainBatch, UpdateReport

COUNTS, OPTIMIZER, REFERENCE = "counts.json", "optimizer.pt", "reference"


class PolicyLearner:
    """A policy's optimizer, reference, critic and counts.

    The version goes up with every update, applied or skipped. Nothing here is drawn at random, so
    what `save` writes is all that the next update depends on. Where there is a `kl`, `reference`
    None is a moving copy of the policy.
    """

    def __init__(
        self,
        name: str,
        policy: Trainable,
        loss: Loss,
        settings: PolicySettings,
        reference: Policy | None = None,
    ) -> None:
        self._name = name
        self._policy = policy
        self._settings = settings
        pulled = max(ends(settings.kl)) > 0
        self._copy = policy.copy() if pulled and reference is None else None
        self.critic = Critic(policy) if settings.critic else None
        self._terms = Terms(
            policy, loss, settings, self._copy or reference if pulled else None, self.critic
        )
        self._parameters = list(policy.parameters().values())
        if self.critic is not None:
            self._parameters += self.critic.parameters().values()
        self._optimizer = torch.optim.AdamW(
            self._parameters,
            lr=at(settings.learning_rate, 0.0),
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.version = 0
        self.skipped = 0
        """updates that were not done, or not to the end, for whatever reason"""
        self._not_finite = 0
        """skipped for that reason in a row, up to now"""

    def update(self, batches: Sequence[TrainBatch], progress: float) -> UpdateReport:
        """One update on all `batches`; `progress` in [0, 1] drives the schedules.

        Micro-batches are dealt to the optimizer steps of a pass in turn. A step that is not finite
        is not done, nor are those after it: the weights stay as the steps before it left them.

        Metrics are means over the trained tokens or turns of the steps that were done, but `loss`
        is normalized as set, and `mismatch_*` are over the tokens that the version now being
        updated sampled, absent when there are none. LearningError: `max_skipped` updates in a row
        were not finite. ValueError: batches that `check` refuses.
        """
        for batch in batches:
            check(batch, self._name, self._settings.critic)
        metrics = self._describe(batches)
        cause = "no trained token"
        if metrics["tokens"]:
            used = [batch for batch in batches if batch.trained.any()]
            cause = self._learn(used, progress, metrics)
            self._not_finite = self._not_finite + 1 if cause else 0
        self.version += 1
        self.skipped += bool(cause)
        metrics["skipped"] = float(self.skipped)
        if self._not_finite >= self._settings.max_skipped:
            raise LearningError(
                f"policy {self._name!r}: {self._not_finite} updates in a row were skipped; "
                f"the last, which would have made version {self.version}, because {cause}"
            )
        return UpdateReport(self._name, self.version, metrics, cause)

    def save(self, folder: Path) -> None:
        """Write the policy in the format of its kind, and beside it what else updates need."""
        folder.mkdir(parents=True, exist_ok=True)
        self._policy.save(folder)
        if self._copy is not None:
            self._copy.save(folder / REFERENCE)
        if self.critic is not None:
            self.critic.save(folder)
        torch.save(self._optimizer.state_dict(), folder / OPTIMIZER)
        counts = {"version": self.version, "skipped": self.skipped, "not_finite": self._not_finite}
        (folder / COUNTS).write_text(json.dumps(counts) + "\n")

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote; CheckpointError where it is missing, torn or doesn't fit.

        A policy that was saved without a copy for a reference becomes its own.
        """
        try:
            counts = json.loads((folder / COUNTS).read_text())
            state = torch.load(
                folder / OPTIMIZER, map_location=self._policy.device, weights_only=True
            )
            self._policy.read(folder)
            if self.critic is not None:
                self.critic.read(folder)
            self._optimizer.load_state_dict(state)
            self.version, self.skipped = int(counts["version"]), int(counts["skipped"])
            self._not_finite = int(counts["not_finite"])
        except CheckpointError as error:
            raise CheckpointError(f"policy {self._name!r}: {error}") from error
        except (OSError, ValueError, LookupError, RuntimeError, pickle.UnpicklingError) as error:
            raise CheckpointError(
                f"policy {self._name!r} can't be read from {str(folder)!r}: {error}"
            ) from error
        if self._copy is not None:
            if (folder / REFERENCE).is_dir():
                self._copy.read(folder / REFERENCE)
            else:
                self._copy.take(self._policy)

    def _learn(
        self, batches: Sequence[TrainBatch], progress: float, metrics: dict[str, float]
    ) -> str:
        """Do the optimizer steps; returns why one was not done, else nothing."""
        if self._copy is not None and self.version % self._settings.reference_every == 0:
            self._copy.take(self._policy)
        groups = min(self._settings.minibatches, len(batches))
        passed = [
            chosen(batches[first::groups], self._settings, self._policy.device)
            for first in range(groups)
        ]
        steps = passed * self._settings.epochs
        if len(steps) > 1:
            for each in (each for group in passed for each in group):
                each.proximal = self._terms.logprobs(each)
        tally, cause = Tally(), ""
        for number, group in enumerate(steps, start=1):
            seen = Tally()
            cause = self._gradient(group, progress, seen) or self._step(progress, seen)
            self._optimizer.zero_grad(set_to_none=True)
            if cause:
                cause = cause if len(steps) == 1 else f"in step {number} of {len(steps)} {cause}"
                break
            tally.merge(seen)
        metrics |= tally.means() | {"learning_rate": at(self._settings.learning_rate, progress)}
        return cause

    def _gradient(self, group: Sequence[Chosen], progress: float, seen: Tally) -> str:
        """Add up the gradient of one step; returns why it is of no use, else nothing."""
        total = 0.0
        for each in group:
            loss, values = self._terms.of(each, self.version, progress)
            value = loss.item()
            if not math.isfinite(value):
                return f"the loss is {value} ({each.fault()})"
            loss.backward()
            total += value
            seen.add(values)
        seen.note("loss", total)
        return ""

    def _step(self, progress: float, seen: Tally) -> str:
        """Clip and step; returns why it was not done, else nothing."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._settings.max_grad_norm)
        if not torch.isfinite(norm):
            return f"the gradient's norm is {norm.item()}"
        rate = at(self._settings.learning_rate, progress)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        seen.note("grad_norm", norm.item())
        return ""

    def _describe(self, batches: Sequence[TrainBatch]) -> dict[str, float]:
        """What can be said of the batches without a model."""
        size = sum(batch.ids.size for batch in batches)
        filled = sum(int(batch.lengths.sum()) for batch in batches)
        tokens = sum(int(batch.trained.sum()) for batch in batches)
        ages = sum(int((self.version - batch.versions[batch.trained]).sum()) for batch in batches)
        return {
            "tokens": float(tokens),
            "rows": float(sum(len(batch.ids) for batch in batches)),
            "empty_batches": float(sum(not batch.trained.any() for batch in batches)),
            "padding_share": 1.0 - filled / size if size else 0.0,
            "staleness": ages / tokens if tokens else 0.0,
        }
