"""Writes the two data files beside it: sums in digits or in words, and the words preferred."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

_UP_TO_19 = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen"""
WORDS = [*_UP_TO_19.split(), "twenty", *(f"twenty-{each}" for each in _UP_TO_19.split()[1:8])]


def message(role: str, content: object) -> dict[str, str]:
    return {"role": role, "content": str(content)}


def question(a: int, b: int) -> str:
    return f"What is {a} + {b} ?"


def conversation(a: int, b: int, c: int, in_words: bool) -> dict[str, Any]:
    """Two sums, the second from the first one's result, both said in one style."""
    first, second = (WORDS[each] if in_words else each for each in (a + b, a + b + c))
    return {
        "messages": [
            message("user", question(a, b)),
            message("assistant", first),
            message("user", f"And {c} more ?"),
            message("assistant", second),
        ]
    }


def preference(a: int, b: int) -> dict[str, Any]:
    return {
        "messages": [message("user", question(a, b))],
        "chosen": WORDS[a + b],
        "rejected": str(a + b),
    }


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def main() -> None:
    folder = Path(__file__).parent
    drawn = random.Random(0)
    triples = drawn.sample(list(product(range(10), repeat=3)), 200)
    write(
        folder / "sums.jsonl",
        (conversation(*each, in_words=place % 2 == 0) for place, each in enumerate(triples)),
    )
    couples = drawn.sample(list(product(range(10), repeat=2)), 50)
    write(folder / "words.jsonl", (preference(*each) for each in couples))


if __name__ == "__main__":
    main()
