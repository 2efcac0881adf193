"""Any game of OpenSpiel by its name, `openspiel/<name>`, as a text env with exact returns.

Parts: `spiel_env`, the factory; `SpielEnv`, for games in which one player moves at a time;
`SpielParallelEnv`, for those in which all do. Chance is drawn from the env's own generator. A seat
is paid what its return grew by; in games that pay only at the end, all of it then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from opentinker.env import ParallelTextEnv, TextEnv
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.registry import load_object
from opentinker.view import ask
from opentinker.wrappers.extras import load
from opentinker.wrappers.spiel_view import PlainView, SpielView

HERE = "opentinker.wrappers"
MATRIX = ("bos", "brps", "cd", "coordination", "mp", "pd", "rps", "rpsw", "sh", "shapleys_game")
VIEWS: Mapping[str, str] = {
    "backgammon": f"{HERE}.spiel_dice:BackgammonView",
    "bargaining": f"{HERE}.spiel_deals:BargainingView",
    "goofspiel": f"{HERE}.spiel_cards:GoofspielView",
    "kuhn_poker": f"{HERE}.spiel_cards:KuhnView",
    "leduc_poker": f"{HERE}.spiel_cards:LeducView",
    "liars_dice": f"{HERE}.spiel_dice:LiarsDiceView",
    "negotiation": f"{HERE}.spiel_deals:NegotiationView",
    **{f"matrix_{name}": f"{HERE}.spiel_matrix:MatrixView" for name in MATRIX},
}
"""Games with a view of their own, and its place."""
NO_SEATS = "it is a mean-field game, whose players are a distribution and no seats"
NO_ACTIONS = "its actions have no numbers, so they can't be listed"
REFUSED: Mapping[str, str] = {
    "crossword": NO_ACTIONS,
    "mfg_crowd_modelling": NO_SEATS,
    "mfg_crowd_modelling_2d": NO_SEATS,
    "mfg_dynamic_routing": NO_SEATS,
    "mfg_garnet": NO_SEATS,
}
"""Games that can't be played by text, and why; every other one that OpenSpiel loads can."""
WAIT = "wait"
"""what a seat does that has nothing to choose while others do"""


class _Spiel:
    """What both kinds share: the state, its chance nodes, names of actions, pay, copies."""

    rng: np.random.Generator
    seed: int
    agents: list[str]
    possible_agents: list[str]

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Any],
        *,
        view: SpielView,
        max_turns: int | None,
        worst_reward: float | None,
        **options: Any,
    ) -> None:
        self._short, self._parameters, self._view = name, dict(parameters), view
        self._game = load_game(name, parameters)
        self._seeded = "rng_seed" in self._game.get_parameters() and "rng_seed" not in parameters
        kind = self._game.get_type()
        self._title = kind.long_name
        self._pays_at_end = kind.reward_model == kind.RewardModel.TERMINAL
        self._tells_infostate = kind.provides_information_state_string
        self._open = kind.information == kind.Information.PERFECT_INFORMATION
        self._max_turns = max_turns
        if worst_reward is None:
            lowest = self._game.min_utility()
            worst_reward = lowest if math.isfinite(lowest) else -1.0
        self.worst_reward = worst_reward
        self.name = f"openspiel/{name}"
        self.seats = tuple(f"player_{k}" for k in range(self._game.num_players()))
        self.rng, self.seed = np.random.default_rng(0), 0
        self._begin()
        self.words = tuple(list(self._actions(self._players()[0]))[:10])
        super().__init__(**options)

    def describe(self, seat: str) -> str:
        player = self.seats.index(seat)
        seen = self._view.describe(self._state, player)
        return f"{self._title}. You are {seat}.\n{seen}\n{self._now(player)}"

    def legal(self, seat: str) -> list[str]:
        return list(self._actions(self.seats.index(seat)))

    def infostate(self, seat: str) -> str | None:
        if self._tells_infostate:
            return f"{seat}|{self._state.information_state_string(self.seats.index(seat))}"
        return f"{seat}|{self._state.history_str()}" if self._open else None

    def picture(self) -> str:
        return str(self._state)

    def _now(self, player: int) -> str:
        """Who is to answer what, or how the game ended."""
        if self._state.is_terminal():
            return f"The game is over. You got {self._state.returns()[player]:g}."
        if self._cut():
            return f"The game is cut short after {self._turns} turns."
        playing = self._players()
        if player in playing:
            return ask(self._actions(player))
        return f"{' and '.join(self.seats[k] for k in playing)} is to move."

    def _begin(self) -> None:
        self._first_state()
        self._steps: list[int | list[int]] = []
        self._turns = 0
        self._returns = [0.0] * len(self.seats)
        self._settle_chance()

    def _first_state(self) -> None:
        """The state before all moves; a game with a generator of its own gets the env's seed."""
        if self._seeded:
            given = {**self._parameters, "rng_seed": self.seed % 2**31}
            self._game = load_game(self._short, given)
        self._state = self._game.new_initial_state()
        self._named: dict[int, Mapping[str, int]] = {}

    def _apply(self, step: int | list[int]) -> None:
        self._steps.append(step)
        _do(self._state, step)
        self._named.clear()

    def _settle_chance(self) -> None:
        while self._state.is_chance_node():
            numbers, chances = zip(*self._state.chance_outcomes(), strict=True)
            weights = np.asarray(chances) / math.fsum(chances)
            self._apply(int(numbers[self.rng.choice(len(numbers), p=weights)]))

    def _cut(self) -> bool:
        return self._max_turns is not None and self._turns >= self._max_turns

    def _players(self) -> list[int]:
        """Who is to move."""
        if self._state.is_terminal():
            return []
        if self._state.is_simultaneous_node():
            return list(range(len(self.seats)))
        return [self._state.current_player()]

    def _actions(self, player: int) -> Mapping[str, int]:
        if player not in self._named:
            plays = player in self._players() and self._state.legal_actions(player)
            self._named[player] = self._view.actions(self._state, player) if plays else {WAIT: 0}
        return self._named[player]

    def _after(self, step: int | list[int]) -> dict[str, float]:
        """Make a move, and the draws of chance that follow; what each seat gets for it."""
        self._apply(step)
        self._turns += 1
        self._settle_chance()
        if self._pays_at_end and not self._state.is_terminal():
            return {}
        before, self._returns = self._returns, self._state.returns()
        paid = zip(self.seats, before, self._returns, strict=True)
        return {seat: now - then for seat, then, now in paid}

    def __getstate__(self) -> dict[str, Any]:
        apart = ("_game", "_state", "_named")
        return {key: value for key, value in vars(self).items() if key not in apart}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Play the game again up to here: the library's own copies lose their generators."""
        vars(self).update(state)
        self._game = load_game(self._short, self._parameters)
        self._first_state()
        for step in self._steps:
            _do(self._state, step)


