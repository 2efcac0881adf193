"""The families of envs that other libraries bring: their prefix, their extra, their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from opentinker.wrappers.extras import load


@dataclass(frozen=True, slots=True)
class Family:
    """Envs named `<prefix><name>`; `names` raises ConfigError where the library is missing."""

    prefix: str
    name: str
    """what stands after the prefix, in words"""
    extra: str
    """of this package: `pip install 'opentinker[extra]'`"""
    what: str
    names: Callable[[], Iterable[str]]


def _openspiel() -> Iterable[str]:
    from opentinker.wrappers.openspiel import playable

    return playable()


def _textarena() -> Iterable[str]:
    from opentinker.wrappers.textarena import playable

    return playable()


def _gymnasium() -> Iterable[str]:
    """Those with a view of their own; more can be named, if their actions are numbers or texts."""
    import gymnasium

    from opentinker.wrappers.gym import VIEWS

    load("pygame", "gymnasium")
    return [id for id in gymnasium.registry if id.partition("-v")[0] in VIEWS]


def _reasoning_gym() -> Iterable[str]:
    load("reasoning_gym", "reasoning-gym")
    return load("reasoning_gym.factory", "reasoning-gym").DATASETS


def _pettingzoo() -> Iterable[str]:
    import pettingzoo

    load("rlcard", "classic")
    return [id for id in pettingzoo.aec_registry if id.startswith("classic/")]


FAMILIES = (
    Family("pettingzoo/", "classic/<name>", "classic", "board and card games", _pettingzoo),
    Family("openspiel/", "<name>", "openspiel", "games with exact returns", _openspiel),
    Family("textarena/", "<Id>", "textarena", "games played by talking", _textarena),
    Family("gymnasium/", "<Id>", "gymnasium", "toy text, and any env of numbers", _gymnasium),
    Family("reasoning_gym/", "<task>", "reasoning-gym", "questions with a score", _reasoning_gym),
)
