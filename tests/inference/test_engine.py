from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from opentinker.errors import EngineError, UnknownNameError
from opentinker.inference import make_engine
from opentinker.inference.engine import stop_ids


def folder(path: Path, **files: object) -> str:
    path.joinpath("config.json").write_text("{}")
    for name, content in files.items():
        path.joinpath(f"{name}.json").write_text(json.dumps(content))
    return str(path)


def test_end_tokens_are_the_generation_configs_before_the_configs(tmp_path: Path) -> None:
    assert stop_ids(folder(tmp_path, config={"eos_token_id": 7})) == (7,)
    generation = {"eos_token_id": [9, 4]}
    assert stop_ids(folder(tmp_path, config={"eos_token_id": 7}, generation_config=generation)) == (
        4,
        9,
    )


def test_the_tokenizers_end_token_is_one_too(tmp_path: Path) -> None:
    model = folder(
        tmp_path, config={"eos_token_id": 1}, tokenizer_config={"eos_token": {"content": "<end>"}}
    )
    Tokenizer(WordLevel({"a": 0, "b": 1, "<end>": 2}, unk_token="a")).save(
        str(tmp_path / "tokenizer.json")
    )
    assert stop_ids(model) == (1, 2)


def test_a_model_that_names_no_end_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="names no end token"):
        stop_ids(folder(tmp_path))


@pytest.mark.parametrize("kind", ["torch", pytest.param("vllm", marks=pytest.mark.vllm)])
def test_a_model_that_is_no_folder_is_refused(kind: str) -> None:
    with pytest.raises(EngineError, match=r"'no/such' is not a folder with a config\.json"):
        make_engine(kind, "no/such", max_adapters=1, max_rank=1)


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"'torhc'; did you mean 'torch'\?"):
        make_engine("torhc", "no/such")


def test_auto_is_torch_where_vllm_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, model_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    caplog.set_level("INFO")
    engine = make_engine("auto", model_folder, max_adapters=1, max_rank=1)
    assert engine.facts().kind == "torch"
    assert "engine 'auto' is 'torch' here" in caplog.text
    engine.close()
