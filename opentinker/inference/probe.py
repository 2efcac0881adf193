"""Proof that what was published is served: a mixed batch's logprobs against the learner's."""

from __future__ import annotations

from collections.abc import Sequence

from opentinker.errors import PublishError
from opentinker.types import (
    BASE,
    Completion,
    PolicyVersion,
    Sampler,
    SampleRequest,
    SamplingParams,
)


async def probe(
    engine: Sampler,
    versions: Sequence[PolicyVersion],
    prompts: Sequence[tuple[int, ...]],
    base: bool = True,
    max_tokens: int = 8,
) -> list[tuple[SampleRequest, Completion]]:
    """Ask each version and the base for each prompt, all in one call, each with a seed of its own.

    Mixed, because engines were seen to fail only there: base rows answered with another adapter's
    weights while every slot was taken. `base` is False for an engine of whole weights.
    """
    asked = [*versions, *([PolicyVersion(BASE, 0)] if base else [])]
    requests = [
        SampleRequest(
            policy=version.policy,
            prompt_ids=tuple(prompt),
            params=SamplingParams(max_tokens=max_tokens, seed=index * len(asked) + place),
            version=version.version,
        )
        for index, prompt in enumerate(prompts)
        for place, version in enumerate(asked)
    ]
    completions = await engine.sample(requests)
    return list(zip(requests, completions, strict=True))


def compare(
    probed: Sequence[tuple[SampleRequest, Completion]],
    learner_logprobs: Sequence[Sequence[float]],
    tolerance: float,
) -> float:
    """The largest absolute difference; `learner_logprobs[i][t]` is of token t of completion i.

    PublishError, naming policy, version and figure, where it is above `tolerance` or no number.
    """
    worst = 0.0
    for (request, completion), scores in zip(probed, learner_logprobs, strict=True):
        who = f"policy {request.policy!r} version {completion.version}"
        if completion.version != request.version:
            raise PublishError(f"{who} answered where version {request.version} was asked for")
        if len(scores) != len(completion.logprobs):
            raise PublishError(
                f"{who}: the engine gave {len(completion.logprobs)} logprobs, "
                f"the learner {len(scores)}"
            )
        gaps = [abs(a - b) for a, b in zip(completion.logprobs, scores, strict=True)]
        for gap in gaps:
            if not gap <= tolerance:
                raise PublishError(
                    f"{who} does not answer as the learner does: a logprob is off by {gap:.3g}, "
                    f"allowed is {tolerance:.3g}"
                )
        worst = max([worst, *map(float, gaps)])
    return worst
