"""A fit: batches in a drawn order, an objective, held-out items, an early stop, and its state."""

from __future__ import annotations

import json
import math
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim.lr_scheduler import OneCycleLR

from opentinker.errors import CheckpointError, ConfigError, LearningError
from opentinker.learner.fitted import Fitted
from opentinker.learner.folders import written_whole
from opentinker.learner.rows import Batch, Item, Rows, batches, check_packing, logprobs, usable

EVALUATIONS = 10
"""How often, spread over a fit, the held-out items are looked at where it isn't said."""

_WEIGHTS, _BEST, _OPTIMIZER, _STATE = (
    "weights.safetensors",
    "best.safetensors",
    "optimizer.pt",
    "fit.json",
)


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How items are fitted; ConfigError for numbers that can't be.

    `steps` None is as many as `epochs` take. The learning rate climbs for the share `warmup` of the
    steps, then falls towards 0. The share `validation` of the items is held out and looked at every
    `evaluate_every` steps (None: a tenth of all) and at the end. With `patience` p the fit ends
    after p looks in a row without a lower val_loss, and its result are the weights at the lowest.
    """

    steps: int | None = None
    epochs: float = 1.0
    batch_tokens: int = 8192
    learning_rate: float = 3e-3
    packing: bool = False
    validation: float = 0.05
    evaluate_every: int | None = None
    patience: int | None = None
    warmup: float = 0.05
    decay: Literal["cos", "linear"] = "cos"
    max_grad_norm: float = 1.0
    weight_decay: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        above = {
            name: getattr(self, name)
            for name in ("epochs", "batch_tokens", "learning_rate", "max_grad_norm")
        }
        for name in ("steps", "evaluate_every", "patience"):
            if getattr(self, name) is not None:
                above[name] = getattr(self, name)
        for name, value in above.items():
            if not 0 < value < math.inf:
                raise ConfigError(f"{name} is {value}; it must be above 0")
        for name in ("validation", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it goes from 0 to below 1")
        if self.decay not in ("cos", "linear"):
            raise ConfigError(f"decay is {self.decay!r}; it is 'cos' or 'linear'")
        if self.patience is not None and not self.validation:
            raise ConfigError("patience needs validation above 0: it waits for a better val_loss")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a batch costs: the loss is `total` / `weight`, other metrics are `sums` / `weight`."""

    total: Tensor
    weight: float
    sums: Mapping[str, float] = field(default_factory=dict)


class Objective(Protocol):
    """What is fitted: a cost of the logprobs [N] of a batch's weighted tokens."""

    def begin(self, items: Sequence[Item], score: Score) -> None:
        """Before the first step, and before any weights are restored."""
        ...

    def cost(self, logprobs: Tensor, rows: Rows, places: Sequence[int]) -> Cost:
        """`places` says which of `begin`'s items the batch holds, in order."""
        ...


class Score(Protocol):
    """Gives, batch by batch in a fixed order, each item's place and the weights' logprobs."""

    def __call__(self, places: Sequence[int]) -> Iterator[tuple[Batch, Rows, Tensor]]: ...


@dataclass(slots=True)
class _State:
    """How far a fit is, as JSON."""

    step: int = 0
    epoch: int = 0
    taken: int = 0
    """batches of the epoch that are done"""
    best: float = math.inf
    best_step: int = 0
    worse: int = 0
    """looks in a row that were no better"""
    stopped: bool = False


