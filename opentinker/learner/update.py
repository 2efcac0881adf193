"""One policy's updates: gradients over all micro-batches, one optimizer step, one new version.

Axes: N trained tokens of one micro-batch, V vocabulary.
"""

from __future__ import annotations

import json
import pickle
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from opentinker.errors import CheckpointError, ConfigError, LearningError
from opentinker.learner import losses
from opentinker.learner.chosen import Chosen, check, token_weights
from opentinker.learner.distributions import (
    divergence,
    entropy,
    log_distribution,
    mismatch,
    token_logprobs,
)
from opentinker.learner.settings import PolicySettings, at, ends
from opentinker.learner.weights import BaseModel, chosen_logits
from opentinker.types import AdapterSpec, TrainBatch, UpdateReport

COUNTS, OPTIMIZER, REFERENCE = "counts.json", "optimizer.pt", "reference"


class PolicyLearner:
    """An adapter's optimizer, its reference, and its counts.

    The version goes up with every update, applied or skipped. Nothing here is drawn at random, so
    what `save` writes is all that the next update depends on.
    """

    def __init__(
        self, base: BaseModel, policy: str, spec: AdapterSpec, settings: PolicySettings, seed: int
    ) -> None:
        if not re.fullmatch(r"\w[\w.-]*", policy, re.ASCII):
            raise ConfigError(
                f"policy {policy!r}: a name is of letters, digits, '_', '.' and '-', "
                "and starts with none of the last two"
            )
        cap = settings.importance_cap
        self._loss = losses.make(settings.loss, **({} if cap is None else {"importance_cap": cap}))
        base.add_adapter(policy, spec, seed)
        self._reference = f"{policy}@{REFERENCE}" if max(ends(settings.kl)) > 0 else None
        if self._reference is not None:
            base.add_adapter(self._reference, spec, seed)
        self._base = base
        self._policy = policy
        self._settings = settings
        self._parameters = list(base.parameters(policy).values())
        self._optimizer = torch.optim.AdamW(
            self._parameters,
            lr=at(settings.learning_rate, 0.0),
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.version = 0
        self.skipped = 0
        """updates that changed nothing, for whatever reason"""
        self._not_finite = 0
        """skipped for that reason in a row, up to now"""

    def update(self, batches: Sequence[TrainBatch], progress: float) -> UpdateReport:
        """One optimizer step on all `batches` together; `progress` in [0, 1] drives the schedules.

        Metrics are means over the trained tokens, but `loss` is normalized as set, and
        `mismatch_*` are over the tokens that the version now being updated sampled, absent when
        there are none. LearningError: `max_skipped` updates in a row were not finite. ValueError:
        batches of another policy, or that train on padding or on a row's first token.
        """
        for batch in batches:
            check(batch, self._policy)
        metrics = self._describe(batches)
        cause = "no trained token"
        if metrics["tokens"]:
            cause = self._accumulate(batches, progress, metrics) or self._step(progress, metrics)
            self._not_finite = self._not_finite + 1 if cause else 0
            self._optimizer.zero_grad(set_to_none=True)
        self.version += 1
        self.skipped += bool(cause)
        metrics["skipped"] = float(self.skipped)
        if self._not_finite >= self._settings.max_skipped:
            raise LearningError(
                f"policy {self._policy!r}: {self._not_finite} updates in a row were skipped; "
                f"the last, which would have made version {self.version}, because {cause}"
            )
        return UpdateReport(self._policy, self.version, metrics, cause)

    def save(self, folder: Path) -> None:
        """Write the adapter in PEFT's format, and beside it the optimizer, reference and counts."""
        self._base.save_peft(self._policy, folder)
        if self._reference is not None:
            self._base.save_peft(self._reference, folder / REFERENCE)
        torch.save(self._optimizer.state_dict(), folder / OPTIMIZER)
        counts = {"version": self.version, "skipped": self.skipped, "not_finite": self._not_finite}
        (folder / COUNTS).write_text(json.dumps(counts) + "\n")

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote; CheckpointError where it is missing, torn or doesn't fit.

        A policy that was saved without a reference becomes its own.
        """
        try:
            counts = json.loads((folder / COUNTS).read_text())
            state = torch.load(
                folder / OPTIMIZER, map_location=self._base.device, weights_only=True
            )
            self._base.read_peft(self._policy, folder)
            self._optimizer.load_state_dict(state)
            self.version, self.skipped = int(counts["version"]), int(counts["skipped"])
            self._not_finite = int(counts["not_finite"])
        except CheckpointError:
            raise
        except (OSError, ValueError, LookupError, RuntimeError, pickle.UnpicklingError) as error:
            raise CheckpointError(
                f"policy {self._policy!r} can't be read from {str(folder)!r}: {error}"
            ) from error
        if self._reference is not None:
            if (folder / REFERENCE).is_dir():
                self._base.read_peft(self._reference, folder / REFERENCE)
            else:
                self._base.copy_adapter(self._policy, self._reference)

    def _accumulate(
        self, batches: Sequence[TrainBatch], progress: float, metrics: dict[str, float]
    ) -> str:
        """Add up gradients and metrics; returns why they are of no use, else nothing."""
        if self._reference is not None and self.version % self._settings.reference_every == 0:
            self._base.copy_adapter(self._policy, self._reference)
        loss_sum, worst = 0.0, 0.0
        sums: dict[str, float] = defaultdict(float)
        weights = token_weights(batches, self._settings.normalization)
        for batch, own in zip(batches, weights, strict=True):
            if not len(own):
                continue
            chosen = Chosen(batch, own, self._base.device)
            loss, tokens = self._loss_of(chosen, progress)
            value = loss.item()
            if not torch.isfinite(loss):
                return f"the loss is {value} ({chosen.fault()})"
            loss.backward()
            loss_sum += value
            worst = max(worst, tokens.pop("gap").abs().max().item())
            for name, values in tokens.items():
                sums[name] += values.sum().item()
        metrics["loss"] = loss_sum
        metrics |= {name: value / metrics["tokens"] for name, value in sums.items()}
        current = sum(
            int((batch.versions[batch.trained] == self.version).sum()) for batch in batches
        )
        if current:
            metrics["mismatch_kl"] = sums["mismatch_kl"] / current
            metrics["mismatch_max"] = worst
        else:
            del metrics["mismatch_kl"]
        return ""

    def _loss_of(self, chosen: Chosen, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The micro-batch's share of the update's loss, and metrics [N] of its tokens."""
        settings = self._settings
        reference = None
        if self._reference is not None:
            with torch.no_grad():
                reference = self._distribution(self._reference, chosen)
        distribution = self._distribution(self._policy, chosen)
        logprobs = token_logprobs(distribution, chosen.tokens)
        loss, metrics = self._loss(logprobs, chosen.old_logprobs, chosen.advantages, chosen.weights)
        spread = entropy(distribution)
        if bonus := at(settings.entropy, progress):
            loss = loss - bonus * (chosen.weights * spread).sum()
        metrics["entropy"] = spread.detach()
        if reference is not None:
            apart = divergence(distribution, reference)
            loss = loss + at(settings.kl, progress) * (chosen.weights * apart).sum()
            metrics["kl"] = apart.detach()
        gap = torch.where(
            chosen.versions == self.version, logprobs.detach() - chosen.old_logprobs, 0.0
        )
        metrics |= {"gap": gap, "mismatch_kl": mismatch(gap)}
        return loss, metrics

    def _distribution(self, name: str, chosen: Chosen) -> Tensor:
        """Log-probabilities [N, V] of what may stand at each trained token."""
        with self._base.active(name):
            logits = chosen_logits(self._base.network, chosen.ids, chosen.rows, chosen.before)
        return log_distribution(logits, self._settings.temperature)

    def _step(self, progress: float, metrics: dict[str, float]) -> str:
        """Clip and step; returns why it was not done, else nothing."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._settings.max_grad_norm)
        if not torch.isfinite(norm):
            return f"the gradient's norm is {norm.item()}"
        rate = at(self._settings.learning_rate, progress)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        metrics |= {"grad_norm": norm.item(), "learning_rate": rate}
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