class SpielEnv(_Spiel, TextEnv):
    """A game in which one player moves at a time."""

    def deal(self, options: Mapping[str, Any]) -> None:
        self._begin()
        self.next(self.seats[self._players()[0]])

    def play(self, seat: str, action: str) -> None:
        _settle(self, self._after(self._actions(self.seats.index(seat))[action]))
        if playing := self._players():
            self.next(self.seats[playing[0]])


class SpielParallelEnv(_Spiel, ParallelTextEnv):
    """A game in which all players move at once; who has nothing to choose answers `wait`."""

    def deal(self, options: Mapping[str, Any]) -> None:
        self._begin()

    def play(self, actions: Mapping[str, str]) -> None:
        numbers = [self._actions(k)[actions[seat]] for k, seat in enumerate(self.seats)]
        together = self._state.is_simultaneous_node()
        step = numbers if together else numbers[self._state.current_player()]
        _settle(self, self._after(step))


def spiel_env(
    name: str,
    *,
    plain: bool = False,
    max_turns: int | None = None,
    worst_reward: float | None = None,
    illegal: str | None = None,
    render_mode: str | None = None,
    **parameters: Any,
) -> SpielEnv | SpielParallelEnv:
    """The game that OpenSpiel calls `name`; `parameters` are the game's own (`players=3`).

    `max_turns` truncates a game after so many moves. `worst_reward` is what a forfeit costs, by
    default the least that the game can pay. `plain` does without a view of the game's own.
    """
    if max_turns is not None and max_turns < 1:
        raise ConfigError(f"openspiel/{name} with max_turns={max_turns!r}; at least 1 is played")
    game = load_game(name, parameters)
    kind = game.get_type()
    together = kind.dynamics == kind.Dynamics.SIMULTANEOUS
    place = None if plain else VIEWS.get(name)
    return (SpielParallelEnv if together else SpielEnv)(
        name,
        parameters,
        view=load_object(place)() if place else PlainView(),
        max_turns=max_turns,
        worst_reward=worst_reward,
        illegal=illegal,
        render_mode=render_mode,
    )


def load_game(name: str, parameters: Mapping[str, Any]) -> Any:
    """OpenSpiel's game; UnknownNameError, or ConfigError that lists its parameters.

    A parameter that is itself a game (`game` of `misere`) is written as `"tic_tac_toe()"`.
    """
    pyspiel = load("pyspiel", "openspiel")
    kinds = {kind.short_name: kind for kind in pyspiel.registered_games()}
    if name not in kinds:
        raise UnknownNameError("OpenSpiel game", name, kinds.keys() - REFUSED.keys())
    if name in REFUSED:
        raise ConfigError(f"OpenSpiel's {name!r} can't be played by text: {REFUSED[name]}")
    known = kinds[name].parameter_specification
    for key in parameters:
        if key not in known:
            raise UnknownNameError(f"parameter of OpenSpiel's {name!r}:", key, known)
    given = {
        key: pyspiel.game_parameters_from_string(value)
        if isinstance(value, str) and isinstance(known[key], dict)
        else value
        for key, value in parameters.items()
    }
    try:
        return pyspiel.load_game(name, given)
    except pyspiel.SpielError as error:
        raise ConfigError(
            f"OpenSpiel's {name!r} can't be made with {dict(parameters)!r}: {error}; its "
            f"parameters are {', '.join(known) or 'none'}"
        ) from error


def playable() -> list[str]:
    """The games that need no parameters and can be played by text, sorted."""
    kinds = load("pyspiel", "openspiel").registered_games()
    names = [kind.short_name for kind in kinds if kind.default_loadable]
    return sorted(set(names) - REFUSED.keys())


def _settle(env: SpielEnv | SpielParallelEnv, paid: Mapping[str, float]) -> None:
    """Pay for a move, and end the game where it did."""
    for seat, amount in paid.items():
        env.reward(seat, amount)
    if env._state.is_terminal():
        env.finish()
    elif env._cut():
        env.truncate()


def _do(state: Any, step: int | list[int]) -> None:
    if isinstance(step, list):
        state.apply_actions(step)
    else:
        state.apply_action(step)
