"""Names for envs, agents and protocols: what a config says, looked up where it may be defined.

A name is, in this order: one that was registered in this process, a file of the built-in folder
(`envs/`, `agents/`, `protocols/`), an entry point of an installed package in the group
`opentinker.envs`, `.agents` or `.protocols`, or the place itself, `"package.module:factory"`. An
env may also be one of PettingZoo's, `"pettingzoo/classic/chess-v6"`. Nothing is imported before it
is asked for.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import pettingzoo
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from opentinker.errors import ConfigError, UnknownNameError
from opentinker.protocol import Protocol

Factory = Callable[..., Any]

_NAME = re.compile(r"[\w.-]+")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Collection:
    """One kind of named thing: a folder of built-ins, and what was registered beside them."""

    kind: str
    package: str
    """the built-ins' package, and the entry point group"""
    words: tuple[str, ...]
    """what a built-in's factory may be called, in the order of trying"""
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """start of a name -> the place of a factory that takes the rest of it first"""
    apart: tuple[str, ...] = ()
    """files of the folder that are no entry of the collection"""
    registered: dict[str, tuple[str | Factory, dict[str, Any]]] = field(default_factory=dict)

    def register(self, id: str, entry: str | Factory, defaults: dict[str, Any]) -> None:
        if not _NAME.fullmatch(id):
            raise ConfigError(
                f"{self.kind} name {id!r} can't be registered: use letters, digits, '_', '.', '-'"
            )
        if not callable(entry) and ":" not in entry:
            raise ConfigError(
                f"{self.kind} {id!r}: the entry {entry!r} is neither a callable nor "
                f"'package.module:factory'"
            )
        if id in self.ids() and self.registered.get(id) != (entry, defaults):
            _log.warning("%s %r is registered again, in place of the one before", self.kind, id)
        self.registered[id] = (entry, defaults)

    def find(self, id: str) -> Factory:
        """The factory called `id`, its defaults filled in; `UnknownNameError` if there is none."""
        if id in self.registered:
            entry, defaults = self.registered[id]
            factory = load_object(entry) if isinstance(entry, str) else entry
            return partial(factory, **defaults) if defaults else factory
        if id in self.builtins():
            return self._builtin(importlib.import_module(f"{self.package}.{id}"))
        for point in entry_points(group=self.package, name=id):
            return point.load()
        for prefix, place in self.prefixes.items():
            if id.startswith(prefix):
                return partial(load_object(place), id.removeprefix(prefix))
        if ":" in id:
            return load_object(id)
        hint = f"or 'package.module:factory', or register_{self.kind}({id!r}, ...)"
        raise UnknownNameError(self.kind, id, self.ids(), hint)

    def knows(self, id: str) -> bool:
        """Whether `id` is a name of this kind, or starts as one."""
        return id in self.ids() or any(id.startswith(prefix) for prefix in self.prefixes)

    def builtins(self) -> list[str]:
        """The files of the built-in folder, not imported."""
        path = importlib.import_module(self.package).__path__
        return [info.name for info in pkgutil.iter_modules(path) if info.name not in self.apart]

    def _builtin(self, module: ModuleType) -> Factory:
        for word in self.words:
            if hasattr(module, word):
                return getattr(module, word)
        raise ConfigError(f"{module.__file__} has no function {' or '.join(self.words)}")

    def ids(self) -> list[str]:
        installed = [point.name for point in entry_points(group=self.package)]
        return sorted({*self.registered, *self.builtins(), *installed})


_envs = _Collection(
    "env",
    "opentinker.envs",
    ("env", "parallel_env"),
    {
        "pettingzoo/": "opentinker.view:pettingzoo_env",
        "openspiel/": "opentinker.wrappers.openspiel:spiel_env",
        "textarena/": "opentinker.wrappers.textarena:textarena_env",
        "gymnasium/": "opentinker.wrappers.gym:gym_env",
        "reasoning_gym/": "opentinker.wrappers.reasoning:reasoning_env",
    },
)
_agents = _Collection("agent", "opentinker.agents", ("make",), apart=("human", "policy"))
_protocols = _Collection("protocol", "opentinker.protocols", ("build",))
COLLECTIONS: Mapping[str, _Collection] = {c.kind: c for c in (_envs, _agents, _protocols)}
"""env, agent, protocol: how each is looked up, and what its factory is called in a file."""


