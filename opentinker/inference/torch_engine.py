"""The reference engine: transformers and PEFT, one batch at a time, adapters mixed within it.

The requests of one call are one batch (or several of `max_batch`), so that the same calls give the
same answers to the bit whenever they arrive.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Sequence

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.cache_utils import DynamicCache

from opentinker.errors import EngineError
from opentinker.inference.adapters import Adapter
from opentinker.inference.engine import EngineFacts, stop_ids
from opentinker.inference.host import Host, Ticket
from opentinker.types import (
    AdapterWeights,
    Completion,
    PolicyVersion,
    SampleRequest,
    SamplingParams,
)

NO_ADAPTER = "__base__"
"""PEFT's name for rows of the base model in a mixed batch."""

PLACEHOLDER = "placeholder"
"""The adapter that makes a PEFT model of the base before any is published; no row gets it."""


class TorchEngine:
    """`opentinker.inference.Engine` on transformers and PEFT.

    `max_adapters` stay loaded between batches; others are loaded from their files when asked for,
    and a batch that names more of them has them all. `dtype` None is float32. `max_batch` is the
    most rows of one batch.
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
                max_adapters=max_adapters,
                max_rank=max_rank,
                dtype=dtype or "float32",
            )
            return _Backend(network, facts, seed, max_batch)

        self._host = Host("torch", make, work_dir=work_dir)

    @property
    def alive(self) -> bool:
        return self._host.alive

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        return await self._host.sample(requests)

    def publish(self, version: PolicyVersion, weights: AdapterWeights) -> None:
        self._host.publish(version, weights)

    def retire(self, version: PolicyVersion) -> None:
        self._host.retire(version)

    def versions(self) -> list[PolicyVersion]:
        return self._host.versions()

    def facts(self) -> EngineFacts:
        return self._host.facts

    def close(self) -> None:
        self._host.close()


class _Backend:
    """The PEFT model, used by the host's thread alone."""

    def __init__(
        self, network: PreTrainedModel, facts: EngineFacts, seed: int, max_batch: int
    ) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network.to(device)  # pyright: ignore[reportArgumentType]
        placeholder = LoraConfig(r=1, target_modules="all-linear", inference_mode=True)
        self.facts = facts
        self._model = get_peft_model(network, placeholder, PLACEHOLDER).eval()
        assert isinstance(self._model, PeftModel)
        self._device = device
        self._generator = torch.Generator().manual_seed(seed)
        self._max_batch = max_batch
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._batches: deque[Sequence[Ticket]] = deque()

    def load(self, adapter: Adapter) -> None:
        self._read(adapter)
        self._evict(keep={adapter.name})

    def drop(self, adapter: Adapter) -> None:
        if adapter.name in self._loaded:
            del self._loaded[adapter.name]
            self._model.delete_adapter(adapter.name)

    def take(self, tickets: Sequence[Ticket]) -> None:
        for start in range(0, len(tickets), self._max_batch):
            self._batches.append(tickets[start : start + self._max_batch])

    def busy(self) -> bool:
        return bool(self._batches)

    def stop(self) -> None:
        self._loaded.clear()

    def step(self) -> list[tuple[Ticket, Completion | EngineError]]:
        """Answer one batch from its prompts to its last token."""
        if not self._batches:
            return []
        tickets = self._batches.popleft()
        self._fetch([ticket.adapter for ticket in tickets if ticket.adapter is not None])
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
                    adapter_names=batch.names,
                )
            batch.extend(output.logits[:, -1])
        return [(ticket, batch.completion(row)) for row, ticket in enumerate(tickets)]

    def _read(self, adapter: Adapter) -> None:
        """EngineError for tensors that are not of this model, or not all that the spec targets."""
        result = self._model.load_adapter(
            str(adapter.folder),
            adapter_name=adapter.name,
            torch_device=str(self._device),
            autocast_adapter_dtype=False,
            low_cpu_mem_usage=True,
        )
        self._loaded[adapter.name] = None
        missing = [name for name in result.missing_keys if f".{adapter.name}." in name]
        odd = [*result.unexpected_keys, *missing]
        if odd:
            self.drop(adapter)
            raise EngineError(f"{odd[0]!r} does not fit the model and its spec's targets")

    def _fetch(self, adapters: Sequence[Adapter]) -> None:
        needed = {adapter.name: adapter for adapter in adapters}
        for name, adapter in needed.items():
            if name in self._loaded:
                self._loaded.move_to_end(name)
            else:
                self._read(adapter)
        self._evict(keep=set(needed))

    def _evict(self, keep: set[str]) -> None:
        idle = [name for name in self._loaded if name not in keep]
        for name in idle[: max(0, len(self._loaded) - self.facts.max_adapters)]:
            del self._loaded[name]
            self._model.delete_adapter(name)


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
        self.names = [ticket.adapter.name if ticket.adapter else NO_ADAPTER for ticket in tickets]
        self._versions = [
            ticket.adapter.version.version if ticket.adapter else 0 for ticket in tickets
        ]
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
        self.names = [self.names[place] for place in places]
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
