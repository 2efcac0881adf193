"""How PettingZoo's poker games (RLCard's) read, and what their actions are called."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentinker.view import Moves, ViewedEnv, ask, pettingzoo_maker

RAISES = {2: "half pot", 3: "pot", 4: "all in"}
"""The sizes of a raise without limit, by RLCard's number of the action."""


@dataclass(frozen=True, slots=True)
class PokerView:
    """Cards, chips and the betting so far; the infostate is what is told, in short.

    A card is its rank, and its suit as a small letter where suits matter. `title` ends in a full
    stop, and `unit` is what a reward of 1 is called.
    """

    title: str
    unit: str
    suits: bool = True

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        state = self._state(env, seat)
        table = " ".join(self._cards(_public(state))) or "none yet"
        said = ", ".join(f"{each} {name}" for move in moves for each, name in move.items())
        text = f"{self.title} You are {seat}. Your cards: {' '.join(self._hand(state))}. "
        text += f"On the table: {table}. Chips bet: {self._chips(env, state)}.\n"
        text += f"Betting so far: {said or 'none'}.\n"
        if any(env.terminations.values()):
            return text + self._end(env, seat, moves)
        if seat != env.agent_selection:
            return f"{text}{env.agent_selection} is to move."
        return text + ask(self.legal(env, seat))

    def legal(self, env: Any, seat: str) -> list[str]:
        state = self._state(env, seat)
        return [_name(action, state) for action in state["legal_actions"]]

    def action(self, env: Any, seat: str, name: str) -> int:
        state = self._state(env, seat)
        actions = list(env.unwrapped.env.actions)
        return next(
            actions.index(action)
            for action in state["legal_actions"]
            if _name(action, state) == name
        )

    def infostate(self, env: Any, seat: str, moves: Moves) -> str:
        state = self._state(env, seat)
        cards = f"{''.join(self._hand(state))}/{''.join(self._cards(_public(state)))}"
        said = [f"{each[-1]}-{name}" for move in moves for each, name in move.items()]
        return " ".join([f"{seat}:{cards}", *said])

    def _state(self, env: Any, seat: str) -> dict[str, Any]:
        return env.unwrapped.env.game.get_state(env.possible_agents.index(seat))

    def _hand(self, state: dict[str, Any]) -> list[str]:
        held = state["hand"]
        return self._cards([held] if isinstance(held, str) else held)

    def _cards(self, cards: Sequence[str]) -> list[str]:
        """RLCard's `ST`, the ten of spades, as `Ts`."""
        return [f"{rank}{suit.lower() if self.suits else ''}" for suit, rank in cards]

    def _chips(self, env: Any, state: dict[str, Any]) -> str:
        left = state.get("stakes")
        return ", ".join(
            f"{each} {chips}" + (f" ({left[k]} left)" if left else "")
            for k, (each, chips) in enumerate(
                zip(env.possible_agents, state["all_chips"], strict=True)
            )
        )

    def _end(self, env: Any, seat: str, moves: Moves) -> str:
        folded = {each for move in moves for each, name in move.items() if name == "fold"}
        shown = [each for each in env.possible_agents if each not in folded]
        text = ""
        if len(shown) > 1:
            hands = (f"{each} had {' '.join(self._hand(self._state(env, each)))}" for each in shown)
            text = f"{', '.join(hands)}. "
        paid = float(env.rewards[seat])
        won = f"won {paid:g}" if paid > 0 else f"lost {-paid:g}" if paid < 0 else "won nothing"
        return f"{text}The game is over: you {won} {self.unit}."


def poker_env(
    id: str,
    view: PokerView,
    *,
    worst_reward: float,
    words: Sequence[str],
    illegal: str | None,
    render_mode: str | None,
    **options: Any,
) -> ViewedEnv:
    """PettingZoo's `id` behind `view`; `options` are its own."""
    return ViewedEnv(
        partial(_make, id, **options),
        view,
        words=words,
        worst_reward=worst_reward,
        illegal=illegal,
        render_mode=render_mode,
    )


def _make(id: str, **options: Any) -> Any:
    make = pettingzoo_maker("aec", id, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered")  # of spaces unused here
        return make()


def _public(state: dict[str, Any]) -> list[str]:
    if "public_cards" in state:
        return state["public_cards"]
    return [state["public_card"]] if state["public_card"] else []


def _name(action: Any, state: dict[str, Any]) -> str:
    """RLCard has words with a limit, and members of an enum without one."""
    if isinstance(action, str):
        return action
    if action.name == "CHECK_CALL":
        return "call" if max(state["all_chips"]) > state["my_chips"] else "check"
    return RAISES[action.value] if action.value in RAISES else str(action.name).lower()
