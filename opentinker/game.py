"""The exact tree of a small game, as an env module's `game_tree()` gives it and a solver reads it.

A tree is nested nodes: `Chance` where nature draws, `Decision` where a seat chooses, `Terminal` at
an end. Decisions with one `infostate` belong to one seat, can't be told apart by it and offer the
same actions. Simultaneous moves are written one after another, the later infostate not naming the
earlier move. Infostates and actions are spelled as the env itself spells them in `infos`.

A game of perfect information without chance is smaller as a graph: an env module's `position` gives
the `Position` of an infostate, in which ways that lead to the same position meet again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terminal:
    """An end of the game: what each seat is paid."""

    returns: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Chance:
    """A draw of nature: `(probability, node)` pairs whose probabilities sum to 1."""

    children: tuple[tuple[float, Node], ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice of `seat`, who knows only `infostate`; one child an action, in the env's order."""

    seat: str
    infostate: str
    children: Mapping[str, Node]


Node = Terminal | Chance | Decision

Table = Mapping[str, Mapping[str, float]]
"""A behaviour strategy, of one seat or of all: infostate -> action -> probability."""


@dataclass(frozen=True, slots=True)
class Position:
    """A choice of `seat`, who knows all: action -> the infostate that it leads to."""

    seat: str
    children: Mapping[str, str]


Positions = Callable[[str], Position | Terminal]
"""What an infostate stands for in a game of perfect information without chance."""
