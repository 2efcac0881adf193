"""LoRA kernels for vLLM on a CPU: a batch's rows grouped by adapter, one small product for each.

vLLM's own CPU kernels gather an adapter's weights for every token, which makes a batch with
adapters several times slower than the base model; and they read the slot -1 of a row without an
adapter as the last slot, which answers base requests with another adapter's weights where every
slot is taken. These leave such rows alone. experiments/benchmarks/lora_kernels.py measures both.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
import vllm
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
from vllm.platforms.cpu import CpuPlatform

logger = logging.getLogger(__name__)

WRITTEN_FOR = (0, 32)
"""The vLLM version whose wrapper is replaced; another one keeps its own kernels."""

Rows = slice | torch.Tensor


class GroupedPunicaWrapper(PunicaWrapperCPU):
    """vLLM's CPU wrapper with its products replaced; its bookkeeping is as it was."""

    _token_groups: list[tuple[int, Rows]]
    _sampler_groups: list[tuple[int, Rows]]

    def update_metadata(self, *args: Any, **kwargs: Any) -> None:
        """vLLM calls it once a step where the mapping of rows to adapters changed."""
        super().update_metadata(*args, **kwargs)
        self._token_groups = group_rows(self.token_lora_indices)
        self._sampler_groups = group_rows(self.sampler_indices)

    def add_lora_linear(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: tuple[torch.Tensor, ...],
        lora_b_stacked: tuple[torch.Tensor, ...],
        scale: float,
        output_slices: tuple[int, ...],
        *,
        buffer: tuple[torch.Tensor, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        """y [T, out] += (x [T, in] A^T) B^T scale; an A and a B for each slice of the output."""
        for slot, rows in self._token_groups:
            own = x[rows].float()
            left = 0
            for a, b, width in zip(lora_a_stacked, lora_b_stacked, output_slices, strict=True):
                delta = _product(own, a, b, slot, scale)
                _add(y[:, left : left + width], rows, delta)
                left += width

    def add_lora_logits(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_a_stacked: torch.Tensor,
        lora_b_stacked: torch.Tensor,
        scale: float,
        *,
        buffer: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> None:
        """y [B, vocab] += (x [B, in] A^T) B^T scale; y may be padded beyond the vocabulary."""
        y = y.view(-1, y.shape[-1])
        x = x.view(-1, x.shape[-1])
        for slot, rows in self._sampler_groups:
            delta = _product(x[rows].float(), lora_a_stacked, lora_b_stacked, slot, scale)
            width = min(delta.shape[1], y.shape[1])
            _add(y[:, :width], rows, delta[:, :width])

    def add_lora_embedding(
        self,
        y: torch.Tensor,
        x: torch.Tensor,
        lora_b_stacked: torch.Tensor,
        add_inputs: bool = True,
        **kwargs: Any,
    ) -> None:
        """y [T, out] += x [T, rank] B^T, x being the rows of A that the tokens looked up."""
        for slot, rows in self._token_groups:
            delta = x[rows].float() @ _weight(lora_b_stacked, slot).T
            _add(y[:, : delta.shape[1]], rows, delta)


def group_rows(slots: torch.Tensor) -> list[tuple[int, Rows]]:
    """The rows of each slot in `slots` [N]; a slice where they are neighbours, -1 left out."""
    groups: list[tuple[int, Rows]] = []
    for slot in torch.unique(slots).tolist():
        if slot < 0:
            continue
        rows = torch.nonzero(slots == slot).squeeze(1)
        first, last = int(rows[0]), int(rows[-1])
        together = last - first + 1 == len(rows)
        groups.append((slot, slice(first, last + 1) if together else rows))
    return groups


def install() -> bool:
    """Have engines made from now on in this process use these kernels; False where they can't."""
    if tuple(vllm.__version_tuple__[:2]) != WRITTEN_FOR:
        logger.warning(
            "vLLM %s keeps its own, slower LoRA kernels: ours are written for %d.%d",
            vllm.__version__,
            *WRITTEN_FOR,
        )
        return False
    name = f"{GroupedPunicaWrapper.__module__}.{GroupedPunicaWrapper.__qualname__}"
    CpuPlatform.get_punica_wrapper = classmethod(lambda cls: name)  # pyright: ignore[reportAttributeAccessIssue]
    return True


def _weight(stacked: torch.Tensor, slot: int) -> torch.Tensor:
    """The slot's matrix of [slots, 1, out, in] or [slots, out, in], in float32 as vLLM has it."""
    weight = stacked[slot]
    return (weight[0] if weight.dim() == 3 else weight).float()


def _product(
    x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, slot: int, scale: float
) -> torch.Tensor:
    delta = (x @ _weight(a, slot).T) @ _weight(b, slot).T
    return delta if scale == 1.0 else delta * scale


def _add(y: torch.Tensor, rows: Rows, delta: torch.Tensor) -> None:
    if isinstance(rows, slice):
        y[rows] += delta.to(y.dtype)
    else:
        y.index_add_(0, rows, delta.to(y.dtype))
