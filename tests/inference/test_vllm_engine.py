"""What only vLLM has: kernels of our own on a CPU, and the faults that we build around."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from opentinker.errors import EngineError
from opentinker.types import AdapterWeights, PolicyVersion, SampleRequest, SamplingParams

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings(
        "ignore:`torch.distributed.reduce_op` is deprecated:FutureWarning",
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
    ),
]

ROWS = [2, 0, -1, 0, 1, 1, -1, 2, 2, -1]
"""The slot of each row; all three slots are taken, and -1 is a row of the base."""


def wrappers() -> tuple[Any, Any]:
    """vLLM's CPU wrapper and ours, both told of the same batch."""
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    from opentinker.inference.vllm_cpu_kernels import GroupedPunicaWrapper

    ids = tuple(slot + 1 for slot in ROWS)
    mapping: Any = SimpleNamespace(index_mapping=ids, prompt_mapping=ids, is_prefill=True)
    made = []
    for kind in (PunicaWrapperCPU, GroupedPunicaWrapper):
        wrapper = kind(64, max_batches=16, device=torch.device("cpu"))
        wrapper.update_metadata(mapping, [1, 2, 3], 4, 50)
        made.append(wrapper)
    return made[0], made[1]


def test_the_grouped_kernels_are_exact_and_leave_base_rows_alone_where_every_slot_is_taken() -> (
    None
):
    stock, ours = wrappers()
    torch.manual_seed(0)
    x, y = torch.randn(10, 6), torch.randn(10, 12)
    widths = (4, 5, 3)
    a = tuple(torch.randn(3, 1, 2, 6) for _ in widths)
    b = tuple(torch.randn(3, 1, width, 2) for width in widths)
    expected = y.clone()
    for row, slot in enumerate(ROWS):
        if slot >= 0:
            deltas = [p[slot, 0] @ (q[slot, 0] @ x[row]) for p, q in zip(b, a, strict=True)]
            expected[row] += torch.cat(deltas) * 0.5
    by_ours, by_stock = y.clone(), y.clone()
    ours.add_lora_linear(by_ours, x, a, b, 0.5, widths)
    stock.add_lora_linear(by_stock, x, a, b, 0.5, widths)
    base = torch.tensor(ROWS) < 0
    torch.testing.assert_close(by_ours, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(by_stock[~base], expected[~base], atol=1e-5, rtol=0)
    assert torch.equal(by_ours[base], y[base])
    assert (by_stock[base] - y[base]).abs().max() > 0.1, "the fault is gone: drop our kernels?"


def test_the_grouped_kernels_are_exact_for_output_head_and_embedding() -> None:
    _, ours = wrappers()
    torch.manual_seed(1)
    x, a, b = torch.randn(10, 6), torch.randn(3, 1, 2, 6), torch.randn(3, 1, 50, 2)
    head, embedding = torch.randn(10, 52), torch.randn(10, 50)
    looked_up = torch.randn(10, 2)
    wanted_head, wanted_embedding = head.clone(), embedding.clone()
    for row, slot in enumerate(ROWS):
        if slot >= 0:
            wanted_head[row, :50] += b[slot, 0] @ (a[slot, 0] @ x[row])
            wanted_embedding[row] += b[slot, 0] @ looked_up[row]
    ours.add_lora_logits(head, x, a, b, 1.0)
    ours.add_lora_embedding(embedding, looked_up, b)
    torch.testing.assert_close(head, wanted_head, atol=1e-5, rtol=0)
    torch.testing.assert_close(embedding, wanted_embedding, atol=1e-5, rtol=0)


def test_another_vllm_keeps_its_own_kernels_serves_the_base_right_and_its_death_is_told(
    model_folder: str,
    weights: dict[str, AdapterWeights],
    reference: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from vllm.platforms.cpu import CpuPlatform

    from opentinker.inference import vllm_cpu_kernels
    from opentinker.inference.vllm_engine import VLLMEngine

    stock = "vllm.lora.punica_wrapper.punica_cpu.PunicaWrapperCPU"
    monkeypatch.setattr(CpuPlatform, "get_punica_wrapper", classmethod(lambda cls: stock))
    monkeypatch.setattr(vllm_cpu_kernels, "WRITTEN_FOR", (0, 99))
    engine = VLLMEngine(model_folder, max_adapters=2, max_rank=8, max_batch=32)
    assert "keeps its own, slower LoRA kernels: ours are written for 0.99" in caplog.text
    people = list(weights)
    for name in people:
        engine.publish(PolicyVersion(name, 1), weights[name])
    requests = [
        SampleRequest(("base", *people)[i % 4], (3, 5, 7, i), SamplingParams(max_tokens=6, seed=i))
        for i in range(16)
    ]
    for request, answer in zip(requests, asyncio.run(engine.sample(requests)), strict=True):
        expected = reference(request.policy, request.prompt_ids, answer.tokens, 1.0)
        pairs = zip(answer.logprobs, expected, strict=True)
        assert max(abs(a - b) for a, b in pairs) < 1e-4

    def broken() -> None:
        raise RuntimeError("CPU Generator does not use offset")

    monkeypatch.setattr(engine._backend._engine, "step", broken)  # pyright: ignore
    for _ in range(2):
        with pytest.raises(EngineError, match="vllm engine died: RuntimeError: CPU Generator"):
            asyncio.run(engine.sample(requests))
    assert not engine.alive
    engine.close()


@pytest.mark.parametrize("kind", ["torch", "vllm"])
def test_a_process_ends_though_its_engine_was_never_closed(kind: str, model_folder: str) -> None:
    script = (
        "import asyncio\n"
        "from opentinker.inference import make_engine\n"
        "from opentinker.types import SampleRequest, SamplingParams\n"
        f"engine = make_engine({kind!r}, {model_folder!r}, max_adapters=1, max_rank=8)\n"
        "request = SampleRequest('base', (3, 4), SamplingParams(max_tokens=3))\n"
        "asyncio.run(engine.sample([request]))\n"
        "print('HOME', engine._home)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    home = done.stdout.split("HOME ")[1].strip()
    assert not os.path.exists(home)
