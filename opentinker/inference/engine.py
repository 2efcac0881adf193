"""The contract of an engine, what it tells about itself, and which requests it takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opentinker.errors import EngineError
from opentinker.types import Completion, PolicyVersion, SampleRequest, Weights

LOWEST_TEMPERATURE = 0.01
"""vLLM samples any lower one but 0 as if it were this."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine serves. `stop_ids` are the tokens that end a completion.

    One that serves whole weights has 0 for `max_adapters` and `max_rank`.
    """

    kind: str
    model: str
    vocab_size: int
    max_model_len: int
    """Prompt and completion together, in tokens."""
    stop_ids: tuple[int, ...]
    max_adapters: int
    max_rank: int
    dtype: str


class Engine(Protocol):
    """Serves one base model and its adapters, or one policy with whole weights of its own.

    Whoever made it closes it.
    """

    @property
    def alive(self) -> bool:
        """False once it died or was closed: make a new one, publish again, ask again."""
        ...

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """The completions in the order of `requests`.

        A request without a version gets the newest at this moment, and finishes on it whatever is
        published or retired meanwhile. Where whole weights are being published it waits, and gets
        the new ones. EngineError: an unknown policy or version, a request that can't be served, an
        engine that died.
        """
        ...

    def publish(self, version: PolicyVersion, weights: Weights) -> None:
        """Serve `version` from now on; when this returns, every new request can have it.

        Whole weights take the place of the version before, once all that it was asked is answered.
        EngineError: a version that is served already, or weights that don't fit; then nothing
        has changed.
        """
        ...

    def retire(self, version: PolicyVersion) -> None:
        """Take no new requests for `version`; it goes from memory and disk with the last answer."""
        ...

    def versions(self) -> list[PolicyVersion]:
        """What can be asked for, sorted, without the base model."""
        ...

    def facts(self) -> EngineFacts: ...

    def close(self) -> None:
        """End the engine's thread, fail what still waits, delete its files. May be called twice."""
        ...


def check_request(request: SampleRequest, facts: EngineFacts) -> None:
    """EngineError for a request that one engine would refuse and another misread."""
    params = request.params
    prompt = request.prompt_ids
    fault = ""
    if not prompt:
        fault = "its prompt is empty; at least one id is needed"
    elif not 0 <= min(prompt) <= max(prompt) < facts.vocab_size:
        odd = min(prompt) if min(prompt) < 0 else max(prompt)
        fault = f"prompt id {odd} is not in the vocabulary of {facts.vocab_size}"
    elif len(prompt) >= facts.max_model_len:
        fault = f"its prompt has {len(prompt)} tokens; at most {facts.max_model_len - 1} fit"
    elif params.max_tokens < 1:
        fault = f"max_tokens is {params.max_tokens}; at least 1 is needed"
    elif params.temperature != 0 and not LOWEST_TEMPERATURE <= params.temperature < float("inf"):
        fault = (
            f"temperature is {params.temperature}; allowed: 0, or {LOWEST_TEMPERATURE} and above"
        )
    elif params.seed is not None and not 0 <= params.seed < 2**63:
        fault = f"seed is {params.seed}; allowed: 0 to 2**63 - 1"
    if fault:
        raise EngineError(f"a request for policy {request.policy!r} can't be served: {fault}")


def model_folder(model: str) -> Path:
    """The folder of `model`, which must be one that transformers saved."""
    folder = Path(model)
    if not (folder / "config.json").is_file():
        raise EngineError(
            f"model {model!r} is not a folder with a config.json; a model of the hub is fetched "
            "first (huggingface_hub.snapshot_download) and named by its folder"
        )
    return folder


def stop_ids(model: str) -> tuple[int, ...]:
    """The end tokens of a model folder: of its generation config (else its config), its tokenizer.

    EngineError where there are none: every completion would run to its limit.
    """
    folder = model_folder(model)
    named = _read(folder / "generation_config.json").get("eos_token_id")
    if named is None:
        named = _read(folder / "config.json").get("eos_token_id")
    ids = set(named if isinstance(named, list) else [] if named is None else [named])
    ids |= _tokenizer_end(folder)
    if not ids:
        raise EngineError(f"model {model!r} names no end token (eos_token_id) in its config")
    return tuple(sorted(ids))


def _tokenizer_end(folder: Path) -> set[int]:
    end = _read(folder / "tokenizer_config.json").get("eos_token")
    word = end.get("content") if isinstance(end, dict) else end
    vocabulary = folder / "tokenizer.json"
    if not word or not vocabulary.is_file():
        return set()
    from tokenizers import Tokenizer

    index = Tokenizer.from_file(str(vocabulary)).token_to_id(word)
    return set() if index is None else {index}


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}
