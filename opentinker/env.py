"""The contract of an environment: a PettingZoo env whose observations and actions are text.

An author subclasses `TextEnv` (one seat moves at a time) or `ParallelTextEnv` (all move at once),
writes the hooks (`deal`, `describe`, `legal`, `play`, and `infostate` where a solver is to read it)
and says what happens with small verbs: `reward`, `next`, `finish`, `truncate`. PettingZoo's
bookkeeping, and the rule for illegal answers, is done here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import gymnasium
import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from opentinker.answer import Reading, parse_answer, parse_rule
from opentinker.errors import ConfigError, EnvironmentFault
from opentinker.text import FreeText, Text

__all__ = ["FreeText", "ParallelTextEnv", "Text", "TextEnv"]


class _Rules:
    """What both kinds share: the hooks an author writes, the verbs they use, one game's state."""

    name: str = ""
    """the env's id, `metadata["name"]`; the class name if empty"""
    kind: Literal["game", "conversation"] = "game"
    """whether answers are moves in a game, or words that the protocol spreads"""
    seats: Sequence[str] = ()
    worst_reward: float = -1.0
    """what a seat gets that forfeits the game"""
    illegal: str = "retry(1), forfeit"
    """the rule for illegal answers, see `opentinker.answer.parse_rule`"""
    words: Sequence[str] = ()
    """actions that `action_space(seat).sample()` tries"""

    rng: np.random.Generator
    """the game's own randomness; nothing else may be drawn from"""
    seed: int
    """of the game being played, also when reset was not given one"""

    def __init__(self, *, illegal: str | None = None, render_mode: str | None = None) -> None:
        if not self.seats:
            raise ConfigError(f"{type(self).__name__} names no seats; set `seats`")
        if render_mode not in (None, "ansi"):
            raise ConfigError(
                f"render_mode {render_mode!r} is not supported by {type(self).__name__}; "
                f"allowed: None, 'ansi'"
            )
        self.metadata = {
            "name": self.name or type(self).__name__,
            "kind": self.kind,
            "render_modes": ["ansi"],
            "is_parallelizable": isinstance(self, ParallelEnv),
            **getattr(type(self), "metadata", {}),
        }
        self.rule = parse_rule(self.illegal if illegal is None else illegal)
        self.render_mode = render_mode
        self.possible_agents = list(self.seats)
        self.agents: list[str] = []
        self.observation_spaces = {seat: FreeText() for seat in self.seats}
        self.action_spaces = {seat: FreeText(words=self.words) for seat in self.seats}
        self._seeds = np.random.default_rng()

    # The hooks.

    def deal(self, options: Mapping[str, Any]) -> None:
        """Start a game; `options` are reset's."""
        raise NotImplementedError

    def describe(self, seat: str) -> str:
        """What `seat` sees, also after the end."""
        raise NotImplementedError

    def legal(self, seat: str) -> Sequence[str] | None:
        """The actions of `seat`, who is to move; None if any text is one."""
        return None

    def infostate(self, seat: str) -> str | None:
        """The name of all that `seat`, who is to move, knows; unlike every other seat's names."""
        return None

    def read(self, seat: str, answer: str) -> Reading:
        """Make an action of an answer; an author with a grammar of his own overrides this."""
        return parse_answer(answer, self._legal(seat))

    def picture(self) -> str:
        """What `render` shows in mode "ansi"."""
        return "\n".join(f"{seat}: {self.describe(seat)}" for seat in self.possible_agents)

    # The verbs.

    def reward(self, seat: str, amount: float) -> None:
        """Pay `seat`; several payments in one step add up."""
        if isinstance(amount, bool) or not isinstance(amount, Real) or not math.isfinite(amount):
            raise self.fault(f"rewards {seat!r} with {amount!r}; a reward is a finite number")
        self._live(seat)
        self._paid[seat] = self._paid.get(seat, 0.0) + float(amount)

    def finish(self, *seats: str) -> None:
        """The game is over for `seats`; for all if none is named."""
        for seat in seats or self.agents:
            self._over.setdefault(self._live(seat), "terminated")

    def truncate(self, *seats: str) -> None:
        """The game is cut short for `seats`, by a limit that is no rule of it."""
        for seat in seats or self.agents:
            self._over.setdefault(self._live(seat), "truncated")

    def fault(self, what: str) -> EnvironmentFault:
        """An error that names this env."""
        return EnvironmentFault(f"{self.metadata['name']} {what}")

    # PettingZoo's side.

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        return self.action_spaces[agent]

    def render(self) -> str | None:
        return self.picture() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Nothing is held open."""

    def _start(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        self.seed = int(self._seeds.integers(2**31)) if seed is None else seed
        self.rng = np.random.default_rng(self.seed)
        self._dice, self._seeds = self.rng.spawn(2)
        self.agents = self.possible_agents[:]
        self._paid: dict[str, float] = {}
        self._over: dict[str, str] = {}
        self._read: dict[str, dict[str, Any]] = {}
        self.deal(options or {})

    def _answer(self, seat: str, answer: Any) -> Reading:
        """Read an answer and note in the seat's info how."""
        if not isinstance(answer, str):
            raise self.fault(f"was given {answer!r} as the answer of {seat!r}; an answer is a text")
        reading = self.read(seat, answer)
        legal = reading.action is not None
        self._read[seat] = {"legal": legal, "action": reading.action, "reason": reading.reason}
        return reading

    def _instead(self, seat: str) -> str:
        """A random legal action of a seat that gave none."""
        legal = self._legal(seat)
        if legal is None:
            raise self.fault(f"has no list of legal actions for {seat!r}; its rule can't be random")
        return legal[self._dice.integers(len(legal))]

    def _forfeit(self, offenders: Sequence[str]) -> None:
        self._paid = {}
        for seat in offenders:
            self.reward(seat, self.worst_reward)
        self.finish()

    def _legal(self, seat: str) -> list[str] | None:
        legal = self.legal(seat)
        if legal is None:
            return None
        if not legal or not all(isinstance(action, str) for action in legal):
            raise self.fault(f"asks {seat!r} to move, but its legal actions are {legal!r}")
        return list(legal)

    def _see(self, seat: str, complaint: str = "") -> Text:
        seen = self.describe(seat)
        if not isinstance(seen, str):
            raise self.fault(f"describes itself to {seat!r} as {seen!r}; it must be a text")
        return Text(f"{complaint}\n{seen}" if complaint else seen)

    def _info(self, seat: str, asked: bool) -> dict[str, Any]:
        info = dict(self._read.get(seat, {}))
        if asked:
            legal, state = self._legal(seat), self.infostate(seat)
            info |= {} if legal is None else {"legal_actions": legal}
            info |= {} if state is None else {"infostate": state}
        return info

    def _live(self, seat: str) -> str:
        if seat not in self.agents:
            raise self.fault(f"speaks of {seat!r}; playing are {', '.join(self.agents) or 'none'}")
        return seat


