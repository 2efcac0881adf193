"""Asks a model all 100 first sums, greedily: how many are right, how many are said in words.

python answers.py MODEL [ADAPTER]
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import torch
from make_data import WORDS, message, question
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(model: str, adapter: str | None = None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    network: Any = AutoModelForCausalLM.from_pretrained(model)
    if adapter is not None:
        network = PeftModel.from_pretrained(network, adapter)
    right = worded = 0
    for a, b in product(range(10), repeat=2):
        prompt = tokenizer.apply_chat_template(
            [message("user", question(a, b))],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        with torch.no_grad():
            ids = network.generate(**prompt, max_new_tokens=6, do_sample=False)[0]
        said = tokenizer.decode(ids[prompt["input_ids"].shape[1] :], skip_special_tokens=True)
        right += said in (WORDS[a + b], str(a + b))
        worded += said in WORDS
    sys.stdout.write(f"right: {right} of 100, in words: {worded}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
