"""One frozen base model in memory, and any number of named LoRA adapters over it.

Axes: B rows, T tokens, N chosen positions, V vocabulary.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from peft import LoraConfig, LoraModel, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors import SafetensorError
from safetensors.numpy import save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.learner.peft_folder import TENSORS
from opentinker.learner.policy import output_head
from opentinker.learner.settings import Init
from opentinker.types import AdapterSpec, AdapterWeights

ALL_LINEAR = ("all-linear",)
PREFIX = "base_model.model."
"""What PEFT puts before the base's module names in the files that it saves."""


class BaseModel:
    """A causal language model whose own weights never change, and its adapters.

    An adapter may have any name: inside PEFT, which forbids dots and matches by parts of names,
    each has a number. `model` is a folder that transformers saved; `dtype` None is float32,
    adapters are float32 always.
    """

    def __init__(self, model: str, *, dtype: str | None = None) -> None:
        self.model = model
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = load_network(model, dtype).eval()
        self.network.to(self.device)  # pyright: ignore[reportArgumentType]
        self.network.requires_grad_(False)
        self._peft: PeftModel | None = None
        self._specs: dict[str, AdapterSpec] = {}
        self._inner: dict[str, str] = {}
        self._linear = _linear_names(self.network)

    @property
    def policies(self) -> tuple[str, ...]:
        """The adapters' names in the order in which they were added."""
        return tuple(self._specs)

    def spec(self, policy: str) -> AdapterSpec:
        self._known(policy)
        return self._specs[policy]

    def add_adapter(
        self, policy: str, spec: AdapterSpec, seed: int = 0, *, init: Init = "kaiming"
    ) -> None:
        """A new adapter that changes nothing yet: A is random, B is zero, as PEFT starts one.

        The numbers depend on the arguments alone. ConfigError: a name that is taken, a rank below
        1, a target that the model doesn't have.
        """
        if policy in self._specs:
            raise ConfigError(f"policy {policy!r} has an adapter already; names are unique")
        if spec.rank < 1:
            raise ConfigError(f"policy {policy!r}: rank is {spec.rank}; at least 1 is needed")
        config = LoraConfig(
            r=spec.rank,
            lora_alpha=spec.alpha,  # pyright: ignore[reportArgumentType]
            target_modules=self.targets(policy, spec),
            task_type="CAUSAL_LM",
            base_model_name_or_path=self.model,
        )
        inner = f"adapter_{len(self._inner)}"
        if self._peft is None:
            made = get_peft_model(self.network, config, inner)
            assert isinstance(made, PeftModel)
            self._peft = made.eval()
        else:
            self._peft.add_adapter(inner, config)
        self._specs[policy], self._inner[policy] = spec, inner
        generator = torch.Generator().manual_seed(_own_seed(policy, seed))
        for name, parameter in sorted(self.parameters(policy).items()):
            start = torch.zeros(parameter.shape)
            if ".lora_A." in name and init == "gaussian":
                nn.init.normal_(start, std=1 / spec.rank, generator=generator)
            elif ".lora_A." in name:
                nn.init.kaiming_uniform_(start, a=math.sqrt(5), generator=generator)
            parameter.data.copy_(start)

    def targets(self, policy: str, spec: AdapterSpec) -> list[str]:
        """The linear layers that `spec` names; ConfigError for none, or one not in the model."""
        wanted = self._linear if spec.targets == ALL_LINEAR else list(spec.targets)
        for name in wanted:
            if name not in self._linear:
                error = UnknownNameError("target", name, [*self._linear, *ALL_LINEAR])
                raise ConfigError(f"policy {policy!r}: {error}")
        if not wanted:
            raise ConfigError(f"policy {policy!r}: no targets; known: {', '.join(self._linear)}")
        return wanted

    def parameters(self, policy: str) -> dict[str, nn.Parameter]:
        """The adapter's own parameters under the names that PEFT saves them by."""
        self._known(policy)
        inner = self._inner[policy]
        return {
            f"{PREFIX}{name}.{part}.weight": cast(nn.Parameter, table[inner].weight)
            for name, layer in self.network.named_modules()
            if isinstance(layer, LoraLayer)
            for part, table in (("lora_A", layer.lora_A), ("lora_B", layer.lora_B))
            if inner in table
        }

    def export(self, policy: str) -> AdapterWeights:
        """A copy that later updates don't change."""
        tensors = {
            name: np.array(parameter.detach().cpu().numpy(), dtype=np.float32)
            for name, parameter in self.parameters(policy).items()
        }
        return AdapterWeights(self.spec(policy), tensors)

    def load_adapter(self, policy: str, weights: AdapterWeights) -> None:
        """Set the adapter's values, adding it if need be; ConfigError where they don't fit."""
        if policy not in self._specs:
            self.add_adapter(policy, weights.spec)
        if weights.spec != self._specs[policy]:
            raise ConfigError(
                f"policy {policy!r} has an adapter of {self._specs[policy]}; "
                f"the weights are of {weights.spec}"
            )
        own = self.parameters(policy)
        if odd := own.keys() ^ weights.tensors.keys():
            raise ConfigError(
                f"weights for policy {policy!r} don't fit: {min(odd)!r} is in one, not in the other"
            )
        for name, parameter in own.items():
            if weights.tensors[name].shape != tuple(parameter.shape):
                raise ConfigError(
                    f"weights for policy {policy!r} don't fit: {name!r} has shape "
                    f"{weights.tensors[name].shape}, the adapter's is {tuple(parameter.shape)}"
                )
        for name, parameter in own.items():
            parameter.data.copy_(torch.from_numpy(np.array(weights.tensors[name])))

    def save_peft(self, policy: str, folder: Path) -> None:
        """Write `adapter_config.json` and `adapter_model.safetensors`, which PEFT and vLLM load."""
        weights = self.export(policy)
        folder.mkdir(parents=True, exist_ok=True)
        assert self._peft is not None
        config = self._peft.peft_config[self._inner[policy]]
        trained, config.inference_mode = config.inference_mode, True
        config.save_pretrained(str(folder))
        config.inference_mode = trained
        save_file(dict(weights.tensors), folder / TENSORS, metadata={"format": "pt"})

    def copy_adapter(self, source: str, target: str) -> None:
        """Give `target`, of the same spec, the values of `source`."""
        theirs = self.parameters(source)
        for name, parameter in self.parameters(target).items():
            parameter.data.copy_(theirs[name].data)

    @contextmanager
    def active(self, policy: str | None) -> Iterator[None]:
        """The network answers with this adapter, or with none of them, until the block ends.

        PEFT gives gradients to the adapter made active last, and here only where gradients are
        being recorded: go backward before another one is.
        """
        if policy is not None:
            self._known(policy)
        if self._peft is None:
            yield
        elif policy is None:
            tuner = cast(LoraModel, self._peft.base_model)
            tuner.disable_adapter_layers()
            try:
                yield
            finally:
                tuner.enable_adapter_layers()
        else:
            self._peft.set_adapter(self._inner[policy], inference_mode=not torch.is_grad_enabled())
            yield

    def _known(self, policy: str) -> None:
        if policy not in self._specs:
            raise UnknownNameError("policy", policy, self._specs)