class TextEnv(_Rules, AECEnv[str, Text, str]):
    """A game in which one seat moves at a time.

    After `play` the next seat of `possible_agents` that is not finished is to move, unless `play`
    (or `deal`) said otherwise with `next`.
    """

    def play(self, seat: str, action: str) -> None:
        """`seat` does `action`, which is legal."""
        raise NotImplementedError

    def next(self, seat: str) -> None:
        """`seat` is to move after this."""
        self._next = self._live(seat)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._next: str | None = self.possible_agents[0]
        self._tries, self._complaint = 0, ""
        self._skip_agent_selection = None
        self.rewards = dict.fromkeys(self.possible_agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.possible_agents, 0.0)
        self._start(seed, options)
        self.agent_selection = self.agents[0]
        self._settle()

    def observe(self, agent: str) -> Text:
        return self._see(agent, self._complaint if agent == self._asked else "")

    def step(self, action: str | None) -> None:
        if not self.agents:
            raise self.fault("was stepped when no game was on; call reset")
        seat = self.agent_selection
        if self.terminations[seat] or self.truncations[seat]:
            if action is not None:
                raise self.fault(f"takes None from {seat!r}, who is finished, not {action!r}")
            self._was_dead_step(None)  # type: ignore[arg-type]
            return
        reading = self._answer(seat, action)
        self._cumulative_rewards[seat] = 0.0
        self._next, self._paid = None, {}
        if reading.action is not None:
            self._move(seat, reading.action)
        else:
            self._refuse(seat, reading.reason)
        self._settle()

    def _move(self, seat: str, action: str) -> None:
        self._tries, self._complaint = 0, ""
        self.play(seat, action)

    def _refuse(self, seat: str, reason: str) -> None:
        self._tries += 1
        if self.rule.then == "penalty":
            self.reward(seat, -self.rule.penalty)
        if self._tries <= self.rule.retries:
            self._complaint = reason
            self.next(seat)
        elif self.rule.then == "forfeit":
            self._complaint = ""
            self._forfeit([seat])
        else:
            self._move(seat, self._instead(seat))

    def _settle(self) -> None:
        """Bring PettingZoo's tables in line with what the hooks said."""
        self.terminations = {seat: self._over.get(seat) == "terminated" for seat in self.agents}
        self.truncations = {seat: self._over.get(seat) == "truncated" for seat in self.agents}
        self.rewards = {seat: self._paid.get(seat, 0.0) for seat in self.agents}
        self._accumulate_rewards()
        playing = [seat for seat in self.agents if seat not in self._over]
        if self._next is None and playing:
            self._next = self._following(self.agent_selection, playing)
        if playing and self._next not in playing:
            raise self.fault(f"selects {self._next!r}, who is finished, for the next move")
        self._asked = self._next if playing else None
        self.infos = {seat: self._info(seat, seat == self._asked) for seat in self.agents}
        self.agent_selection = self._asked or self.agents[0]
        self._deads_step_first()

    def _following(self, seat: str, playing: Sequence[str]) -> str:
        here = self.possible_agents.index(seat)
        order = self.possible_agents[here + 1 :] + self.possible_agents[: here + 1]
        return next(other for other in order if other in playing)