def load_object(place: str) -> Any:
    """What `"package.module:name"` names; ConfigError without the module or the name in it."""
    module_name, _, name = place.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name is not None
        if missing and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"no module {error.name!r} for {place!r}: install it, or put its folder on "
                f"PYTHONPATH"
            ) from error
        raise ConfigError(f"importing {module_name!r} for {place!r} failed: {error}") from error
    if not hasattr(module, name):
        own = [
            key
            for key, value in vars(module).items()
            if key[0] != "_" and getattr(value, "__module__", None) == module.__name__
        ]
        raise UnknownNameError(f"name in module {module_name!r}:", name, own)
    return getattr(module, name)


def call_factory(kind: str, id: str, factory: Factory, *args: Any, **kwargs: Any) -> Any:
    """Call `factory`; ConfigError, with the options it has, for arguments that it does not take."""
    try:
        signature = inspect.signature(factory)
    except ValueError:
        return factory(*args, **kwargs)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ConfigError(
            f"{kind} {id!r} can't be made with {kwargs!r}: {error}; its options are {signature}"
        ) from error
    try:
        return factory(*args, **kwargs)
    except TypeError as error:
        frames = error.__traceback__ and error.__traceback__.tb_next
        if frames is None or frames.tb_next is not None:
            raise
        # Raised in the factory's own lines: by a class that it hands its `**options` to.
        raise ConfigError(f"{kind} {id!r} can't be made with {kwargs!r}: {error}") from error


def register_env(id: str, entry: str | Factory, **defaults: Any) -> None:
    """Name an env factory, also as `opentinker/<id>` in PettingZoo's registry.

    `entry` is a callable or `"package.module:factory"`; `defaults` are arguments it is called with.
    """
    _envs.register(id, entry, defaults)
    _mirror(id)


def make_env(id: str, **kwargs: Any) -> AECEnv | ParallelEnv:
    """A new env called `id`; ConfigError if its factory gives anything else."""
    env = call_factory("env", id, _envs.find(id), **kwargs)
    if not isinstance(env, AECEnv | ParallelEnv):
        raise ConfigError(
            f"env {id!r} gave a {type(env).__name__}, not a PettingZoo AECEnv or ParallelEnv"
        )
    return env


def env_module(id: str) -> ModuleType:
    """The module that defines the env's factory: what it says about the whole game is there."""
    factory = _envs.find(id)
    while isinstance(factory, partial):
        factory = factory.func
    return importlib.import_module(factory.__module__)


def env_ids() -> list[str]:
    """Every env that has a name, sorted; PettingZoo's own are not listed."""
    return _envs.ids()


def register_agent(id: str, entry: str | Factory, **defaults: Any) -> None:
    """Name an agent factory, which is called with `seat=`, `seed=` and options."""
    _agents.register(id, entry, defaults)


def agent_factory(id: str) -> Factory:
    """The agent factory called `id`; `UnknownNameError` if there is none."""
    return _agents.find(id)


def agent_ids() -> list[str]:
    return _agents.ids()


def register_protocol(id: str, entry: str | Factory, **defaults: Any) -> None:
    """Name a protocol builder, which is called with the seats and options."""
    _protocols.register(id, entry, defaults)


def make_protocol(id: str, seats: tuple[str, ...], **options: Any) -> Protocol:
    """The protocol called `id` for `seats`."""
    protocol = call_factory("protocol", id, _protocols.find(id), seats, **options)
    if not isinstance(protocol, Protocol):
        raise ConfigError(f"protocol {id!r} gave a {type(protocol).__name__}, not a Protocol")
    return protocol


def protocol_builder(id: str) -> Factory:
    """What builds the protocol called `id`; `UnknownNameError` if there is none."""
    return _protocols.find(id)


def protocol_ids() -> list[str]:
    return _protocols.ids()


def _mirror(id: str) -> None:
    """Put `id` into both of PettingZoo's registries; its kind is known only when it is made."""
    name = f"opentinker/{id}"
    key = pettingzoo.EnvSpec(name).id
    pettingzoo.aec_registry.pop(key, None)
    pettingzoo.parallel_registry.pop(key, None)
    pettingzoo.register("aec", name, partial(_make_aec, id))
    pettingzoo.register("parallel", name, partial(_make_parallel, id))


def _make_aec(id: str, **kwargs: Any) -> AECEnv:
    env = make_env(id, **kwargs)
    return parallel_to_aec(env) if isinstance(env, ParallelEnv) else env


def _make_parallel(id: str, **kwargs: Any) -> ParallelEnv:
    env = make_env(id, **kwargs)
    if isinstance(env, AECEnv):
        raise ConfigError(f"env {id!r} is turn based: pettingzoo.make('aec', 'opentinker/{id}')")
    return env


for _id in _envs.builtins():
    _mirror(_id)
