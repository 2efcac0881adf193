"""The slots of a PEFT model that adapters take turns in.

PEFT needs 20 to 80 ms to put the modules of a tiny model's adapter in place, and 1 to copy another
version's weights into them: so a slot outlives the version it was made for, and is given to the
next one of the same shape.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peft import LoraConfig, PeftModel
from safetensors.numpy import load_file

from opentinker.errors import EngineError
from opentinker.inference.adapters import Adapter


@dataclass(frozen=True, slots=True)
class Slot:
    """One adapter of the PEFT model; `tensors` are its parameters by their names in a file."""

    name: str
    config: str
    tensors: Mapping[str, Any]


class AdapterSlots:
    """Holds up to `most` slots, and more only while one batch names more adapters."""

    def __init__(self, model: PeftModel, most: int) -> None:
        self._model = model
        self._most = most
        self._numbers = itertools.count()
        self._held: OrderedDict[Adapter, Slot] = OrderedDict()
        self._free: list[Slot] = []

    def hold(self, adapters: Sequence[Adapter]) -> list[str]:
        """The PEFT names of the slots that hold `adapters`; those that have none are read.

        EngineError: tensors that are not of this model, or not all that the spec targets.
        """
        needed = dict.fromkeys(adapters)
        for adapter in needed:
            if adapter not in self._held:
                self._read(adapter, needed)
            self._held.move_to_end(adapter)
        self._trim(needed)
        return [self._held[adapter].name for adapter in adapters]

    def drop(self, adapter: Adapter) -> None:
        """Free its slot, if it has one."""
        if adapter in self._held:
            self._free.append(self._held.pop(adapter))

    def _read(self, adapter: Adapter, needed: Mapping[Adapter, None]) -> None:
        config = (adapter.folder / "adapter_config.json").read_text()
        tensors = load_file(adapter.folder / "adapter_model.safetensors")
        slot = self._reused(config, needed) or self._made(adapter, config)
        own = slot.tensors
        odd = [
            name for name in tensors if name not in own or tensors[name].shape != own[name].shape
        ]
        odd += [name for name in own if name not in tensors]
        if odd:
            self._free.append(slot)
            raise EngineError(f"{odd[0]!r} does not fit the model and its spec's targets")
        for name, tensor in tensors.items():
            own[name].data.copy_(own[name].new_tensor(tensor))
        self._held[adapter] = slot

    def _reused(self, config: str, needed: Mapping[Adapter, None]) -> Slot | None:
        """A slot of that shape: a free one; else an idle one, where no more are to be made."""
        for slot in self._free:
            if slot.config == config:
                self._free.remove(slot)
                return slot
        if len(self._held) + len(self._free) < self._most:
            return None
        for adapter, slot in self._held.items():
            if slot.config == config and adapter not in needed:
                return self._held.pop(adapter)
        return None

    def _made(self, adapter: Adapter, config: str) -> Slot:
        name = f"slot{next(self._numbers)}"
        self._model.add_adapter(name, LoraConfig.from_pretrained(str(adapter.folder)))
        part = f".{name}."
        own = {
            key.replace(part, "."): value
            for key, value in self._model.named_parameters()
            if part in key
        }
        return Slot(name, config, own)

    def _trim(self, needed: Mapping[Adapter, None]) -> None:
        idle = [adapter for adapter in self._held if adapter not in needed]
        while len(self._held) + len(self._free) > self._most and (self._free or idle):
            slot = self._free.pop(0) if self._free else self._held.pop(idle.pop(0))
            self._model.delete_adapter(slot.name)
