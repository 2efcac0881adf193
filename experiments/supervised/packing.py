"""Tokens a second of a fit on examples of unequal lengths, packed beside padded, three times."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from opentinker.learner.fitted import Fitted
from opentinker.learner.fitting import FitSettings
from opentinker.learner.rows import Example
from opentinker.learner.supervised import supervise
from opentinker.learner.tiny_model import make_tiny


def examples(lengths: np.ndarray, rng: np.random.Generator) -> list[Example]:
    """The second half of each is learned."""
    return [
        (
            rng.integers(5, 200, length).astype(np.int32),
            (np.arange(length) >= length // 2).astype(np.float32),
        )
        for length in lengths.tolist()
    ]


def main() -> None:
    rng = np.random.default_rng(0)
    kinds = {
        "20 to 120 tokens, each as likely": rng.integers(20, 120, 400),
        "mostly about 80, up to 500": np.minimum(500, 20 + rng.exponential(60, 400)).astype(int),
        "30 to 500 tokens, each as likely": rng.integers(30, 500, 400),
    }
    with tempfile.TemporaryDirectory() as folder:
        model = make_tiny(Path(folder) / "model", ["a few words"])
        for name, lengths in kinds.items():
            items = examples(lengths, rng)
            for packing in (False, True) * 3:
                settings = FitSettings(packing=packing, validation=0.0, batch_tokens=4096)
                fit = supervise(Fitted(str(model)), items, settings)
                began = perf_counter()
                padding = [metrics["padding_share"] for metrics in fit]
                rate = lengths.sum() / (perf_counter() - began)
                way = "packed" if packing else "padded"
                sys.stdout.write(
                    f"{name}: {way} {rate:.0f} tokens/s, {np.mean(padding):.3f} padding\n"
                )


if __name__ == "__main__":
    main()
