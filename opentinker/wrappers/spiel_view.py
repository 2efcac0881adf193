"""How an OpenSpiel state reads and what its actions are called: the contract, and the plain view.

A view gets a `pyspiel.State` that is no chance node, and a player's number. The env around it adds
who the seat is, the list of legal answers, and how the game ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class SpielView(Protocol):
    """A view keeps no state of its own, so it can be shared and pickled."""

    def describe(self, state: Any, player: int) -> str:
        """What `player` knows, also after the end."""
        ...

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        """The legal actions of `player`, who is to move: name -> OpenSpiel's action."""
        ...


def seat_name(number: int, player: int) -> str:
    """What `player` is told that a seat is called."""
    return "you" if number == player else f"player_{number}"


def public_moves(state: Any) -> list[tuple[int, int]]:
    """All that players did, (player, OpenSpiel's action) each, without the draws of chance."""
    return [(step.player, step.action) for step in state.full_history() if step.player >= 0]


class PlainView:
    """Any game: what OpenSpiel itself writes of a state and an action."""

    def describe(self, state: Any, player: int) -> str:
        kind = state.get_game().get_type()
        if kind.provides_observation_string:
            return state.observation_string(player).strip()
        return state.information_state_string(player).strip()

    def actions(self, state: Any, player: int) -> Mapping[str, int]:
        numbers = state.legal_actions(player)
        return name_actions({k: state.action_to_string(player, k) for k in numbers})


def name_actions(written: Mapping[int, str]) -> dict[str, int]:
    """Names for actions as they are written: on one line, without brackets, each another.

    An action that is written as one before it, or not at all, gets its number behind.
    """
    names: dict[str, int] = {}
    for number, text in written.items():
        name = " ".join(text.replace("[", "(").replace("]", ")").split()).strip(", ")
        if not name or name in names:
            name = f"{name} #{number}".strip()
        names[name] = number
    return names
