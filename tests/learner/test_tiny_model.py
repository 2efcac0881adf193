from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from jinja2.exceptions import TemplateError
from transformers import AutoModelForCausalLM, AutoTokenizer

from opentinker.errors import ConfigError
from opentinker.learner.tiny_model import RECIPE, make_tiny
from opentinker.rendering import Renderer

CORPUS = [
    "You hold the King.\nLegal actions: [bet], [check]\nAnswer with one of them.",
    "You hold the Queen. Your opponent played [bet].\nLegal actions: [call] [fold]",
    "[check]",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp("tiny") / "model", CORPUS)


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_another_process_makes_the_same_files_to_the_byte(tiny: Path, tmp_path: Path) -> None:
    code = (
        "import json, sys; from pathlib import Path;"
        "from opentinker.learner.tiny_model import make_tiny;"
        "make_tiny(Path(sys.argv[1]), json.loads(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "other"), json.dumps(CORPUS)]
    subprocess.run(command, check=True, capture_output=True)
    assert files(tmp_path / "other") == files(tiny)


def test_another_seed_gives_other_weights_and_the_same_tokenizer(
    tiny: Path, tmp_path: Path
) -> None:
    ours, other = files(tiny), files(make_tiny(tmp_path / "other", CORPUS, seed=1))
    assert other["tokenizer.json"] == ours["tokenizer.json"]
    assert other["model.safetensors"] != ours["model.safetensors"]


def test_making_it_leaves_the_process_random_state_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make_tiny(tmp_path / "model", CORPUS)
    assert torch.equal(torch.rand(3), expected)


def test_it_is_reused_for_the_same_corpus_and_made_anew_for_another(folder: Path) -> None:
    weights = make_tiny(folder, CORPUS) / "model.safetensors"
    first = weights.stat().st_mtime_ns
    make_tiny(folder, iter(CORPUS))
    assert weights.stat().st_mtime_ns == first
    make_tiny(folder, [*CORPUS, "[raise]"])
    assert weights.stat().st_mtime_ns != first
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]


def test_a_torn_folder_is_not_reused(folder: Path) -> None:
    make_tiny(folder, CORPUS)
    (folder / RECIPE).unlink()
    with pytest.raises(ConfigError, match="holds something else"):
        make_tiny(folder, CORPUS)


@pytest.mark.parametrize("wrong", [{"layers": 0}, {"vocabulary": 260}, {"heads": 0}])
def test_sizes_that_cannot_be_are_refused(folder: Path, wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        make_tiny(folder, CORPUS, **wrong)


@pytest.mark.parametrize("tag", ["[bet]", "[check]", "[call]", "[fold]", "King.", "Queen."])
def test_tags_and_words_are_one_token_wherever_they_stand(tiny: Path, tag: str) -> None:
    encode = Renderer.load(tiny).encode
    for text in (tag, f" {tag}", f"\n{tag}"):
        assert len(encode(text)) == 1, text
    assert encode(f"{tag} [bet],[call]")[:2] == (*encode(tag), *encode(" [bet]"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  two  blanks ",
        "\r\n\t\x00",
        "Ünïcödé 世界 🎲👩‍🚀",
        "[unknown tag] [x",
        "\u00a0\u2028]",
        "[[bet]]",
    ],
)
def test_any_text_survives_encoding(tiny: Path, text: str) -> None:
    renderer = Renderer.load(tiny)
    assert renderer.decode(renderer.encode(text)) == text


def test_special_tokens_are_one_id_each_and_answers_end_with_the_end_token(tiny: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    names = ["<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    ids = tokenizer.convert_tokens_to_ids(names)
    assert ids == [0, 1, 2, 3, 4]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 4)
    network = AutoModelForCausalLM.from_pretrained(tiny)
    assert network.generation_config.eos_token_id == network.config.eos_token_id == 4
    assert network.config.vocab_size == len(tokenizer)
    assert network.dtype == torch.float32


def test_the_chat_template_only_appends_and_keeps_content_as_it_is(tiny: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    messages = [
        {"role": "system", "content": " s \n"},
        {"role": "user", "content": "\n one "},
        {"role": "assistant", "content": "[bet] "},
        {"role": "user", "content": "{{ two }}"},
    ]

    def render(count: int, prompt: bool) -> str:
        return str(
            tokenizer.apply_chat_template(
                messages[:count], add_generation_prompt=prompt, tokenize=False
            )
        )

    assert render(4, True) == (
        "<|system|> s \n<|end|><|user|>\n one <|end|><|assistant|>[bet] <|end|>"
        "<|user|>{{ two }}<|end|><|assistant|>"
    )
    for count in (1, 2, 3):
        assert render(count + 1, False).startswith(render(count, False))
    with pytest.raises(TemplateError, match="unknown role tool"):
        tokenizer.apply_chat_template([{"role": "tool", "content": ""}], tokenize=False)


def test_a_renderer_carries_a_conversation_over_it(tiny: Path) -> None:
    renderer = Renderer.load(tiny)
    opening = renderer.opening("hello", "rules")
    answer = renderer.answer_ids("[bet]")
    following = renderer.following("[call]", answer[-1])
    text = (
        "<|system|>rules<|end|><|user|>hello<|end|><|assistant|>[bet]<|end|>"
        "<|user|>[call]<|end|><|assistant|>"
    )
    assert (*opening, *answer, *following) == renderer.encode(text)
    assert len(answer) == 2
