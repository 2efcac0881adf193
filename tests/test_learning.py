"""Learning, end to end on real parts in one process: a bandit whose best answers are known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from opentinker.experience import credit
from opentinker.experience.packing import pack
from opentinker.experience.trajectories import plays, trajectories
from opentinker.inference import make_engine
from opentinker.learner.fitted import Fitted
from opentinker.learner.fitting import FitSettings
from opentinker.learner.settings import LoraSource, PolicySettings
from opentinker.learner.supervised import supervise
from opentinker.learner.tiny_model import make_tiny
from opentinker.learner.worker import LearnerWorker
from opentinker.rendering import Renderer
from opentinker.rollout.batching import BatchingSampler
from opentinker.rollout.worker import AgentSpec, RolloutPlan, RolloutWorker
from opentinker.scheduler import transcripts
from opentinker.scheduler.dataset import texts
from opentinker.scheduler.finetune import demonstrate
from opentinker.scheduler.rendered import render_chat
from opentinker.types import AdapterSpec, EpisodeRequest, PolicyVersion, SamplingParams

CONTEXTS, ARMS = ("red", "green", "blue"), "abc"
UPDATES, EPISODES = 20, 64


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that reads its context, and names the best arm half of the time, others a quarter."""
    folder = tmp_path_factory.mktemp("bandit")
    lean = {
        context: {arm: 0.5 if place == own else 0.25 for place, arm in enumerate(ARMS)}
        for own, context in enumerate(CONTEXTS)
    }
    plan = RolloutPlan("bandit_v0", agents={"teacher": AgentSpec("tabular", {"table": lean})})
    played = asyncio.run(demonstrate(plan, {"player_0": "teacher"}, 300))
    chats = transcripts.chats(transcripts.parts(played))
    base = make_tiny(folder / "base", texts(chats))
    renderer = Renderer.load(base)
    fitted = Fitted(str(base))
    settings = FitSettings(steps=60, learning_rate=1e-2, batch_tokens=2048)
    for _ in supervise(fitted, [render_chat(chat, renderer) for chat in chats], settings):
        pass
    fitted.save(folder / "model")
    return folder / "model"


def test_a_contextual_bandit_reaches_its_optimum(model: Path) -> None:
    """The best arm of each context pays 1, any other 0: the best mean is 1, chance is a third."""

    async def train() -> list[float]:
        engine = make_engine("torch", str(model), max_adapters=2, max_rank=8)
        learner = LearnerWorker(str(model))
        settings = PolicySettings(learning_rate=(1e-2, 2e-3))
        learner.add_policy("alice", LoraSource(AdapterSpec(8, 16.0)), settings)
        plan = RolloutPlan(
            "bandit_v0", policies={"alice": SamplingParams(max_tokens=2)}, model=str(model)
        )
        worker = RolloutWorker(plan, BatchingSampler(engine.sample))
        estimator = credit.make("role_baseline")
        means = []
        for step in range(UPDATES + 1):
            engine.publish(PolicyVersion("alice", step), learner.export("alice"))
            first = step * EPISODES
            requests = [
                EpisodeRequest(str(i), str(i), i, {"player_0": "alice"})
                for i in range(first, first + EPISODES)
            ]
            episodes = await worker.play(requests)
            means.append(float(np.mean([episode.returns["player_0"] for episode in episodes])))
            own = [play for episode in episodes for play in plays(episode)]
            rows = [row for episode in episodes for row in trajectories(episode)]
            names = [(play.episode, play.seat) for play in own]
            advantages = dict(zip(names, estimator.advantages(own).advantages, strict=True))
            learner.update("alice", pack(rows, advantages, 8192), step / UPDATES)
            engine.retire(PolicyVersion("alice", step))
        engine.close()
        return means

    means = asyncio.run(train())
    assert means[0] < 0.7  # the start is far from it
    assert np.mean(means[-4:]) > 0.95, means
