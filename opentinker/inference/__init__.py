"""Engines: they serve a base model with all its adapters, or one policy of whole weights."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

from opentinker.errors import UnknownNameError
from opentinker.inference.engine import Engine, EngineFacts

__all__ = ["Engine", "EngineFacts", "make_engine"]

logger = logging.getLogger(__name__)

KINDS = ("auto", "torch", "vllm")


def make_engine(kind: str, model: str, **options: Any) -> Engine:
    """Start an engine on the folder `model`; `options` are the keywords that both engines take.

    With `full="bob"` it serves policy "bob" alone, whose whole weights are published to it.

    `auto` is vLLM where it is installed, the torch reference otherwise.
    """
    if kind not in KINDS:
        raise UnknownNameError("engine", kind, KINDS)
    if kind == "auto":
        kind = "vllm" if importlib.util.find_spec("vllm") else "torch"
        logger.info("engine 'auto' is %r here", kind)
    if kind == "vllm":
        from opentinker.inference.vllm_engine import VLLMEngine

        return VLLMEngine(model, **options)
    from opentinker.inference.torch_engine import TorchEngine

    return TorchEngine(model, **options)
