from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaForCausalLM

from opentinker.errors import EngineError
from opentinker.inference.adapters import Adapter, write_adapter
from opentinker.inference.torch_adapters import AdapterSlots
from opentinker.types import AdapterWeights, PolicyVersion


@pytest.fixture
def model(model_folder: str) -> PeftModel:
    network = LlamaForCausalLM.from_pretrained(model_folder)
    placeholder = LoraConfig(r=1, target_modules="all-linear", inference_mode=True)
    made = get_peft_model(network, placeholder, "placeholder").eval()
    assert isinstance(made, PeftModel)
    return made


def written(folder: Path, number: int, weights: AdapterWeights) -> Adapter:
    adapter = Adapter(PolicyVersion("bob", number), f"bob-{number}", number, folder / str(number))
    write_adapter(adapter.folder, weights)
    return adapter


def scaled(weights: AdapterWeights, factor: float) -> AdapterWeights:
    tensors = {name: own * np.float32(factor) for name, own in weights.tensors.items()}
    return AdapterWeights(weights.spec, tensors)


def made(model: PeftModel) -> set[str]:
    return model.peft_config.keys() - {"placeholder"}


def test_a_slot_that_is_used_again_answers_as_peft_does_with_the_second_alone(
    model: PeftModel, model_folder: str, weights: dict[str, AdapterWeights], tmp_path: Path
) -> None:
    first = written(tmp_path, 1, weights["wide"])
    second = written(tmp_path, 2, scaled(weights["wide"], 0.5))
    slots = AdapterSlots(model, 4)
    slots.hold([first])
    slots.drop(first)
    names = slots.hold([second, second])
    assert names == ["slot0", "slot0"] and made(model) == {"slot0"}
    alone = PeftModel.from_pretrained(
        LlamaForCausalLM.from_pretrained(model_folder), str(second.folder)
    )
    ids = torch.arange(2, 20).repeat(2, 1)
    with torch.no_grad():
        ours = model(input_ids=ids, adapter_names=names).logits
        expected = alone.eval()(input_ids=ids).logits
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_slots_are_given_to_adapters_of_their_own_shape_and_are_no_more_than_allowed(
    model: PeftModel, weights: dict[str, AdapterWeights], tmp_path: Path
) -> None:
    wide = [written(tmp_path, number, weights["wide"]) for number in range(3)]
    narrow = written(tmp_path, 9, weights["narrow"])
    slots = AdapterSlots(model, 2)
    assert slots.hold(wide[:2]) == ["slot0", "slot1"]
    assert slots.hold([wide[2]]) == ["slot0"], "the one that was not asked for the longest"
    assert slots.hold([narrow]) == ["slot2"] and made(model) == {"slot0", "slot2"}
    assert len({*slots.hold([*wide, narrow])}) == 4, "one batch has all that it names"
    slots.hold([narrow])
    assert len(made(model)) == 2


def test_tensors_that_do_not_fit_are_refused_and_the_slot_is_still_good(
    model: PeftModel, weights: dict[str, AdapterWeights], tmp_path: Path
) -> None:
    slots = AdapterSlots(model, 4)
    tensors = dict(weights["wide"].tensors)
    last = next(reversed(tensors))
    strange = {name.replace("q_proj", "x_proj"): own for name, own in tensors.items()}
    short = {name: own for name, own in tensors.items() if name != last}
    long = {**tensors, last: np.concatenate([tensors[last]] * 2)}
    for number, (own, fault) in enumerate([(strange, "x_proj"), (short, last), (long, last)]):
        adapter = written(tmp_path, number, AdapterWeights(weights["wide"].spec, own))
        with pytest.raises(EngineError, match=f"{fault}.*' does not fit the model"):
            slots.hold([adapter])
    assert slots.hold([written(tmp_path, 7, weights["wide"])]) == ["slot0"]
