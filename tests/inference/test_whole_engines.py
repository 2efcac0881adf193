"""Both engines with whole weights, against a plain forward pass of transformers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from opentinker.errors import EngineError
from opentinker.inference import Engine, make_engine
from opentinker.inference.probe import compare, probe
from opentinker.types import (
    Completion,
    FullWeights,
    PolicyVersion,
    SampleRequest,
    SamplingParams,
)

# vLLM's start looks at every attribute of torch.distributed, and imports torch's compiler.
pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.distributed.reduce_op` is deprecated:FutureWarning",
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
)

HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True)
class Served:
    """An engine of policy "bob", and the model it was started on."""

    engine: Engine
    folder: str
    tied: bool

    def publish(self, number: int) -> LlamaForCausalLM:
        """Weights of their own for each number, published; the model that has them."""
        network = LlamaForCausalLM.from_pretrained(self.folder)
        generator = torch.Generator().manual_seed(number)
        for parameter in network.parameters():
            parameter.data += torch.randn(parameter.shape, generator=generator) * 0.1
        self.engine.publish(PolicyVersion("bob", number), self.weights(network))
        return network.eval()

    def weights(self, network: LlamaForCausalLM) -> FullWeights:
        """Arrays that can't be written to, as those that come through Ray."""
        tensors = {}
        for name, tensor in network.state_dict().items():
            if not (self.tied and name == HEAD):
                tensors[name] = np.array(tensor.numpy())
                tensors[name].flags.writeable = False
        return FullWeights(tensors)


VLLM = [
    pytest.param(("vllm", False), id="vllm", marks=pytest.mark.vllm),
    pytest.param(("vllm", True), id="vllm-tied", marks=pytest.mark.vllm),
]
"""Engine, and whether output head and embedding are one."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("torch", False), id="torch"),
        pytest.param(("torch", True), id="torch-tied"),
        *VLLM,
    ],
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    kind, tied = request.param
    config = LlamaConfig(
        vocab_size=201,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        initializer_range=0.2,
        tie_word_embeddings=tied,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(3)
    folder = str(tmp_path_factory.mktemp("whole"))
    LlamaForCausalLM(config).float().save_pretrained(folder)
    engine = make_engine(kind, folder, max_adapters=1, max_rank=1, full="bob", max_batch=64)
    yield Served(engine, folder, tied)
    engine.close()
    assert not engine.alive


QUESTIONS = [
    SampleRequest(
        "bob",
        tuple(random.Random(i).randrange(2, 201) for _ in range(130 + 7 * i)),
        SamplingParams(max_tokens=8, temperature=(1.0, 0.5)[i % 2], seed=i),
    )
    for i in range(12)
]
"""More than one block of vLLM's prefix cache each."""


def ask(served: Served, requests: Sequence[SampleRequest] = QUESTIONS) -> list[Completion]:
    return asyncio.run(served.engine.sample(requests))


def scores(network: LlamaForCausalLM, request: SampleRequest, answer: Completion) -> torch.Tensor:
    ids = torch.tensor([[*request.prompt_ids, *answer.tokens]])
    with torch.no_grad():
        logits = network(input_ids=ids).logits[0, len(request.prompt_ids) - 1 : -1]
    logprobs = torch.log_softmax(logits / request.params.temperature, dim=-1)
    return logprobs.gather(1, torch.tensor(answer.tokens)[:, None]).squeeze(1)


def gap(network: LlamaForCausalLM, answers: Sequence[Completion]) -> float:
    """The largest difference of a logprob of all answers to QUESTIONS."""
    return max(
        (scores(network, request, answer) - torch.tensor(answer.logprobs)).abs().max().item()
        for request, answer in zip(QUESTIONS, answers, strict=True)
    )


