"""Multi-agent simulation and reinforcement learning of language-model agents.

Public names are loaded when they are first used, so that a look costs no heavy library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentinker.agent import Agent, Answer, View
    from opentinker.config import load_experiment
    from opentinker.env import ParallelTextEnv, TextEnv
    from opentinker.errors import ConfigError, OpenTinkerError
    from opentinker.protocol import Protocol, Stage, register_predicate
    from opentinker.registry import (
        make_env,
        make_protocol,
        register_agent,
        register_env,
        register_protocol,
    )
    from opentinker.rollout.single_agent import SingleAgentEnv
    from opentinker.scheduler.jobs import run_experiment
    from opentinker.text import FreeText, Text
    from opentinker.types import Completion, Episode, EpisodeRequest, PolicyVersion, Turn

    __version__: str

_HOMES = {
    "Agent": "agent",
    "Answer": "agent",
    "Completion": "types",
    "ConfigError": "errors",
    "Episode": "types",
    "EpisodeRequest": "types",
    "FreeText": "text",
    "OpenTinkerError": "errors",
    "ParallelTextEnv": "env",
    "PolicyVersion": "types",
    "Protocol": "protocol",
    "SingleAgentEnv": "rollout.single_agent",
    "Stage": "protocol",
    "Text": "text",
    "TextEnv": "env",
    "Turn": "types",
    "View": "agent",
    "load_experiment": "config",
    "make_env": "registry",
    "make_protocol": "registry",
    "register_agent": "registry",
    "register_env": "registry",
    "register_predicate": "protocol",
    "register_protocol": "registry",
    "run_experiment": "scheduler.jobs",
}

__all__ = [
    "Agent",
    "Answer",
    "Completion",
    "ConfigError",
    "Episode",
    "EpisodeRequest",
    "FreeText",
    "OpenTinkerError",
    "ParallelTextEnv",
    "PolicyVersion",
    "Protocol",
    "SingleAgentEnv",
    "Stage",
    "Text",
    "TextEnv",
    "Turn",
    "View",
    "__version__",
    "load_experiment",
    "make_env",
    "make_protocol",
    "register_agent",
    "register_env",
    "register_predicate",
    "register_protocol",
    "run_experiment",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("opentinker")
    if name not in _HOMES:
        raise AttributeError(f"module 'opentinker' has no attribute {name!r}")
    return getattr(importlib.import_module(f"opentinker.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
