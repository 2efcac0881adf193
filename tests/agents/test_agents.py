"""The built-in agents: uniform, in turn, from a table, and a policy that keeps its ids."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from opentinker.agent import Agent, View
from opentinker.agents.policy import PolicyAgent, turn_seed
from opentinker.errors import ConfigError
from opentinker.learner.tiny_model import make_tiny
from opentinker.registry import agent_factory
from opentinker.rendering import Renderer
from opentinker.rollout.worker import NoSampler
from opentinker.types import Completion, SampleRequest, SamplingParams


def _view(legal: tuple[str, ...] | None = None, state: str | None = None, prompt: str = "") -> View:
    return View("player_0", "move", prompt, prompt, legal, state)


def _said(agent: Agent, view: View, count: int) -> list[str]:
    async def ask() -> list[str]:
        return [(await agent.answer(view, NoSampler())).text for _ in range(count)]

    return asyncio.run(ask())


def _made(kind: str, seed: int = 0, **options: Any) -> Agent:
    return agent_factory(kind)(seat="player_0", seed=seed, **options)


def test_random_is_uniform_over_the_legal_actions() -> None:
    legal = ("a", "b", "c")
    counts = Counter(_said(_made("random", seed=5), _view(legal), 3000))
    assert set(counts) == {"[a]", "[b]", "[c]"}
    # chi square with 2 degrees of freedom: above 13.8 once in a thousand
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 13.8


def test_random_follows_its_seed_and_speaks_where_anything_goes() -> None:
    view = _view(("a", "b", "c"))
    first = _said(_made("random", seed=1), view, 30)
    assert first == _said(_made("random", seed=1), view, 30)
    assert first != _said(_made("random", seed=2), view, 30)
    assert _said(_made("random"), _view(None), 1) == ["..."]


def test_scripted_says_its_lines_in_turn_and_begins_again() -> None:
    said = _said(_made("scripted", lines=["one", "two"]), _view(), 5)
    assert said == ["one", "two", "one", "two", "one"]


@pytest.mark.parametrize("lines", ["[bet]", [], [1], [["a"]]])
def test_scripted_needs_texts(lines: Any) -> None:
    with pytest.raises(ConfigError, match="list of texts"):
        _made("scripted", lines=lines)


def test_tabular_draws_as_its_row_says() -> None:
    agent = _made("tabular", seed=3, table={"K": {"bet": 0.75, "check": 0.25}, "J": {"check": 1.0}})
    counts = Counter(_said(agent, _view(("check", "bet"), "K"), 3000))
    # expected 2250 and 750; chi square with 1 degree of freedom: above 10.8 once in a thousand
    assert (counts["[bet]"] - 2250) ** 2 / 2250 + (counts["[check]"] - 750) ** 2 / 750 < 10.8
    assert set(_said(agent, _view(("check", "bet"), "J"), 50)) == {"[check]"}


@pytest.mark.parametrize("state", ["Q", None])
def test_tabular_names_the_state_that_its_table_lacks(state: str | None) -> None:
    agent = _made("tabular", table={"K": {"bet": 1.0}})
    with pytest.raises(ConfigError, match=f"'player_0' has no row for the state {state!r}.*K"):
        _said(agent, _view(("bet",), state), 1)


def test_tabular_takes_the_place_of_a_table() -> None:
    table = "opentinker.envs.kuhn_poker_v0:equilibrium"
    assert set(_said(_made("tabular", table=table), _view(("fold", "call"), "J:bet"), 40)) == {
        "[fold]"
    }
    with pytest.raises(ConfigError, match="not a mapping"):
        _made("tabular", table=[1])


class Letters:
    """Spells `[bet]` letter by letter, cut off before the end in every second answer."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.asked: list[SampleRequest] = []
        self.answered: list[Completion] = []

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        found = []
        for request in requests:
            cut = len(self.asked) % 2 == 1
            self.asked.append(request)
            letters = tuple(i for letter in "[bet]" for i in self.renderer.encode(letter))
            tokens = letters if cut else (*letters, self.renderer.end_id)
            logprobs = (-0.5,) * len(tokens)
            found.append(Completion(tokens, logprobs, 7, "length" if cut else "stop"))
        self.answered += found
        return found


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    texts = ["Your card: J.", "Your card: K.", "[bet]"]
    return Renderer.load(make_tiny(tmp_path_factory.mktemp("tiny") / "model", texts))


def test_every_prompt_of_a_policy_is_the_last_one_with_the_sampled_ids_and_new_words(
    renderer: Renderer,
) -> None:
    sampler = Letters(renderer)
    agent = PolicyAgent("alice", renderer, SamplingParams(max_tokens=9), seed=11)

    async def play() -> list[Any]:
        prompts = ["Your card: J.", "Your card: K.", "Your card: J."]
        return [await agent.answer(_view(prompt=text), sampler) for text in prompts]

    answers = asyncio.run(play())
    ids: tuple[int, ...] = ()
    for answer, request, completion in zip(answers, sampler.asked, sampler.answered, strict=True):
        assert request.prompt_ids == (*ids, *answer.context_ids)
        ids = (*request.prompt_ids, *completion.tokens)  # as sampled: no id was encoded again
        assert answer.completion is completion and answer.policy == "alice"
        assert answer.text == "[bet]" and not answer.fresh
        assert (request.policy, request.version, request.params.max_tokens) == ("alice", None, 9)
    assert renderer.encode("[bet]") != sampler.answered[1].tokens  # encoding again would differ
    # the answer that was cut off gets its end from the renderer, the whole one does not
    assert [a.context_ids[0] == renderer.end_id for a in answers[1:]] == [False, True]
    assert len({request.params.seed for request in sampler.asked}) == 3


def test_a_seed_is_of_what_names_it() -> None:
    assert turn_seed(1, "a", "b") == turn_seed(1, "a", "b")
    parts = [(0, "1", "2"), (0, "12", ""), (0, 1, "2"), (1, "1", "2"), (0, "1", "2", 0)]
    seeds = {turn_seed(*each) for each in parts}
    assert len(seeds) == len(parts) and all(0 <= seed < 2**32 for seed in seeds)


def test_the_policy_agent_is_no_agent_of_the_registry(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown agent 'policy'"):
        agent_factory("policy")