class ParallelTextEnv(_Rules, ParallelEnv[str, Text, str]):
    """A game in which all playing seats move at once; a retry is not possible within a step.

    Where any text is an action, a seat that is left out of a step is silent: its action is "".
    """

    def play(self, actions: Mapping[str, str]) -> None:
        """All playing seats do their actions, which are legal."""
        raise NotImplementedError

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Text], dict[str, dict[str, Any]]]:
        self._start(seed, options)
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, str]
    ) -> tuple[
        dict[str, Text],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        if not self.agents:
            raise self.fault("was stepped when no game was on; call reset")
        for seat in actions:
            self._live(seat)
        self._paid = {}
        readings = {seat: self._answer(seat, actions.get(seat, "")) for seat in self.agents}
        offenders = [seat for seat, reading in readings.items() if reading.action is None]
        if offenders and self.rule.then == "forfeit":
            self._forfeit(offenders)
        else:
            if self.rule.then == "penalty":
                for seat in offenders:
                    self.reward(seat, -self.rule.penalty)
            self.play(
                {
                    seat: self._instead(seat) if reading.action is None else reading.action
                    for seat, reading in readings.items()
                }
            )
        return self._result()

    def _result(self) -> Any:
        ended = {seat: self._over.get(seat) == "terminated" for seat in self.agents}
        cut = {seat: self._over.get(seat) == "truncated" for seat in self.agents}
        paid = {seat: self._paid.get(seat, 0.0) for seat in self.agents}
        result = self._observations(), paid, ended, cut, self._infos()
        self.agents = [seat for seat in self.agents if seat not in self._over]
        return result

    def _observations(self) -> dict[str, Text]:
        return {seat: self._see(seat) for seat in self.agents}

    def _infos(self) -> dict[str, dict[str, Any]]:
        return {seat: self._info(seat, seat not in self._over) for seat in self.agents}
