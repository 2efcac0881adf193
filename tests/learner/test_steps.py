"""Updates of more than one optimizer step, and what tokens count in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from opentinker.errors import ConfigError, LearningError
from opentinker.learner.chosen import token_weights
from opentinker.learner.settings import FullSource, LoraSource, PolicySettings
from opentinker.learner.worker import LearnerWorker
from opentinker.types import AdapterSpec, TrainBatch

Rows = Callable[..., list]
MakeBatch = Callable[..., TrainBatch]
LORA = LoraSource(AdapterSpec(4, 8.0))


def worker(model: str, source: LoraSource | FullSource = LORA, **settings: object) -> LearnerWorker:
    made = LearnerWorker(model)
    options = {"learning_rate": 1e-2, "max_grad_norm": 1e9, **settings}
    made.add_policy("alice", source, PolicySettings(**options))  # pyright: ignore[reportArgumentType]
    return made


def weights(learner: LearnerWorker) -> dict[str, np.ndarray]:
    return dict(learner.export("alice").tensors)


def equal(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], two[name]) for name in one)


def own_logprobs(network: torch.nn.Module, batch: TrainBatch) -> torch.Tensor:
    """[N] of the trained tokens, from all logits."""
    rows, columns = np.nonzero(batch.trained)
    logits = network(input_ids=torch.from_numpy(batch.ids.astype(np.int64))).logits
    found = torch.log_softmax(logits, -1)
    return found[rows, columns - 1, batch.ids[rows, columns]]


def test_each_minibatch_is_an_optimizer_step_on_its_own_micro_batches(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    """With a loss that knows no ratio, four in two groups are two updates: [0, 2], then [1, 3]."""
    batches = [make_batch(random_rows(3, seed)) for seed in range(4)]
    once = worker(model, minibatches=2)
    report = once.update("alice", batches)
    apart = worker(model)
    parts = [apart.update("alice", batches[first::2]) for first in range(2)]
    assert equal(weights(once), weights(apart))
    assert report.version == 1
    for name in ("loss", "grad_norm"):
        assert report.metrics[name] == pytest.approx(np.mean([p.metrics[name] for p in parts]))
    assert report.metrics["tokens"] == sum(part.metrics["tokens"] for part in parts)


def test_there_are_no_more_steps_than_micro_batches(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    batches = [make_batch(random_rows(3, seed)) for seed in range(2)]
    empty = make_batch([([3, 4, 5], 0, 0.0)])
    learners = [worker(model, minibatches=count) for count in (2, 9)]
    for learner in learners:
        assert learner.update("alice", [batches[0], empty, batches[1]]).skipped == ""
    assert equal(weights(learners[0]), weights(learners[1]))


def test_one_step_on_one_micro_batch_is_the_same_whatever_is_allowed(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    batch = make_batch(random_rows(4))
    found = []
    for loss in ("policy_gradient", "ppo_clip", "cispo"):
        learner = worker(model, minibatches=3, loss=loss)
        learner.update("alice", [batch])
        found.append(weights(learner))
    for name, values in found[0].items():
        for other in found[1:]:
            np.testing.assert_allclose(other[name], values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("cap", [None, 1.5])
def test_ppo_over_epochs_and_minibatches_is_that_of_a_plain_loop(
    model: str, make_batch: MakeBatch, random_rows: Rows, cap: float | None
) -> None:
    batches = [make_batch(random_rows(4, seed)) for seed in range(2)]
    learner = worker(
        model,
        FullSource(),
        loss="ppo_clip",
        loss_options={"epsilon_low": 0.1, "epsilon_high": 0.15},
        importance_cap=cap,
        epochs=3,
        minibatches=2,
        learning_rate=3e-3,
    )
    report = learner.update("alice", batches)

    network = AutoModelForCausalLM.from_pretrained(model).eval()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.0)
    with torch.no_grad():
        proximal = [own_logprobs(network, batch) for batch in batches]
    clipped, losses = [], []
    for _ in range(3):
        for batch, before in zip(batches, proximal, strict=True):
            advantage = torch.from_numpy(batch.advantages[batch.trained])
            engine = torch.from_numpy(batch.logprobs[batch.trained])
            scale = 1.0 if cap is None else torch.clamp((before - engine).exp(), max=cap)
            ratio = (own_logprobs(network, batch) - before).exp()
            surrogate = torch.min(ratio * advantage, ratio.clamp(0.9, 1.15) * advantage)
            loss = -(scale * surrogate).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            clipped += (
                ((ratio > 1.15) & (advantage > 0)) | ((ratio < 0.9) & (advantage < 0))
            ).tolist()
    for name, value in weights(learner).items():
        expected = network.state_dict()[name].numpy()
        np.testing.assert_allclose(value, expected, rtol=0, atol=2e-4)
    assert 0 < report.metrics["clipped_share"] < 1
    assert report.metrics["clipped_share"] == pytest.approx(np.mean(clipped), abs=0.05)
    assert report.metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-2, abs=1e-3)


def test_constant_normalization_is_of_rows_times_tokens(make_batch: MakeBatch) -> None:
    one = make_batch([([3, 4, 5, 6], 3, 1.0), ([3, 4], 1, 1.0)])
    two = make_batch([([3, 4, 5, 6], 0, 1.0), ([3, 4, 5, 6], 2, 1.0)])
    found = token_weights([one, two], "constant", 10)
    assert [each.tolist() for each in found] == [
        [pytest.approx(1 / 30)] * 4,
        [pytest.approx(1 / 30)] * 2,
    ]


def test_with_constant_normalization_a_longer_answer_weighs_no_less_a_token(
    model: str, make_batch: MakeBatch
) -> None:
    """The gradient of one row is its tokens' sum over the constant, however many there are."""
    batch = make_batch([([3, 4, 5, 6, 7, 8], 4, 1.0)])
    norms = {}
    for normalization in ("token", "constant"):
        learner = worker(model, normalization=normalization, normalization_tokens=8)
        norms[normalization] = learner.update("alice", [batch]).metrics["grad_norm"]
    assert norms["constant"] == pytest.approx(norms["token"] * 4 / 8, rel=1e-5)


