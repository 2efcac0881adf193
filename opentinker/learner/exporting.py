"""A policy of a checkpoint, in a folder for others: PEFT, transformers, vLLM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import cast

from peft import PeftModel
from transformers import AutoTokenizer, PreTrainedModel

from opentinker.errors import ConfigError
from opentinker.learner.critic import CRITIC
from opentinker.learner.folders import written_whole
from opentinker.learner.peft_folder import CONFIG, TENSORS, is_adapter, read_spec
from opentinker.learner.update import COUNTS, OPTIMIZER, REFERENCE
from opentinker.learner.weights import load_network

_OURS = (COUNTS, OPTIMIZER, REFERENCE, CRITIC)


def export_policy(source: Path, base: str, out: Path, *, merged: bool) -> Path:
    """Write the policy in a checkpoint's folder `source` into `out`, and give that back.

    An adapter becomes a PEFT folder that names `base`, or with `merged` a whole model: `base` with
    the adapter in its weights, in float32. A whole model becomes a folder of transformers. Whole
    models come with their tokenizer. `out` is there whole or not at all, and is replaced where it
    was. ConfigError: `source` holds no policy, or `merged` is asked of a whole model.
    """
    if not is_adapter(source) and not (source / "config.json").is_file():
        raise ConfigError(f"{str(source)!r} holds no policy (no {CONFIG}, no config.json)")
    if merged and not is_adapter(source):
        raise ConfigError(f"{str(source)!r} is a whole model; there is nothing to merge")
    with written_whole(out) as beside:
        if merged:
            _merge(source, base, beside)
        elif is_adapter(source):
            config = json.loads((source / CONFIG).read_text(encoding="utf-8"))
            config["base_model_name_or_path"] = base
            (beside / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            shutil.copyfile(source / TENSORS, beside / TENSORS)
        else:
            for path in source.iterdir():
                if path.name not in _OURS:
                    shutil.copyfile(path, beside / path.name)
    return out


def _merge(source: Path, base: str, folder: Path) -> None:
    read_spec(source)
    adapted = PeftModel.from_pretrained(load_network(base), str(source))
    network = cast(PreTrainedModel, adapted.merge_and_unload())
    network.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
