"""The values that flow from one stage to the next: frozen, picklable, without methods that do work.

Axes: B rows, T tokens, K turns of one seat in one episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

BASE = "base"
"""The policy name under which an engine serves its base model without an adapter."""

Finish = Literal["stop", "length"]
Outcome = Literal["finished", "truncated", "failed"]


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """Named weights at one update count; the weights under it never change."""

    policy: str
    version: int


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """The shape of a LoRA adapter, the one source for learner and engine.

    `targets` are the leaf names of the linear layers that it adapts (`("q_proj", "v_proj")`), or
    `("all-linear",)` for every linear layer but the output head.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...] = ("all-linear",)


@dataclass(frozen=True, slots=True)
class AdapterWeights:
    """One version of a LoRA adapter: float32 arrays under PEFT's saved names, and its shape.

    Names are as in PEFT's `adapter_model.safetensors`:
    `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`.
    """

    spec: AdapterSpec
    tensors: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class FullWeights:
    """One version of a whole model: float32 arrays under transformers' `state_dict` names.

    Tied weights stand there once, under the name that transformers saves them by.
    """

    tensors: Mapping[str, NDArray[np.float32]]


Weights = AdapterWeights | FullWeights


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a completion is drawn. `seed` is the request's own; None uses the engine's generator."""

    max_tokens: int = 16
    temperature: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One prompt for one policy. `version` None means the newest that is published."""

    policy: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What an engine sampled: ids (the end token included when it was sampled) and their logprobs.

    `logprobs[t]` is the natural log of the probability of `tokens[t]` at the sampling temperature.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int
    finish: Finish


class Sampler(Protocol):
    """Whatever answers requests: an engine, or a batching front of one in another process."""

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]: ...


@dataclass(frozen=True, slots=True)
class Message:
    """Words said in an episode; who hears them was fixed when they were written."""

    speaker: str
    text: str
    audience: frozenset[str]
    stage: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer by one seat in one stage: what it saw, what it said, what became of it.

    `observation` is all the text that was shown. `context_ids` are the ids that this turn ADDED to
    the seat's conversation before the answer, so an episode's record grows linearly; with `fresh`
    the conversation was cut and they are the whole prompt (a new trajectory segment). A turn of an
    agent without tokens (script, random) has `policy` None and empty ids.
    """

    index: int
    stage: str
    seat: str
    agent: str
    observation: str
    text: str
    policy: str | None = None
    version: int | None = None
    context_ids: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    fresh: bool = False
    finish: Finish = "stop"
    legal: bool = True
    reason: str = ""
    action: str | None = None
    reward: float = 0.0
    seconds: float = 0.0
    trainable: bool = True
    moment: int = 0
    """turns of one moment were asked at once, none of them knowing the others' answers"""


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """An episode to be played: where it starts, and who sits where.

    Episodes of one `group` start from the same `seed`. `cast` maps seats to agent names of the
    experiment (a policy's name, `random`, ...). `options` goes to the env's reset.
    """

    id: str
    group: str
    seed: int
    cast: Mapping[str, str]
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One play of an env from reset to end; `failed` ones are recorded and never trained on.

    `returns[seat]` is what the env paid the seat in all; a seat's turn rewards sum to it exactly.
    """

    request: EpisodeRequest
    env: str
    protocol: str
    turns: tuple[Turn, ...]
    returns: Mapping[str, float]
    outcome: Outcome
    reason: str = ""
    messages: tuple[Message, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Play:
    """One seat's turns in one episode as a credit estimator sees them: rewards, no tokens."""

    episode: str
    group: str
    env: str
    seat: str
    policy: str
    rewards: NDArray[np.float64]
    """[K] reward of each turn of the seat, in order."""
    stages: tuple[str, ...]
    """[K] the stage of each turn."""
    prompts: tuple[int, ...] = ()
    """[K] a digest of all ids that stood before each turn's answer: equal for equal prompts"""
    values: NDArray[np.float64] | None = None
    """[K] a critic's value of the state in which each turn was asked, where there is a critic"""
    truncated: bool = False
    """the episode was cut: what would have been paid after the last turn is not known"""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One segment of one seat's conversation, as tokens to train on.

    `turn[t]` is the index k of the seat's turn (as in `Play`) that sampled token t, or -1 for a
    token that nobody sampled here (prompt, other seats' words, end tokens put in by the renderer).
    """

    episode: str
    seat: str
    policy: str
    ids: NDArray[np.int32]
    """[T]"""
    turn: NDArray[np.int32]
    """[T]"""
    logprobs: NDArray[np.float32]
    """[T] the engine's logprob of the sampled token; 0 where `turn` is -1"""
    versions: NDArray[np.int32]
    """[T] the version that sampled the token; -1 where `turn` is -1"""


@dataclass(frozen=True, slots=True)
class TrainBatch:
    """Right-padded rows of one policy. Padding is known by `lengths`, never by ids."""

    policy: str
    ids: NDArray[np.int32]
    """[B, T]"""
    lengths: NDArray[np.int32]
    """[B]"""
    trained: NDArray[np.bool_]
    """[B, T] true where the policy itself sampled the token and it is to be trained on"""
    advantages: NDArray[np.float32]
    """[B, T] 0 where not trained"""
    logprobs: NDArray[np.float32]
    """[B, T] the engine's, 0 where not trained"""
    versions: NDArray[np.int32]
    """[B, T] -1 where not trained"""
    targets: NDArray[np.float32] | None = None
    """[B, T] at the first trained token of a turn what a critic should have said before it; NaN
    elsewhere. None without a critic"""


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What one update of one policy did: `metrics` by name, and whether it was skipped and why."""

    policy: str
    version: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""