def load_network(model: str, dtype: str | None = None) -> PreTrainedModel:
    """A causal language model from a folder that transformers saved; ConfigError for others."""
    if not (Path(model) / "config.json").is_file():
        raise ConfigError(f"model {model!r} is not a folder with a config.json")
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            model,
            dtype=getattr(torch, dtype or "float32"),
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"model {model!r} can't be loaded: {error}") from error
    network, found = loaded
    if found["missing_keys"]:
        raise ConfigError(f"model {model!r} lacks the weights {min(found['missing_keys'])!r}")
    return network


def chosen_logits(
    network: PreTrainedModel,
    ids: Tensor,
    rows: Tensor,
    columns: Tensor,
    positions: Tensor | None = None,
) -> Tensor:
    """Logits [N, V] after `ids[rows, columns]` [N], of right-padded `ids` [B, T].

    Padding stands to the right of every position that is asked for, so the causal mask alone hides
    it. The output head sees the chosen positions only. Where `positions` [B, T] start anew within a
    row, transformers lets what follows see nothing of what was before.
    """
    return chosen_outputs(network, ids, rows, columns, rows[:0], columns[:0], positions)[0]


def chosen_outputs(
    network: PreTrainedModel,
    ids: Tensor,
    rows: Tensor,
    columns: Tensor,
    state_rows: Tensor,
    state_columns: Tensor,
    positions: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`chosen_logits`, and hidden states [M, H] at `ids[state_rows, state_columns]` [M].

    The states are those that go into the output head.
    """
    states: list[Tensor] = []

    def choose(_: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        states.append(inputs[0][state_rows, state_columns])
        return inputs[0][rows, columns]

    hook = output_head(network).register_forward_pre_hook(choose)
    try:
        logits = network(input_ids=ids, position_ids=positions, use_cache=False).logits
    finally:
        hook.remove()
    return logits, states[0]


def _linear_names(network: PreTrainedModel) -> list[str]:
    """The leaf names of the linear layers, in order, without the output head."""
    head = output_head(network)
    names = [
        name.rpartition(".")[2]
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    ]
    return list(dict.fromkeys(names))


def _own_seed(policy: str, seed: int) -> int:
    digest = hashlib.sha256(f"{seed}/{policy}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
