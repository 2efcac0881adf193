"""Which folder a model's name means, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from opentinker.errors import ConfigError, RenderingError
from opentinker.learner.smollm2 import FORMAT, NAME
from opentinker.learner.tiny_model import make_tiny
from opentinker.scheduler.models import check_model, model_folder


def test_a_name_means_a_folder_a_run_or_what_is_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENTINKER_CACHE", str(tmp_path))
    for folder in ("plain", "run/model", f"{NAME}-{FORMAT}"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text("{}")
    assert model_folder(str(tmp_path / "plain")) == tmp_path / "plain"
    assert model_folder(str(tmp_path / "run")) == tmp_path / "run" / "model"
    assert model_folder(NAME) == tmp_path / f"{NAME}-{FORMAT}"


@pytest.mark.parametrize("name", ["nobody/nothing", "no/such/folder", "smollm2"])
def test_a_model_that_is_not_at_hand_is_refused_and_not_downloaded(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no model '{name}': .*'smollm2-135m'.* hf download"):
        model_folder(name)


def test_a_template_that_rewrites_history_is_refused_before_anything_starts(tmp_path: Path) -> None:
    folder = make_tiny(tmp_path / "tiny", ["one word"])
    check_model(str(folder))
    last_only = "<|user|>{{ messages[-1].content }}<|end|><|assistant|>"
    (folder / "chat_template.jinja").write_text(last_only)
    with pytest.raises(RenderingError, match="rewrites earlier turns"):
        check_model(str(folder))


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises((ConfigError, RenderingError), match="tokenizer"):
        check_model(str(tmp_path))