class Fit(Iterator[dict[str, float]]):
    """Fits `fitted` to items, one step each time the next metrics are asked for.

    The metrics of a step: `step`, `loss` (before the step), what the objective adds, `grad_norm`,
    `learning_rate`, `tokens` (with a weight), `padding_share`, `tokens_per_second` (padding left
    out); at a look also `val_loss` and its kin. LearningError, before the step: a loss or gradient
    that is not finite. ConfigError at once: no item to learn from.

    `save` and `load` carry it over to another process: the steps after are the same to the last
    bit, on the same items, settings and threads.
    """

    def __init__(
        self, fitted: Fitted, items: Sequence[Item], objective: Objective, settings: FitSettings
    ) -> None:
        self._fitted = fitted
        self._items = usable(items)
        self._objective = objective
        self._settings = settings
        if settings.packing:
            check_packing(fitted.network, fitted.device)
        objective.begin(self._items, self._score)
        order = np.random.default_rng(settings.seed).permutation(len(self._items)).tolist()
        count = round(settings.validation * len(order))
        count = min(max(1, count), len(order) - 1) if settings.validation else 0
        self._held_out, self._training = order[:count], order[count:]
        self._state = _State()
        self._epoch = self._batches(0)
        self.steps = settings.steps or self._steps_of(settings.epochs)
        self.every = settings.evaluate_every or max(1, self.steps // EVALUATIONS)
        self._optimizer = torch.optim.AdamW(
            list(fitted.parameters.values()),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._schedule = OneCycleLR(
            self._optimizer,
            max_lr=settings.learning_rate,
            total_steps=self.steps + 1,
            pct_start=settings.warmup,
            anneal_strategy=settings.decay,
            cycle_momentum=False,
        )
        self._best: dict[str, Tensor] = {}

    @property
    def step(self) -> int:
        """Steps that are done."""
        return self._state.step

    @property
    def stopped(self) -> bool:
        """Whether it ended early, for want of a better val_loss."""
        return self._state.stopped

    @property
    def best(self) -> tuple[int, float]:
        """The step with the lowest val_loss, and that; (0, infinity) where nothing was held out."""
        return self._state.best_step, self._state.best

    def __next__(self) -> dict[str, float]:
        state = self._state
        if state.stopped or state.step >= self.steps:
            raise StopIteration
        began = time.perf_counter()
        rate = float(self._schedule.get_last_lr()[0])
        rows, metrics = self._gradient(self._next_batch())
        if not all(map(math.isfinite, metrics.values())):
            raise LearningError(f"step {state.step + 1} at learning rate {rate:.3g}: {metrics}")
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._schedule.step()
        state.step += 1
        seconds = time.perf_counter() - began
        metrics |= {
            "step": float(state.step),
            "learning_rate": rate,
            "tokens": float(len(rows.tokens)),
            "padding_share": 1.0 - rows.filled / rows.ids.numel(),
            "tokens_per_second": rows.filled / seconds,
        }
        if self._held_out and (state.step % self.every == 0 or state.step == self.steps):
            metrics |= self._look()
        return metrics

    def finish(self) -> None:
        """With patience, put the weights with the lowest val_loss in place."""
        if self._best:
            self._fitted.put(self._best)

    def save(self, folder: Path) -> None:
        """Write weights, optimizer, best weights and how far it is; `folder` is whole or not."""
        optimizer = {
            "optimizer": self._optimizer.state_dict(),
            "schedule": self._schedule.state_dict(),
        }
        with written_whole(folder) as beside:
            save_file(self._fitted.copy(), beside / _WEIGHTS)
            if self._best:
                save_file(self._best, beside / _BEST)
            torch.save(optimizer, beside / _OPTIMIZER)
            (beside / _STATE).write_text(json.dumps(asdict(self._state)) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote; CheckpointError where that is missing, torn, or no fit."""
        try:
            record = json.loads((folder / _STATE).read_text(encoding="utf-8"))
            state = _State(**record)
            saved = torch.load(
                folder / _OPTIMIZER, map_location=self._fitted.device, weights_only=True
            )
            self._fitted.put(load_file(folder / _WEIGHTS))
            self._best = load_file(folder / _BEST) if (folder / _BEST).is_file() else {}
            self._optimizer.load_state_dict(saved["optimizer"])
            self._schedule.load_state_dict(saved["schedule"])
        except CheckpointError:
            raise
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            RuntimeError,
            SafetensorError,
            pickle.UnpicklingError,
        ) as error:
            raise CheckpointError(f"a fit can't be read from {str(folder)!r}: {error}") from error
        self._state = state
        self._epoch = self._batches(state.epoch)

    def _gradient(self, batch: Batch) -> tuple[Rows, dict[str, float]]:
        """Leave the clipped gradient of the batch's loss in the parameters."""
        rows = Rows(self._items, batch, self._fitted.device)
        cost = self._objective.cost(logprobs(self._fitted.network, rows), rows, batch.items)
        loss = cost.total / cost.weight
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(
            self._fitted.parameters.values(), self._settings.max_grad_norm
        )
        means = {name: value / cost.weight for name, value in cost.sums.items()}
        return rows, {"loss": loss.item(), **means, "grad_norm": norm.item()}

    def _look(self) -> dict[str, float]:
        """Metrics of the held-out items; remembers whether they are the best so far."""
        found = self.evaluate(self._held_out)
        state, value = self._state, found["loss"]
        if value < state.best:
            state.best, state.best_step, state.worse = value, state.step, 0
            if self._settings.patience is not None:
                self._best = self._fitted.copy()
        else:
            state.worse += 1
            state.stopped = state.worse == self._settings.patience
        return {f"val_{name}": value for name, value in found.items()}

    def evaluate(self, places: Sequence[int] | None = None) -> dict[str, float]:
        """The loss and its kin of the items at `places` (None: all), as the weights are."""
        total, weight, sums = 0.0, 0.0, dict[str, float]()
        for batch, rows, found in self._score(
            range(len(self._items)) if places is None else places
        ):
            cost = self._objective.cost(found, rows, batch.items)
            total += cost.total.item()
            weight += cost.weight
            for name, value in cost.sums.items():
                sums[name] = sums.get(name, 0.0) + value
        return {"loss": total / weight, **{name: each / weight for name, each in sums.items()}}

    def _score(self, places: Sequence[int]) -> Iterator[tuple[Batch, Rows, Tensor]]:
        rng = np.random.default_rng(0)
        for batch in self._batches_of(places, rng):
            rows = Rows(self._items, batch, self._fitted.device)
            with torch.no_grad():
                yield batch, rows, logprobs(self._fitted.network, rows)

    def _next_batch(self) -> Batch:
        state = self._state
        if state.taken == len(self._epoch):
            state.epoch, state.taken = state.epoch + 1, 0
            self._epoch = self._batches(state.epoch)
        state.taken += 1
        return self._epoch[state.taken - 1]

    def _batches(self, epoch: int) -> list[Batch]:
        """The batches of one pass over what is trained on, each pass in an order of its own."""
        rng = np.random.default_rng([self._settings.seed, epoch])
        return self._batches_of(self._training, rng)

    def _batches_of(self, places: Sequence[int], rng: np.random.Generator) -> list[Batch]:
        items = [self._items[place] for place in places]
        found = batches(items, self._settings.batch_tokens, self._settings.packing, rng)
        return [
            Batch(tuple(places[each] for each in batch.items), batch.rows, batch.columns)
            for batch in found
        ]

    def _steps_of(self, epochs: float) -> int:
        """Batches differ in number from pass to pass; a part of a pass is that share of it."""
        whole = sum(len(self._batches(epoch)) for epoch in range(int(epochs)))
        part = epochs - int(epochs)
        return max(1, whole + (round(part * len(self._batches(int(epochs)))) if part else 0))
