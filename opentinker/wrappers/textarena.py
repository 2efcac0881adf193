"""A game of TextArena by its id, `textarena/<Id>`, as a text env with random numbers of its own.

Parts: `textarena_env`, the factory; `TextArenaEnv`, the env. TextArena draws from, and seeds, the
process-wide generators; here they are put aside while it runs, so that games don't disturb one
another. Any text is an action: TextArena itself warns a seat of an invalid move once, then ends
the game against it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from opentinker.env import TextEnv
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.wrappers.extras import load
from opentinker.wrappers.generators import OwnGenerators
from opentinker.wrappers.textarena_games import SEATS, game_of, refusal


class TextArenaEnv(TextEnv):
    """A seat sees the rules, and all that was said to it since its last move.

    `max_turns` truncates the game; `max_letters` bounds what is new in an observation, the latest
    being kept. Rewards come at the end; one that is no number is a fault of the env.
    """

    def __init__(
        self,
        id: str,
        *,
        seats: int,
        max_turns: int,
        max_letters: int,
        config: Mapping[str, Any],
        **options: Any,
    ) -> None:
        self.name = f"textarena/{id}"
        self.seats = tuple(f"player_{k}" for k in range(seats))
        self._id, self._config = id, dict(config)
        self._max_turns, self._max_letters = max_turns, max_letters
        super().__init__(**options)

    def deal(self, options: Mapping[str, Any]) -> None:
        self._generators = OwnGenerators(self.seed)
        self._steps: list[str] = []
        self._rules = dict.fromkeys(self.seats, "")
        self._new: dict[str, list[str]] = {seat: [] for seat in self.seats}
        self._end = ""
        self._open()
        self._hear(rules=True)
        self.next(self._current())

    def describe(self, seat: str) -> str:
        new = "\n".join(self._new[seat])
        if len(new) > self._max_letters:
            new = f"... {new[-self._max_letters :]}"
        return "\n".join(part for part in (self._rules[seat], new, self._end) if part)

    def play(self, seat: str, action: str) -> None:
        self._steps.append(action)
        self._new[seat] = []
        with quiet(self._generators):
            done, _ = self._game.step(action)
        self._hear()
        if done:
            self._pay()
            self.finish()
        elif len(self._steps) >= self._max_turns:
            self._end = f"The game is cut short after {self._max_turns} turns."
            self.truncate()
        else:
            self.next(self._current())

    def _current(self) -> str:
        return self.possible_agents[self._game.state.current_player_id]

    def _open(self) -> None:
        with quiet(self._generators):
            self._game = make_game(self._id, self._config)
            self._game.reset(num_players=len(self.seats), seed=self.seed)

    def _hear(self, rules: bool = False) -> None:
        """Take what TextArena has written for each seat; what a seat said itself it knows."""
        waiting = self._game.state.observations
        for player, seat in enumerate(self.seats):
            heard = [self._line(*message) for message in waiting[player] if message[0] != player]
            waiting[player] = []
            if rules:
                self._rules[seat] = "\n".join(heard)
            else:
                self._new[seat] += heard

    def _line(self, speaker: int, text: str, kind: Any) -> str:
        return text.strip() if speaker < 0 else f"Player {speaker}: {text.strip()}"

    def _pay(self) -> None:
        rewards, _ = self._game.close()
        if not isinstance(rewards, Mapping):
            raise self.fault(f"ends with the rewards {rewards!r}; they must be given by player")
        for player, seat in enumerate(self.seats):
            self.reward(seat, rewards.get(player, 0.0))
        self._end = "The game is over."

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_game"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Play the game again up to here, since TextArena's games can't all be copied."""
        vars(self).update(state)
        if "_steps" not in state:
            return
        self._generators = OwnGenerators(self.seed)
        self._open()
        for action in self._steps:
            with quiet(self._generators):
                self._game.step(action)
        self._game.state.observations = {player: [] for player in range(len(self.seats))}


def textarena_env(
    id: str,
    *,
    seats: int | None = None,
    max_turns: int = 200,
    max_letters: int = 4000,
    illegal: str | None = None,
    render_mode: str | None = None,
    **config: Any,
) -> TextArenaEnv:
    """The game that TextArena calls `id`, as `"Nim-v0"` or `"Nim-v0-large"`; `config` is its own.

    `seats` is how many play, by default the fewest that can.
    """
    if why := refusal(id):
        raise ConfigError(f"TextArena's {id!r} can't be played here: {why}")
    known = playable()
    if id not in known:
        raise UnknownNameError("TextArena game", id, known)
    fewest, most = SEATS[game_of(id)]
    count = fewest if seats is None else seats
    if not fewest <= count <= most:
        raise ConfigError(f"textarena/{id} with seats={seats!r}; it takes {fewest} to {most}")
    if max_turns < 1 or max_letters < 1:
        raise ConfigError(
            f"textarena/{id} with max_turns={max_turns!r}, max_letters={max_letters!r}; both are "
            f"at least 1"
        )
    with quiet(OwnGenerators(0)):
        make_game(id, config)  # refuses wrong options before a run starts
    return TextArenaEnv(
        id,
        seats=count,
        max_turns=max_turns,
        max_letters=max_letters,
        config=config,
        illegal=illegal,
        render_mode=render_mode,
    )


def playable() -> list[str]:
    """The games of TextArena that can be played here, and their variants, sorted."""
    load("textarena", "textarena")
    registered = load("textarena.envs.registration", "textarena").ENV_REGISTRY
    ids = {id.removesuffix("-raw") for id in registered if id.endswith("-raw")}
    return sorted(id for id in ids if game_of(id) in SEATS and not refusal(id))


@contextmanager
def quiet(generators: OwnGenerators) -> Iterator[None]:
    """Random numbers of a game's own; what some games print while they deal or score is dropped."""
    with generators.inside(), redirect_stdout(io.StringIO()):
        yield


def make_game(id: str, config: Mapping[str, Any]) -> Any:
    """TextArena's own env without its wrappers; ConfigError for options that it does not take."""
    library = load("textarena", "textarena")
    try:
        return library.make(f"{id}-raw", **config)
    except TypeError as error:
        raise ConfigError(f"textarena/{id} can't be made with {dict(config)!r}: {error}") from error
