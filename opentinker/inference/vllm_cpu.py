"""What vLLM 0.32 needs on a CPU: other arguments, and output heads packed again after a reload."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from vllm import EngineArgs

CACHE_BYTES = 2**30
"""The most memory for keys and values; VLLM_CPU_KVCACHE_SPACE (GiB) says otherwise."""

CACHE_BLOCK = 128
"""Tokens of a block of it: what a sequence takes is rounded up to whole blocks."""

STEP_TOKENS = 8192
"""The most tokens of one step, where no single sequence needs more."""


def fit_cpu(arguments: EngineArgs, threads: int, max_batch: int) -> bool:
    """Set what a CPU needs; False where the LoRA kernels are vLLM's own."""
    from opentinker.inference.vllm_cpu_kernels import install

    exact = not arguments.enable_lora or install()
    torch.set_num_threads(threads)
    model = arguments.create_model_config()
    length = model.max_model_len
    heads = model.get_total_num_kv_heads() * model.get_head_size()
    token = 2 * heads * model.get_total_num_hidden_layers() * model.dtype.itemsize
    sequence = token * CACHE_BLOCK * math.ceil(length / CACHE_BLOCK)
    arguments.enforce_eager = True
    arguments.enable_chunked_prefill = False
    arguments.use_tqdm_on_load = False
    arguments.max_model_len = length
    arguments.max_num_batched_tokens = max(length, max_batch, min(STEP_TOKENS, length * max_batch))
    # vLLM keeps one block for itself.
    wanted = sequence * max_batch + token * CACHE_BLOCK
    arguments.kv_cache_memory_bytes = max(min(CACHE_BYTES, wanted), 2 * sequence)
    return exact


def pack_heads(model: nn.Module) -> None:
    """Pack each output head from the weights that it has.

    vLLM computes with a packed copy. A reload makes those of the layers that it loads; a head that
    is tied to the embedding is loaded under the embedding's name, and keeps the copy of its old
    weights: logprobs are then off by 2 and more.
    """
    from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            assert isinstance(module.quant_method, QuantizeMethodBase)
            module.quant_method.process_weights_after_loading(module)
