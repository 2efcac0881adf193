"""A tiny Llama made on the spot, with a tokenizer trained on the texts that it will meet.

Words and tags that the corpus holds are one token each, at the start of a text as after a blank or
a new line; all other text goes through bytes. The weights are random: training comes after.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from opentinker.errors import ConfigError
from opentinker.learner.folders import written_whole

PAD, SYSTEM, USER, ASSISTANT, END = SPECIAL = (
    "<|pad|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
)

HEAD_SIZE = 32
"""The smallest that vLLM's CPU attention takes."""

WORD = r"\s?\[[^\s\[\]]+\]|\s?[^\s\[]+|\s?\[|\s"
"""A tag such as `[bet]`, else a word up to the next blank or tag; each with one blank before it."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role ' + message['role'] + '; known: system, user, assistant') }}"
    "{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

RECIPE = "tiny_model.json"
"""The file in the folder that tells what it was made from; written last."""

RECIPE_FORMAT = 2
"""Counts up whenever the same settings would give another model."""


def make_tiny(
    folder: Path,
    corpus: Iterable[str],
    *,
    seed: int = 0,
    hidden: int = 64,
    layers: int = 2,
    heads: int | None = None,
    context: int = 512,
    vocabulary: int = 4096,
) -> Path:
    """Make the model in `folder`, or find it there made from the same corpus and settings.

    `heads` None is as many of 32 as make up `hidden`. `vocabulary` is the most tokens that the
    tokenizer may have. ConfigError: sizes that can't be, or a folder that holds something else.
    """
    folder = Path(folder)
    texts = list(corpus)
    heads = hidden // HEAD_SIZE if heads is None else heads
    smallest = len(SPECIAL) + 256
    for name, value, least in (
        ("hidden", hidden, 2),
        ("layers", layers, 1),
        ("heads", heads, 1),
        ("context", context, 2),
        ("vocabulary", vocabulary, smallest),
    ):
        if value < least:
            raise ConfigError(f"the tiny model's {name} is {value}; at least {least} is needed")
    recipe = {
        "format": RECIPE_FORMAT,
        "seed": seed,
        "hidden": hidden,
        "layers": layers,
        "heads": heads,
        "context": context,
        "vocabulary": vocabulary,
        "corpus": _digest(texts),
    }
    if _recipe_in(folder) == recipe:
        return folder
    tokenizer = train_tokenizer(texts, vocabulary)
    ids = tokenizer.get_vocab()
    end, pad = ids[END], ids[PAD]
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=HEAD_SIZE,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
        # The usual 0.02 is for wide models; at 64 it leaves attention flat for hundreds of steps.
        initializer_range=hidden**-0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LlamaForCausalLM(config).float()
    network.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=pad)
    tokenizer.model_max_length = context
    with written_whole(folder) as beside:
        network.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
        (beside / RECIPE).write_text(json.dumps(recipe, indent=2) + "\n")
    return folder


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, whose pieces never cross from one word into the next.

    Where there are more words than fit, the more frequent are whole.
    """
    words = pre_tokenizers.Split(Regex(WORD), behavior="isolated")
    distinct = sorted({word.strip() for text in texts for word, _ in words.pre_tokenize_str(text)})
    variants = [before + word for word in distinct if word for before in ("", " ", "\n")]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=1,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator([*texts, *variants], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def _digest(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def _recipe_in(folder: Path) -> dict[str, object] | None:
    """What a tiny model there was made from; ConfigError for a folder of something else."""
    if (folder / RECIPE).is_file():
        return json.loads((folder / RECIPE).read_text())
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{str(folder)!r} holds something else; name an empty or a new folder")
    return None
