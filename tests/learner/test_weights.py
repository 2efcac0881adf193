from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

from opentinker.errors import CheckpointError, ConfigError, UnknownNameError
from opentinker.learner.adapter import Adapter
from opentinker.learner.weights import BaseModel, chosen_logits
from opentinker.types import AdapterSpec, AdapterWeights

SPECS = {
    "alice": AdapterSpec(8, 16.0),
    "alice.2": AdapterSpec(4, 6.0, ("q_proj", "v_proj")),
    "lora_A": AdapterSpec(1, 1.0, ("down_proj",)),
}
IDS = torch.tensor([[5, 9, 3, 30, 22, 11]])


@pytest.fixture
def base(model: str) -> BaseModel:
    """The three adapters, each changed so that it does something."""
    made = BaseModel(model)
    for seed, (name, spec) in enumerate(SPECS.items()):
        made.add_adapter(name, spec)
        generator = torch.Generator().manual_seed(seed)
        for key, parameter in made.parameters(name).items():
            if "lora_B" in key:
                parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    return made


def logits(base: BaseModel, policy: str | None) -> torch.Tensor:
    with torch.no_grad(), base.active(policy):
        return base.network(input_ids=IDS).logits[0]


@pytest.mark.parametrize("name", SPECS)
def test_a_saved_adapter_answers_alike_in_a_fresh_peft_model(
    base: BaseModel, model: str, name: str, folder: Path
) -> None:
    base.save_peft(name, folder)
    fresh = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        plain = fresh(input_ids=IDS).logits[0].clone()
        expected = PeftModel.from_pretrained(fresh, str(folder))(input_ids=IDS).logits[0]
    torch.testing.assert_close(logits(base, name), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(logits(base, None), plain, rtol=0, atol=1e-5)
    assert (expected - plain).abs().max() > 0.05
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == model
    assert config["r"] == SPECS[name].rank
    assert config["inference_mode"] is True


@pytest.mark.parametrize("name", SPECS)
def test_exported_names_and_values_are_those_that_peft_saves(
    base: BaseModel, model: str, name: str, folder: Path
) -> None:
    base.save_peft(name, folder / "ours")
    fresh = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(model), str(folder / "ours")
    )
    fresh.save_pretrained(str(folder / "theirs"))
    theirs = load_file(folder / "theirs" / "adapter_model.safetensors")
    ours = base.export(name)
    assert ours.spec == SPECS[name]
    assert ours.tensors.keys() == theirs.keys()
    for key, value in ours.tensors.items():
        assert value.dtype == np.float32
        assert np.array_equal(value, theirs[key])


def test_an_export_is_a_copy(base: BaseModel) -> None:
    weights = base.export("alice")
    before = {name: value.copy() for name, value in weights.tensors.items()}
    for parameter in base.parameters("alice").values():
        parameter.data.add_(1.0)
    assert all(np.array_equal(before[name], weights.tensors[name]) for name in before)


def test_first_weights_depend_on_name_and_seed_but_not_on_the_order_of_adding(model: str) -> None:
    def made(names: list[str], seed: int) -> dict[str, AdapterWeights]:
        base = BaseModel(model)
        for name in names:
            base.add_adapter(name, SPECS["alice"], seed)
        return {name: base.export(name) for name in names}

    def same(one: AdapterWeights, two: AdapterWeights) -> bool:
        return all(np.array_equal(one.tensors[name], two.tensors[name]) for name in one.tensors)

    first, second, other = made(["a", "b"], 0), made(["b", "c", "a"], 0), made(["a"], 1)
    assert same(first["a"], second["a"])
    assert same(first["b"], second["b"])
    assert not same(first["a"], first["b"])
    assert not same(first["a"], other["a"])


def test_a_new_adapter_changes_nothing(model: str) -> None:
    base = BaseModel(model)
    before = logits(base, None)
    base.add_adapter("new", SPECS["alice"])
    assert torch.equal(logits(base, "new"), before)


def test_weights_travel_from_one_base_to_another(base: BaseModel, model: str) -> None:
    other = BaseModel(model)
    for name in SPECS:
        other.load_adapter(name, base.export(name))
        assert torch.equal(logits(other, name), logits(base, name))
    other.load_adapter("alice", AdapterWeights(SPECS["alice"], base.export("alice").tensors))


def test_weights_that_do_not_fit_are_refused(base: BaseModel, folder: Path) -> None:
    good = base.export("alice")
    name = min(good.tensors)
    lacking = {key: value for key, value in good.tensors.items() if key != name}
    narrow = {**good.tensors, name: good.tensors[name][:1]}
    for spec, tensors, message in (
        (SPECS["alice.2"], good.tensors, "has an adapter of"),
        (good.spec, lacking, name),
        (good.spec, narrow, "has shape"),
    ):
        with pytest.raises(ConfigError, match=message):
            base.load_adapter("alice", AdapterWeights(spec, tensors))
    with pytest.raises(CheckpointError, match=r"'alice'.*holds no adapter"):
        Adapter(base, "alice").read(folder)
    folder.mkdir()
    save_file(lacking, folder / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match="don't fit"):
        Adapter(base, "alice").read(folder)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (AdapterSpec(0, 1.0), "rank is 0"),
        (AdapterSpec(2, 1.0, ("q_prj",)), "did you mean 'q_proj'.*known: .*down_proj"),
        (AdapterSpec(2, 1.0, ("lm_head",)), "unknown target 'lm_head'"),
        (AdapterSpec(2, 1.0, ()), "no targets"),
    ],
)
def test_a_spec_that_the_model_cannot_have_is_refused(
    base: BaseModel, spec: AdapterSpec, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        base.add_adapter("new", spec)
    assert "new" not in base.policies


def test_names_are_unique_and_unknown_ones_are_named(base: BaseModel) -> None:
    with pytest.raises(ConfigError, match="'alice' has an adapter already"):
        base.add_adapter("alice", SPECS["alice"])
    with (
        pytest.raises(UnknownNameError, match="'alica'; did you mean 'alice'"),
        base.active("alica"),
    ):
        pass


def test_logits_at_chosen_positions_are_those_of_a_full_forward(
    base: BaseModel, random_rows: Callable
) -> None:
    rows = [ids for ids, _, _ in random_rows(5)]
    table = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for row, ids in enumerate(rows):
        table[row, : len(ids)] = torch.tensor(ids)
    row = torch.tensor([4, 0, 1, 1])
    column = torch.tensor([len(rows[4]) - 1, 0, 2, 3])
    with torch.no_grad(), base.active("alice"):
        chosen = chosen_logits(base.network, table, row, column)
        for place in range(4):
            alone = torch.tensor([rows[int(row[place])]])
            expected = base.network(input_ids=alone).logits[0, column[place]]
            torch.testing.assert_close(chosen[place], expected, rtol=0, atol=1e-5)
        assert base.network(input_ids=table).logits.shape == (*table.shape, 40)
