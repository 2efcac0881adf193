"""Both engines through the same claims, against a plain forward pass of transformers and PEFT."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence

import pytest

from opentinker.errors import EngineError, PublishError
from opentinker.inference import Engine
from opentinker.inference.probe import compare, probe
from opentinker.types import (
    AdapterSpec,
    AdapterWeights,
    Completion,
    PolicyVersion,
    SampleRequest,
    SamplingParams,
)

# vLLM's start looks at every attribute of torch.distributed, and imports torch's compiler.
pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.distributed.reduce_op` is deprecated:FutureWarning",
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
)

Reference = Callable[[str, Sequence[int], Sequence[int], float], list[float]]
Distributions = Callable[[str, Sequence[int], Sequence[int], float], list[list[float]]]

END = 1
PEOPLE = ("base", "wide", "narrow", "other")


def ask(engine: Engine, *requests: SampleRequest) -> list[Completion]:
    return asyncio.run(engine.sample(requests))


def prompt(seed: int, length: int) -> tuple[int, ...]:
    source = random.Random(seed)
    return tuple(source.randrange(2, 200) for _ in range(length))


def mixed(count: int, **params: float) -> list[SampleRequest]:
    """Requests of unlike lengths, limits and seeds, the policies taking turns."""
    return [
        SampleRequest(
            PEOPLE[i % len(PEOPLE)],
            prompt(i, 3 + (7 * i) % 29),
            SamplingParams(
                max_tokens=int(params.get("max_tokens", 4 + i % 9)),
                temperature=params.get("temperature", (1.0, 0.5, 1.7)[i % 3]),
                seed=100 + i,
            ),
        )
        for i in range(count)
    ]


def gap(logprobs: Sequence[float], expected: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(logprobs, expected, strict=True))


def test_logprobs_of_a_mixed_batch_are_those_of_a_plain_forward_pass(
    engine: Engine, reference: Reference
) -> None:
    requests = mixed(48)
    worst, control = 0.0, math.inf
    for request, answer in zip(requests, ask(engine, *requests), strict=True):
        asked = (request.prompt_ids, answer.tokens, request.params.temperature)
        worst = max(worst, gap(answer.logprobs, reference(request.policy, *asked)))
        if request.policy != "base" and len(answer.tokens) > 3:
            control = min(control, gap(answer.logprobs, reference("base", *asked)))
    assert worst < 1e-4
    assert control > 0.05


def test_the_base_is_exact_while_every_adapter_slot_is_taken(
    engine: Engine, reference: Reference, weights: dict[str, AdapterWeights]
) -> None:
    """max_adapters is 3: a fourth takes the last slot there is, and the base is right beside it."""
    engine.publish(PolicyVersion("fourth", 1), weights["wide"])
    requests = mixed(12, max_tokens=12)
    requests += [
        SampleRequest("fourth", request.prompt_ids, request.params) for request in requests
    ]
    for request, answer in zip(requests, ask(engine, *requests), strict=True):
        who = "wide" if request.policy == "fourth" else request.policy
        expected = reference(who, request.prompt_ids, answer.tokens, request.params.temperature)
        assert gap(answer.logprobs, expected) < 1e-4
    engine.retire(PolicyVersion("fourth", 1))


def test_temperature_zero_takes_the_likeliest_and_reports_the_raw_logprob(
    engine: Engine, distributions: Distributions
) -> None:
    greedy = mixed(8, max_tokens=6, temperature=0.0)
    warm = mixed(8, max_tokens=6, temperature=1.0)
    answers = ask(engine, *greedy, *warm)[:8]
    for request, answer in zip(greedy, answers, strict=True):
        rows = distributions(request.policy, request.prompt_ids, answer.tokens, 1.0)
        assert gap(answer.logprobs, [max(row) for row in rows]) < 1e-4
    assert [answer.tokens for answer in answers] == [
        answer.tokens for answer in ask(engine, *greedy)
    ]


def test_a_seed_gives_the_same_tokens_whatever_else_is_in_the_batch(engine: Engine) -> None:
    requests = mixed(24)
    together = ask(engine, *requests)
    alone = [ask(engine, request)[0] for request in requests]
    backwards = ask(engine, *reversed(requests))[::-1]
    assert [one.tokens for one in together] == [one.tokens for one in backwards]
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    for one, other in zip(together, alone, strict=True):
        assert gap(one.logprobs, other.logprobs) < 1e-4


def test_other_seeds_give_other_tokens_and_no_seed_gives_new_ones(engine: Engine) -> None:
    def request(seed: int | None) -> SampleRequest:
        return SampleRequest("base", (5, 6, 7), SamplingParams(max_tokens=8, seed=seed))

    seeded = {answer.tokens for answer in ask(engine, *map(request, range(20)))}
    unseeded = {answer.tokens for answer in ask(engine, *[request(None)] * 20)}
    assert len(seeded) > 15
    assert len(unseeded) > 15


def test_sampled_frequencies_are_the_probabilities(
    engine: Engine, distributions: Distributions
) -> None:
    """600 draws of one token: the five likeliest within four standard errors."""
    requests = [
        SampleRequest("wide", (9, 8, 7), SamplingParams(max_tokens=1, temperature=0.7, seed=seed))
        for seed in range(600)
    ]
    drawn = [answer.tokens[0] for answer in ask(engine, *requests)]
    mass = [math.exp(logprob) for logprob in distributions("wide", (9, 8, 7), [0], 0.7)[0]]
    for token in sorted(range(200), key=mass.__getitem__)[-5:]:
        error = math.sqrt(mass[token] * (1 - mass[token]) / 600)
        assert abs(drawn.count(token) / 600 - mass[token]) < 4 * error


def test_seeded_requests_with_more_prompt_than_a_step_takes_are_answered(
    engine: Engine, reference: Reference
) -> None:
    """24 prompts of 300 tokens: prefilled in pieces, a seeded request kills vLLM 0.32 on a CPU."""
    requests = [
        SampleRequest(PEOPLE[i % 4], prompt(500 + i, 300), SamplingParams(max_tokens=4, seed=i))
        for i in range(24)
    ]
    for request, answer in zip(requests, ask(engine, *requests), strict=True):
        expected = reference(request.policy, request.prompt_ids, answer.tokens, 1.0)
        assert gap(answer.logprobs, expected) < 1e-4


def test_a_completion_ends_with_its_end_token_or_at_its_limit(engine: Engine) -> None:
    requests = [
        SampleRequest("base", prompt(i, 5), SamplingParams(max_tokens=40, temperature=2.0, seed=i))
        for i in range(60)
    ]
    answers = ask(engine, *requests)
    assert {answer.finish for answer in answers} == {"stop", "length"}
    for answer in answers:
        assert END not in answer.tokens[:-1]
        assert (answer.finish == "stop") == (answer.tokens[-1] == END)
        assert answer.finish == "stop" or len(answer.tokens) == 40
        assert len(answer.logprobs) == len(answer.tokens)


def test_a_completion_ends_where_the_model_has_no_more_positions(engine: Engine) -> None:
    longest = engine.facts().max_model_len
    request = SampleRequest("base", prompt(1, longest - 3), SamplingParams(max_tokens=50, seed=3))
    answer = ask(engine, request)[0]
    assert answer.finish == "length"
    assert len(answer.tokens) == 3


def test_a_new_version_answers_and_the_old_one_still_does_until_it_is_retired(
    engine: Engine, reference: Reference, weights: dict[str, AdapterWeights]
) -> None:
    old, new = PolicyVersion("growing", 1), PolicyVersion("growing", 2)
    question = (3, 14, 15, 92)
    engine.publish(old, weights["wide"])
    before = ask(engine, SampleRequest("growing", question, SamplingParams(seed=4)))[0]
    engine.publish(new, weights["other"])
    assert {old, new} <= set(engine.versions())
    newest, kept = ask(
        engine,
        SampleRequest("growing", question, SamplingParams(seed=4)),
        SampleRequest("growing", question, SamplingParams(seed=4), version=1),
    )
    assert (before.version, newest.version, kept.version) == (1, 2, 1)
    assert before.tokens == kept.tokens
    assert gap(newest.logprobs, reference("other", question, newest.tokens, 1.0)) < 1e-4
    assert gap(kept.logprobs, reference("wide", question, kept.tokens, 1.0)) < 1e-4
    engine.retire(old)
    assert old not in engine.versions()
    with pytest.raises(EngineError, match=r"'growing' has no version 1 here; published: 2"):
        ask(engine, SampleRequest("growing", question, SamplingParams(), version=1))
    engine.publish(old, weights["narrow"])
    again = ask(engine, SampleRequest("growing", question, SamplingParams(seed=4), version=1))[0]
    assert gap(again.logprobs, reference("narrow", question, again.tokens, 1.0)) < 1e-4
    engine.retire(old)
    engine.retire(new)


def test_a_request_under_way_finishes_on_the_version_it_began_with(
    engine: Engine, reference: Reference, weights: dict[str, AdapterWeights]
) -> None:
    first, second = PolicyVersion("moving", 1), PolicyVersion("moving", 2)
    engine.publish(first, weights["wide"])
    requests = [
        SampleRequest("moving", prompt(i, 20), SamplingParams(max_tokens=100, seed=i))
        for i in range(8)
    ]

    async def meanwhile() -> list[Completion]:
        under_way = asyncio.create_task(engine.sample(requests))
        await asyncio.sleep(0.02)
        await asyncio.to_thread(engine.publish, second, weights["other"])
        await asyncio.to_thread(engine.retire, first)
        return await under_way

    for request, answer in zip(requests, asyncio.run(meanwhile()), strict=True):
        assert answer.version == 1
        expected = reference("wide", request.prompt_ids, answer.tokens, 1.0)
        assert gap(answer.logprobs, expected) < 1e-4
    engine.retire(second)


def test_more_versions_than_fit_at_once_are_all_served(
    engine: Engine, reference: Reference, weights: dict[str, AdapterWeights]
) -> None:
    crowd = [PolicyVersion("crowd", number) for number in range(12)]
    sources = [list(weights)[version.version % 3] for version in crowd]
    for version, source in zip(crowd, sources, strict=True):
        engine.publish(version, weights[source])
    requests = [
        SampleRequest("crowd", (2, 4, 6, number), SamplingParams(seed=number), version=number)
        for number in range(12)
    ] + [SampleRequest("base", (2, 4, 6), SamplingParams(seed=1))]
    for _ in range(2):
        answers = ask(engine, *requests)
        for request, answer, source in zip(requests, answers, [*sources, "base"], strict=True):
            expected = reference(source, request.prompt_ids, answer.tokens, 1.0)
            assert gap(answer.logprobs, expected) < 1e-4
    for version in crowd:
        engine.retire(version)


def test_the_probe_finds_a_learner_that_does_not_agree(
    engine: Engine, reference: Reference
) -> None:
    versions = [PolicyVersion(name, 1) for name in PEOPLE[1:]]
    prompts = [prompt(i, 6) for i in range(3)]
    probed = asyncio.run(probe(engine, versions, prompts))
    assert len(probed) == 3 * 4
    scores = [
        reference(request.policy, request.prompt_ids, answer.tokens, 1.0)
        for request, answer in probed
    ]
    assert compare(probed, scores, 1e-3) < 1e-4
    at = next(i for i, (request, _) in enumerate(probed) if request.policy == "narrow")
    scores[at] = reference("base", probed[at][0].prompt_ids, probed[at][1].tokens, 1.0)
    with pytest.raises(PublishError, match=r"'narrow' version 1 .* off by 0\.\d+"):
        compare(probed, scores, 1e-3)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SampleRequest("wdie", (3,), SamplingParams()), r"'wdie'; did you mean 'wide'\?"),
        (SampleRequest("wide", (3,), SamplingParams(), version=7), "no version 7 here"),
        (SampleRequest("base", (3,), SamplingParams(), version=7), "version 0 only, not 7"),
        (SampleRequest("base", (), SamplingParams()), "prompt is empty"),
        (SampleRequest("base", (3, 200), SamplingParams()), "200 is not in the vocabulary of 200"),
        (SampleRequest("base", (3,) * 512, SamplingParams()), "512 tokens; at most 511 fit"),
        (SampleRequest("base", (3,), SamplingParams(max_tokens=0)), "max_tokens is 0"),
        (SampleRequest("base", (3,), SamplingParams(temperature=-1.0)), "temperature is -1"),
        (SampleRequest("base", (3,), SamplingParams(temperature=1e-4)), "temperature is 0.0001"),
        (SampleRequest("base", (3,), SamplingParams(seed=-1)), "seed is -1"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_by_name(
    engine: Engine, request_: SampleRequest, message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        ask(engine, SampleRequest("wide", (3,), SamplingParams()), request_)
    assert engine.alive


def test_weights_that_do_not_fit_are_refused_and_nothing_changes(
    engine: Engine, weights: dict[str, AdapterWeights]
) -> None:
    before = engine.versions()
    version = PolicyVersion("bad", 1)
    tensors = weights["wide"].tensors
    name = next(iter(tensors))
    with pytest.raises(EngineError, match=r"'wide' version 1 is published already"):
        engine.publish(PolicyVersion("wide", 1), weights["wide"])
    with pytest.raises(EngineError, match="rank is 9; the engine takes 1 to 8"):
        engine.publish(version, AdapterWeights(AdapterSpec(9, 9.0), tensors))
    with pytest.raises(EngineError, match="not finite"):
        engine.publish(
            version,
            AdapterWeights(weights["wide"].spec, {**tensors, name: tensors[name] * math.inf}),
        )
    strange = {key.replace("q_proj", "x_proj"): value for key, value in tensors.items()}
    with pytest.raises(EngineError, match="x_proj"):
        engine.publish(version, AdapterWeights(weights["wide"].spec, strange))
    with pytest.raises(EngineError, match="unknown policy 'bad'"):
        engine.retire(version)
    assert engine.versions() == before
    engine.publish(version, weights["wide"])
    engine.retire(version)


def test_facts_tell_what_is_served(engine: Engine, model_folder: str) -> None:
    facts = engine.facts()
    assert (facts.model, facts.vocab_size, facts.max_model_len) == (model_folder, 200, 512)
    assert (facts.stop_ids, facts.dtype) == ((END,), "float32")
    assert (facts.max_adapters, facts.max_rank) == (3, 8)
