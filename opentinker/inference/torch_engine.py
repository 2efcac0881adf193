"""The reference engine: transformers and PEFT, one batch at a time, adapters mixed within it.

The requests of one call are one batch (or several of `max_batch`), so that the same calls give the
same answers to the bit whenever they arrive.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.cache_utils import DynamicCache

from opentinker.errors import EngineError
from opentinker.inference.adapters import Adapter
from opentinker.inference.backend import Ticket
from opentinker.inference.engine import EngineFacts, stop_ids
from opentinker.inference.host import Host
from opentinker.inference.torch_adapters import AdapterSlots
from opentinker.inference.whole import shapes_of
from opentinker.types import Completion, FullWeights, SamplingParams

NO_ADAPTER = "__base__"
"""PEFT's name for rows of the base model in a mixed batch."""

PLACEHOLDER = "placeholder"
"""The adapter that makes a PEFT model of the base before any is published; no row gets it."""


class TorchEngine(Host):
    """`opentinker.inference.Engine` on transformers and PEFT.

    Twice `max_adapters` stay loaded between batches; others are loaded from their files when asked
    for, and a batch that names more of them has them all. `dtype` None is float32. `max_batch` is
    the most rows of one batch. With `full` that policy's whole weights are served, no adapters.
    """

    def __init__(
        self,
        model: str,
        *,
        max_adapters: int,
        max_rank: int,
        seed: int = 0,
        threads: int = 1,
        max_model_len: int | None = None,
        dtype: str | None = None,
        work_dir: str | None = None,
        max_batch: int = 256,
        full: str | None = None,
    ) -> None:
        ends = stop_ids(model)

        def make() -> _Backend:
            torch.set_num_threads(threads)
            network = AutoModelForCausalLM.from_pretrained(
                model, dtype=getattr(torch, dtype or "float32"), local_files_only=True
            )
            longest = network.config.get_text_config().max_position_embeddings
            facts = EngineFacts(
                kind="torch",
                model=model,
                vocab_size=network.config.get_text_config().vocab_size,
                max_model_len=min(longest, max_model_len or longest),
                stop_ids=ends,
                max_adapters=max_adapters if full is None else 0,
                max_rank=max_rank if full is None else 0,
                dtype=dtype or "float32",
            )
            return _Backend(network, facts, seed, max_batch, adapted=full is None)

        super().__init__("torch", make, work_dir=work_dir, full=full)


class _Backend:
    """The model, a PEFT one where it is `adapted`, used by the host's thread alone."""

    def __init__(
        self,
        network: PreTrainedModel,
        facts: EngineFacts,
        seed: int,
        max_batch: int,
        *,
        adapted: bool,
    ) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network.to(device)  # pyright: ignore[reportArgumentType]
        self.facts = facts
        self.shapes = shapes_of(network)
        self._model: PreTrainedModel | PeftModel = network.eval()
        self._slots: AdapterSlots | None = None
        if adapted:
            placeholder = LoraConfig(r=1, target_modules="all-linear", inference_mode=True)
            made = get_peft_model(network, placeholder, PLACEHOLDER).eval()
            assert isinstance(made, PeftModel)
            # A version is published before the one that it follows is retired.
            self._slots = AdapterSlots(made, 2 * facts.max_adapters)
            self._model = made
        self._device = device
        self._generator = torch.Generator().manual_seed(seed)
        self._max_batch = max_batch
        self._batches: deque[Sequence[Ticket]] = deque()

    def replace(self, weights: FullWeights) -> None:
        held = self._model.state_dict()
        with torch.no_grad():
            for name, array in weights.tensors.items():
                held[name].copy_(torch.tensor(array))

    def load(self, adapter: Adapter) -> None:
        assert self._slots is not None
        self._slots.hold([adapter])

    def drop(self, adapter: Adapter) -> None:
        assert self._slots is not None
        self._slots.drop(adapter)

    def take(self, tickets: Sequence[Ticket]) -> None:
        for start in range(0, len(tickets), self._max_batch):
            self._batches.append(tickets[start : start + self._max_batch])

    def busy(self) -> bool:
        return bool(self._batches)

    def stop(self) -> None:
        self._batches.clear()

    def step(self) -> list[tuple[Ticket, Completion | EngineError]]:
        """Answer one batch from its prompts to its last token."""
        if not self._batches:
            return []
        tickets = self._batches.popleft()
        names = self._names(tickets)
        batch = _Batch(tickets, self.facts, self._generator, self._device)
        while not batch.done():
            with torch.inference_mode():
                output = self._model(
                    input_ids=batch.ids,
                    attention_mask=batch.mask,
                    position_ids=batch.positions,
                    past_key_values=batch.cache,
                    use_cache=True,
                    logits_to_keep=1,
                    **({} if names is None else {"adapter_names": batch.of_rows(names)}),
                )
            batch.extend(output.logits[:, -1])
        return [(ticket, batch.completion(row)) for row, ticket in enumerate(tickets)]

    def _names(self, tickets: Sequence[Ticket]) -> list[str] | None:
        """PEFT's name of each row's adapter; None for a model that has no adapters."""
        if self._slots is None:
            return None
        adapters = [ticket.adapter for ticket in tickets if ticket.adapter is not None]
        slots = iter(self._slots.hold(adapters))
        return [NO_ADAPTER if ticket.adapter is None else next(slots) for ticket in tickets]