def test_each_version_answers_with_its_own_weights_to_prompts_that_were_asked_before(
    served: Served,
) -> None:
    before = LlamaForCausalLM.from_pretrained(served.folder).eval()
    for number in (1, 2, 3):
        network = served.publish(number)
        for _ in range(2):  # the second time vLLM has the prompts in its prefix cache
            answers = ask(served)
            assert {answer.version for answer in answers} == {number}
            assert gap(network, answers) < 1e-4
            assert gap(before, answers) > 0.5
        before = network
    served.engine.retire(PolicyVersion("bob", 1))
    assert served.engine.versions() == [PolicyVersion("bob", 3)]


def test_what_is_under_way_ends_on_its_weights_and_what_comes_meanwhile_gets_the_new_ones(
    served: Served,
) -> None:
    old = served.publish(10)
    new: list[LlamaForCausalLM] = []

    async def meanwhile() -> tuple[list[Completion], list[Completion]]:
        under_way = asyncio.create_task(served.engine.sample(QUESTIONS))
        await asyncio.sleep(0)  # it stands in line
        publishing = asyncio.create_task(asyncio.to_thread(lambda: new.append(served.publish(11))))
        first = await under_way
        await publishing
        return first, await served.engine.sample(QUESTIONS)

    first, second = asyncio.run(meanwhile())
    assert {answer.version for answer in first} == {10}
    assert gap(old, first) < 1e-4
    assert {answer.version for answer in second} == {11}
    assert gap(new[0], second) < 1e-4


def test_weights_that_do_not_fit_are_refused_and_the_old_ones_answer(served: Served) -> None:
    network = served.publish(20)
    tensors = dict(served.weights(network).tensors)
    norm = "model.norm.weight"
    wrong = [
        ({name: own for name, own in tensors.items() if name != norm}, f"'{norm}' is not among"),
        ({**tensors, "model.nrom.weight": tensors[norm]}, f"no weight .* near: '{norm}'"),
        ({**tensors, norm: tensors[norm][1:]}, r"has shape \(63,\), the model's is \(64,\)"),
        ({**tensors, norm: tensors[norm] * np.inf}, "not finite"),
    ]
    for own, message in wrong:
        with pytest.raises(EngineError, match=f"'bob' version 21: .*{message}"):
            served.engine.publish(PolicyVersion("bob", 21), FullWeights(own))
    with pytest.raises(EngineError, match="'bob' version 3 is served no more"):
        ask(served, [SampleRequest("bob", (3,), SamplingParams(), version=3)])
    with pytest.raises(EngineError, match="'base' is not served here"):
        ask(served, [SampleRequest("base", (3,), SamplingParams())])
    assert gap(network, ask(served)) < 1e-4


def test_the_probe_of_whole_weights_asks_no_base(served: Served) -> None:
    network = served.publish(30)
    version = PolicyVersion("bob", 30)
    prompts = [request.prompt_ids[:9] for request in QUESTIONS[:3]]
    probed = asyncio.run(probe(served.engine, [version], prompts, base=False))
    assert [(request.policy, request.version) for request, _ in probed] == [("bob", 30)] * 3
    found = [scores(network, request, answer).tolist() for request, answer in probed]
    assert compare(probed, found, 1e-3) < 1e-4
    facts = served.engine.facts()
    assert (facts.max_adapters, facts.max_rank, facts.vocab_size) == (0, 0, 201)


@pytest.mark.parametrize("served", VLLM, indirect=True)
def test_a_cache_or_a_head_that_is_left_as_it_was_answers_wrongly(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two steps beside vLLM's own reload is needed: without it the tests above fail."""
    ask(served)
    engine = served.engine._backend._engine  # pyright: ignore
    with monkeypatch.context() as patch:
        patch.setattr(engine, "reset_prefix_cache", lambda: True)
        assert gap(served.publish(40), ask(served)) > 0.1, "the fault is gone: drop the reset?"
    if served.tied:
        with monkeypatch.context() as patch:
            patch.setattr("opentinker.inference.vllm_engine.pack_heads", lambda model: None)
            assert gap(served.publish(41), ask(served)) > 0.1, "gone: drop pack_heads?"
    assert gap(served.publish(42), ask(served)) < 1e-4