def test_a_later_step_that_is_not_finite_is_where_the_update_ends(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    good = make_batch(random_rows(4))
    bad = make_batch([([3, 4, 5], 1, float("inf"))])
    learner, short = worker(model, minibatches=2, epochs=2, max_skipped=2), worker(model)
    report = learner.update("alice", [good, bad])
    one = short.update("alice", [good])
    assert report.skipped.startswith("in step 2 of 4 the loss is")
    assert "1 of 1 advantages are not finite" in report.skipped
    assert report.metrics["skipped"] == 1
    assert report.version == 1
    assert report.metrics["loss"] == one.metrics["loss"]
    assert equal(weights(learner), weights(short))
    assert all(np.isfinite(each).all() for each in weights(learner).values())
    with pytest.raises(LearningError, match="2 updates in a row"):
        learner.update("alice", [good, bad])
    assert all(np.isfinite(each).all() for each in weights(learner).values())


@pytest.mark.parametrize("loss", ["policy_gradient", "ppo_clip", "cispo", "gspo"])
@pytest.mark.parametrize("values", [{"advantages": 3e38}, {"logprobs": -3e38}, {"logprobs": 3e38}])
def test_no_numbers_poison_the_weights(
    model: str, make_batch: MakeBatch, random_rows: Rows, loss: str, values: dict[str, float]
) -> None:
    batch = make_batch(random_rows(4))
    for name, value in values.items():
        getattr(batch, name)[batch.trained] = value
    learner = worker(model, loss=loss, importance_cap=2.0, epochs=2)
    for _ in range(2):
        learner.update("alice", [batch])
    assert all(np.isfinite(each).all() for each in weights(learner).values())


def test_the_mismatch_is_of_what_the_update_began_with(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    batch = make_batch(random_rows(4))
    once, often = (
        worker(model, epochs=epochs, loss="ppo_clip").update("alice", [batch]).metrics
        for epochs in (1, 3)
    )
    for name in ("mismatch_kl", "mismatch_max"):
        assert often[name] == pytest.approx(once[name], rel=1e-5)
    assert often["entropy"] != pytest.approx(once["entropy"], rel=1e-5)


def test_options_go_to_the_loss(model: str, make_batch: MakeBatch, random_rows: Rows) -> None:
    with pytest.raises(ConfigError, match="'ppo_clip' has no option 'epsilon'; it has epsilon_low"):
        worker(model, loss="ppo_clip", loss_options={"epsilon": 0.2})
    with pytest.raises(ConfigError, match="give one of them"):
        worker(model, loss_options={"importance_cap": 2.0}, importance_cap=2.0)
    batch = replace(make_batch(random_rows(4), logprob=-100.0))
    report = worker(model, loss_options={"importance_cap": 2.0}).update("alice", [batch])
    assert report.metrics["truncated_share"] == 1.0
