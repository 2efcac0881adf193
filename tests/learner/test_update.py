from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from opentinker.learner import losses
from opentinker.learner.adapter import Adapter
from opentinker.learner.chosen import token_weights
from opentinker.learner.settings import PolicySettings
from opentinker.learner.update import PolicyLearner
from opentinker.learner.weights import BaseModel
from opentinker.types import AdapterSpec, TrainBatch

SPEC = AdapterSpec(4, 8.0)
VOCABULARY = 40

Rows = Callable[..., list]
MakeBatch = Callable[..., TrainBatch]


def learner(model: str, **settings: object) -> tuple[BaseModel, PolicyLearner]:
    """B is not zero, so that every parameter has a gradient."""
    base = BaseModel(model)
    settings.setdefault("learning_rate", 1e-2)
    own = PolicySettings(**settings)  # pyright: ignore[reportArgumentType]
    base.add_adapter("alice", SPEC)
    options = {**own.loss_options}
    if own.importance_cap is not None:
        options["importance_cap"] = own.importance_cap
    loss = losses.make(own.loss, **options)
    made = PolicyLearner("alice", Adapter(base, "alice"), loss, own)
    generator = torch.Generator().manual_seed(7)
    for name, parameter in base.parameters("alice").items():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    return base, made


def values(base: BaseModel) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in base.parameters("alice").items()}


def first_moments(made: PolicyLearner) -> list[torch.Tensor]:
    """A tenth of the gradient that the first step was given."""
    return [state["exp_avg"].clone() for state in made._optimizer.state_dict()["state"].values()]


def by_hand(base: BaseModel, batch: TrainBatch, entropy: float = 0.0) -> dict[str, torch.Tensor]:
    """The gradient of the token-mean policy gradient, a row at a time with all logits in view."""
    parameters = base.parameters("alice")
    total = torch.zeros(())
    count = int(batch.trained.sum())
    with base.active("alice"):
        for row in range(len(batch.ids)):
            ids = torch.from_numpy(batch.ids[row, : batch.lengths[row]].astype(np.int64))[None]
            logs = torch.log_softmax(base.network(input_ids=ids).logits[0], dim=-1)
            for t in np.flatnonzero(batch.trained[row]):
                advantage = float(batch.advantages[row, t])
                total = total - advantage * logs[t - 1, int(batch.ids[row, t])] / count
                total = total + entropy * (logs[t - 1].exp() * logs[t - 1]).sum() / count
        grads = torch.autograd.grad(total, list(parameters.values()))
    return dict(zip(parameters, grads, strict=True)) | {"loss": total.detach()}


def test_the_gradient_is_that_of_a_plain_forward(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    base, made = learner(model, entropy=0.3, max_grad_norm=1e9)
    batch = make_batch(random_rows(6))
    expected = by_hand(base, batch, entropy=0.3)
    report = made.update([batch], 0.0)
    assert report.metrics["loss"] == pytest.approx(expected.pop("loss").item(), rel=1e-5)
    for moment, gradient in zip(first_moments(made), expected.values(), strict=True):
        torch.testing.assert_close(moment / 0.1, gradient, rtol=1e-4, atol=1e-6)
    norm = torch.cat([each.flatten() for each in expected.values()]).norm().item()
    assert report.metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)