class _Batch:
    """The rows of one batch while they grow: left-padded, so that all end in the same column.

    Rows that are done leave; `_row` [B] are the requests that the rows still there belong to.
    """

    def __init__(
        self,
        tickets: Sequence[Ticket],
        facts: EngineFacts,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        prompts = [ticket.request.prompt_ids for ticket in tickets]
        params = [ticket.request.params for ticket in tickets]
        width = max(map(len, prompts))
        self.ids = torch.zeros(len(prompts), width, dtype=torch.long)
        self.mask = torch.zeros(len(prompts), width, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            self.ids[row, width - len(prompt) :] = torch.tensor(prompt)
            self.mask[row, width - len(prompt) :] = 1
        self.ids, self.mask = self.ids.to(device), self.mask.to(device)
        self.positions = (self.mask.cumsum(1) - 1).clamp(min=0)
        self.cache = DynamicCache()
        self._versions = [ticket.version for ticket in tickets]
        self._limits = [
            min(own.max_tokens, facts.max_model_len - len(prompt))
            for own, prompt in zip(params, prompts, strict=True)
        ]
        self._temperatures = torch.tensor([own.temperature for own in params], device=device)
        self._draws = _draws(params, self._limits, generator)
        self._stops = set(facts.stop_ids)
        self._row = list(range(len(prompts)))
        self._tokens: list[list[int]] = [[] for _ in prompts]
        self._logprobs: list[list[float]] = [[] for _ in prompts]

    def done(self) -> bool:
        return not self._row

    def of_rows(self, values: Sequence[str]) -> list[str]:
        """Those of `values` [B] that are of rows still there."""
        return [values[row] for row in self._row]

    def extend(self, logits: torch.Tensor) -> None:
        """Sample a token for every row from `logits` [B, V], and drop the rows that it ends."""
        step = len(self._tokens[self._row[0]])
        draws = torch.stack([self._draws[row][step] for row in self._row])
        tokens, logprobs = sample_tokens(logits, self._temperatures, draws.to(logits.device))
        kept = []
        for place, (token, logprob) in enumerate(
            zip(tokens.tolist(), logprobs.tolist(), strict=True)
        ):
            row = self._row[place]
            self._tokens[row].append(token)
            self._logprobs[row].append(logprob)
            if token not in self._stops and step + 1 < self._limits[row]:
                kept.append(place)
        self.ids = tokens[:, None]
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(self.mask), 1)], dim=1)
        self.positions = self.positions[:, -1:] + 1
        if len(kept) < len(self._row):
            self._keep(kept)

    def completion(self, row: int) -> Completion | EngineError:
        logprobs = tuple(self._logprobs[row])
        if not all(map(math.isfinite, logprobs)):
            return EngineError(f"the model answered with logprobs that are not finite: {logprobs}")
        finish = "stop" if self._tokens[row][-1] in self._stops else "length"
        return Completion(tuple(self._tokens[row]), logprobs, self._versions[row], finish)

    def _keep(self, places: list[int]) -> None:
        self._row = [self._row[place] for place in places]
        if places:
            index = torch.tensor(places, device=self.ids.device)
            self.ids, self.mask = self.ids[index], self.mask[index]
            self.positions, self._temperatures = self.positions[index], self._temperatures[index]
            self.cache.batch_select_indices(index)


def sample_tokens(
    logits: torch.Tensor, temperatures: torch.Tensor, draws: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [B] and their logprobs [B] from `logits` [B, V], by inverting the cumulated mass.

    `draws` [B] in [0, 1) alone decide. A temperature of 0 takes the likeliest token, and its
    logprob is that of the distribution at temperature 1.
    """
    greedy = temperatures == 0
    scale = torch.where(greedy, 1.0, temperatures)[:, None]
    logprobs = torch.log_softmax(logits.float() / scale, dim=-1)
    mass = logprobs.double().exp().cumsum(-1)
    place = torch.searchsorted(mass, draws[:, None] * mass[:, -1:], right=True)
    drawn = place.squeeze(1).clamp(max=logits.shape[-1] - 1)
    tokens = torch.where(greedy, logits.argmax(-1), drawn)
    return tokens, logprobs.gather(1, tokens[:, None]).squeeze(1)


def _draws(
    params: Sequence[SamplingParams], limits: Sequence[int], shared: torch.Generator
) -> list[torch.Tensor]:
    """Numbers in [0, 1), one a token of each row, from the row's own generator if it has a seed."""
    generators = [
        shared if own.seed is None else torch.Generator().manual_seed(own.seed) for own in params
    ]
    return [
        torch.rand(limit, generator=generator, dtype=torch.float64)
        for limit, generator in zip(limits, generators, strict=True)
    ]