def test_the_gradient_is_clipped_to_its_largest_norm(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    _, made = learner(model, max_grad_norm=0.01)
    report = made.update([make_batch(random_rows(6))], 0.0)
    assert report.metrics["grad_norm"] > 0.02
    norm = torch.cat([each.flatten() for each in first_moments(made)]).norm().item() / 0.1
    assert norm == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("normalization", ["token", "sequence"])
def test_two_micro_batches_equal_one_batch(
    model: str, make_batch: MakeBatch, random_rows: Rows, normalization: str
) -> None:
    rows = random_rows(9)
    settings = {"normalization": normalization, "kl": 0.3, "entropy": 0.2, "max_grad_norm": 1e9}
    reports, moments = [], []
    for batches in ([rows], [rows[:2], rows[2:]], [rows[5:], rows[:5]]):
        _, made = learner(model, **settings)
        reports.append(made.update([make_batch(each) for each in batches], 0.0))
        moments.append(first_moments(made))
    for report, moment in zip(reports[1:], moments[1:], strict=True):
        for one, two in zip(moments[0], moment, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-7)
        for name in ("loss", "entropy", "grad_norm", "mismatch_kl", "mismatch_max", "tokens"):
            assert report.metrics[name] == pytest.approx(reports[0].metrics[name], rel=1e-4), name


def test_token_weights_are_those_worked_by_hand(make_batch: MakeBatch) -> None:
    one = make_batch([([3, 4, 5, 6], 3, 1.0), ([3, 4], 1, 1.0)])
    two = make_batch([([3, 4, 5, 6], 0, 1.0), ([3, 4, 5, 6], 2, 1.0)])
    by_token = token_weights([one, two], "token")
    assert [each.tolist() for each in by_token] == [
        [pytest.approx(1 / 6)] * 4,
        [pytest.approx(1 / 6)] * 2,
    ]
    first, second = token_weights([one, two], "sequence")
    assert first.tolist() == pytest.approx([1 / 9] * 3 + [1 / 3])
    assert second.tolist() == pytest.approx([1 / 6] * 2)


def test_padding_changes_nothing_whatever_its_ids(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    batch = make_batch(random_rows(5))
    padded = replace(
        batch,
        **{
            name: np.pad(getattr(batch, name), ((0, 0), (0, 7)), constant_values=fill)
            for name, fill in (("ids", 31), ("trained", 0), ("advantages", 0), ("logprobs", 0))
        },
        versions=np.pad(batch.versions, ((0, 0), (0, 7)), constant_values=-1),
    )
    past = np.arange(padded.ids.shape[1])[None, :] >= padded.lengths[:, None]
    padded.ids[past] = 31
    moments = []
    for each in (batch, padded):
        _, made = learner(model)
        made.update([each], 0.0)
        moments.append(first_moments(made))
    for one, two in zip(*moments, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-7)


def test_metrics_say_what_the_batches_hold(model: str, make_batch: MakeBatch) -> None:
    _, made = learner(model)
    made.version = 4
    rows = [([3, 4, 5, 6], 2, 1.0), ([3, 4], 1, -1.0)]
    batches = [
        make_batch(rows, version=4),
        make_batch(rows[:1], version=2),
        make_batch([([3], 0, 0)]),
    ]
    metrics = made.update(batches, 0.0).metrics
    assert metrics["tokens"] == 5
    assert metrics["rows"] == 4
    assert metrics["empty_batches"] == 1
    assert metrics["padding_share"] == pytest.approx(2 / 13)
    assert metrics["staleness"] == pytest.approx(2 * 2 / 5)
    assert metrics["learning_rate"] == 1e-2


def test_mismatch_is_over_the_tokens_of_the_version_that_is_updated(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    base, made = learner(model)
    batch = make_batch(random_rows(4))
    rows, columns = np.nonzero(batch.trained)
    network = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad(), base.active("alice"):
        logs = torch.log_softmax(
            base.network(input_ids=torch.from_numpy(batch.ids).long()).logits, -1
        )
    own = logs[rows, columns - 1, batch.ids[rows, columns]].numpy()
    assert network.dtype == torch.float32
    batch.logprobs[rows, columns] = own
    batch.logprobs[rows[0], columns[0]] -= 0.5
    batch.versions[rows[-1], columns[-1]] = -1
    batch.logprobs[rows[-1], columns[-1]] -= 9.0
    metrics = made.update([batch], 0.0).metrics
    count = len(rows) - 1
    assert metrics["mismatch_kl"] == pytest.approx((np.exp(0.5) - 1.5) / count, rel=1e-3)
    assert metrics["mismatch_max"] == pytest.approx(0.5, rel=1e-4)
    stale = made.update([batch], 0.0).metrics
    assert "mismatch_kl" not in stale
    assert "mismatch_max" not in stale


def test_the_truncated_share_counts_weights_above_the_cap(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    batch = make_batch(random_rows(4), logprob=-100.0)
    _, made = learner(model, importance_cap=2.0)
    assert made.update([batch], 0.0).metrics["truncated_share"] == 1.0
    batch.logprobs[batch.trained] = 0.0
    assert made.update([batch], 0.0).metrics["truncated_share"] == 0.0


def test_the_reference_is_the_policy_at_its_last_refresh(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    base, made = learner(model, kl=0.5, reference_every=3)
    batch = make_batch(random_rows(4))
    divergences = []
    for version in range(7):
        before = values(base)
        divergences.append(made.update([batch], 0.0).metrics["kl"])
        if version % 3 == 0:
            reference = base.parameters("alice@copy")
            assert all(torch.equal(reference[name].data, before[name]) for name in before)
    assert [abs(each) < 1e-6 for each in divergences] == [True, False, False] * 2 + [True]


def test_a_strong_pull_keeps_the_policy_by_its_reference(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    batch = make_batch(random_rows(4))
    apart = []
    for weight in (1e-9, 100.0):
        _, made = learner(model, kl=weight, reference_every=100)
        apart.append([made.update([batch], 0.0) for _ in range(10)][-1].metrics["kl"])
    assert apart[1] < apart[0] / 10


def test_a_gradient_that_is_not_finite_skips_the_update(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    base, made = learner(model)
    before = values(base)
    batch = make_batch(random_rows(4))
    batch.advantages[batch.trained] = 3e38
    report = made.update([batch], 0.0)
    assert "not finite" in report.skipped or "inf" in report.skipped or "nan" in report.skipped
    assert all(torch.equal(base.parameters("alice")[name].data, before[name]) for name in before)
    assert made.update([make_batch(random_rows(4))], 0.0).skipped == ""


def test_batches_that_cannot_be_trained_on_are_refused(model: str, make_batch: MakeBatch) -> None:
    _, made = learner(model)
    good = make_batch([([3, 4, 5], 1, 1.0), ([3, 4, 5, 6], 1, 1.0)])
    first, padding = good.trained.copy(), good.trained.copy()
    first[0, 0], padding[0, 3] = True, True
    for batch, message in (
        (replace(good, policy="bob"), "'bob' came to policy 'alice'"),
        (replace(good, trained=first), "first token"),
        (replace(good, trained=padding), "padding"),
    ):
        with pytest.raises(ValueError, match=message):
            made.update([batch], 0.0)
    assert made.version == 0


def test_schedules_follow_progress(model: str, make_batch: MakeBatch, random_rows: Rows) -> None:
    _, made = learner(model, learning_rate=(1e-2, 0.0))
    batch = make_batch(random_rows(2))
    rates = [made.update([batch], each).metrics["learning_rate"] for each in (0.0, 0.5, 1.0)]
    assert rates == pytest.approx([1e-2, 5e-3, 0.0])


def lowest_loss(model: str, tokens: torch.Tensor) -> float:
    """What the frozen head allows at best: the last norm puts all hidden states on a sphere."""
    weight = AutoModelForCausalLM.from_pretrained(model).lm_head.weight.detach()
    hidden = weight[tokens].clone().requires_grad_()
    optimizer = torch.optim.Adam([hidden], lr=0.05)
    found = []
    for _ in range(300):
        states = hidden / hidden.norm(dim=-1, keepdim=True) * weight.shape[1] ** 0.5
        loss = torch.nn.functional.cross_entropy(states @ weight.T, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return min(found)


def test_cross_entropy_through_an_adapter_reaches_the_best_that_the_frozen_head_allows(
    model: str, make_batch: MakeBatch, random_rows: Rows
) -> None:
    _, made = learner(model, loss="cross_entropy", learning_rate=1e-2)
    batch = make_batch(random_rows(4))
    floor = lowest_loss(model, torch.from_numpy(batch.ids[batch.trained]).long())
    losses = [made.update([batch], 0.0).metrics["loss"] for _ in range(120)]
    assert losses[0] > 2.0
    assert floor - 1e-4 < losses[-1] < floor + 0.02


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_a_contextual_bandit_is_solved_in_seconds(model: str, kl: float) -> None:
    """After one prompt even tokens pay 1, after the other odd ones. Playing blindly earns 0.5."""
    settings = {"learning_rate": 1e-2, "kl": kl, "reference_every": 10, "entropy": (0.02, 0.0)}
    base, made = learner(model, **settings)
    generator = torch.Generator().manual_seed(0)
    which = torch.arange(64) % 2
    prompts = torch.tensor([[5, 6, 7], [5, 8, 7]])
    last = np.zeros((64, 4), np.bool_)
    last[:, 3] = True
    pays = torch.arange(VOCABULARY)[None, :] % 2 == torch.arange(2)[:, None]
    earned = []
    for step in range(100):
        with torch.no_grad(), base.active("alice"):
            logs = torch.log_softmax(base.network(input_ids=prompts).logits[:, -1], -1)
        earned.append((logs.exp() * pays).sum(-1).mean().item())
        logs = logs[which]
        tokens = torch.multinomial(logs.exp(), 1, generator=generator)
        rewards = pays[which, tokens[:, 0]].float()
        batch = TrainBatch(
            policy="alice",
            ids=torch.cat([prompts[which], tokens], 1).int().numpy(),
            lengths=np.full(64, 4, np.int32),
            trained=last,
            advantages=np.where(last, (rewards - rewards.mean()).numpy()[:, None], np.float32(0)),
            logprobs=np.where(last, logs.gather(1, tokens).numpy(), np.float32(0)),
            versions=np.where(last, made.version, -1).astype(np.int32),
        )
        assert made.update([batch], step / 100).metrics["mismatch_max"] < 1e-4
    assert earned[0] < 0.6
    assert earned[-1] > 0.95
