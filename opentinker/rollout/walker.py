"""Walks a protocol over an env for one episode: asks, hears, moves, and keeps the record.

All seats of a stage answer from the same state, at once; their messages are written together. The
env owns rules, rewards and whose move it is; the protocol owns who is asked and who hears.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from opentinker.agent import Agent, Answer, View
from opentinker.errors import ConfigError, ContextFull, EnvironmentFault
from opentinker.protocol import END, Protocol, Stage, WalkState
from opentinker.rewards import RewardLedger
from opentinker.rollout.seating import Table
from opentinker.types import Episode, EpisodeRequest, Message, Outcome, Sampler, Turn


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds one episode: answers in all, and seconds for a turn and for the whole."""

    turns: int = 200
    turn_seconds: float = 120.0
    episode_seconds: float = 600.0


@dataclass(slots=True)
class _Asked:
    """An answer with what the record needs until its reward is known."""

    seat: str
    stage: Stage
    view: View
    answer: Answer
    seconds: float
    legal: bool = True
    reason: str = ""
    action: str | None = None
    number: int = 0
    """the turn's index among the seat's own, as the ledger counts them"""
    moment: int = 0


class Walk:
    """One episode in progress."""

    def __init__(
        self,
        table: Table,
        protocol: Protocol,
        agents: Mapping[str, Agent],
        request: EpisodeRequest,
        sampler: Sampler,
        limits: Limits,
    ) -> None:
        self._table = table
        self._protocol = protocol
        self._agents = agents
        self._request = request
        self._sampler = sampler
        self._limits = limits
        self._state = WalkState()
        self._ledger = RewardLedger(table.seats)
        self._record: list[_Asked] = []
        self._unheard: dict[str, list[Message]] = {seat: [] for seat in table.seats}

    async def run(self) -> Episode:
        """Play to the end; a broken env or a turn that is out of time gives a `failed` episode."""
        began = perf_counter()
        outcome: Outcome = "failed"
        try:
            async with asyncio.timeout(self._limits.episode_seconds):
                outcome, reason = await self._play()
        except EnvironmentFault as fault:
            reason = str(fault)
        except ContextFull as full:
            outcome, reason = "truncated", str(full)
        except TimeoutError:
            stage = self._record[-1].stage.name if self._record else self._protocol.start
            seconds = perf_counter() - began
            reason = f"out of time after {seconds:.1f} s, {self._state.turns} turns, at {stage!r}"
        return Episode(
            request=self._request,
            env=self._table.name,
            protocol=self._protocol.name,
            turns=self._turns(),
            returns=self._ledger.returns(),
            outcome=outcome,
            reason=reason,
            messages=tuple(self._state.messages),
            seconds=perf_counter() - began,
        )

    async def _play(self) -> tuple[Outcome, str]:
        table, state, protocol = self._table, self._state, self._protocol
        table.reset(self._request.seed, self._request.options)
        table.remove_finished()
        name, entered = protocol.start, 0
        while name != END:
            if state.turns >= self._limits.turns:
                return "truncated", f"the limit of {self._limits.turns} turns was reached"
            stage = protocol.stage(name)
            entered += 1
            if entered > 2 * self._limits.turns:
                return "truncated", f"{entered} stages were entered for {state.turns} answers"
            state.visits[name] = state.visits.get(name, 0) + 1
            agents = table.agents() or table.seats
            state.current = table.current()
            asked = protocol.asked(stage, state.current, agents)
            if stage.kind == "move" and not asked:
                raise EnvironmentFault(
                    f"stage {name!r} asks {', '.join(stage.seats)} to move, but none of them plays "
                    "any more"
                )
            await self._ask(stage, asked)
            state.env_done = not table.agents()
            name = protocol.next(name, state)
        if table.truncated and not table.terminated:
            return "truncated", "the env cut the episode"
        if not state.env_done and not table.terminated:
            return "truncated", "the protocol ended before the env"
        return "finished", ""

    async def _ask(self, stage: Stage, seats: Sequence[str]) -> None:
        views = [self._view(stage, seat) for seat in seats]
        answered = (
            [await self._answer(stage, views[0])]
            if len(views) == 1
            else await asyncio.gather(*(self._answer(stage, view) for view in views))
        )
        moment = self._record[-1].moment + 1 if self._record else 0
        for entry in answered:
            entry.number, entry.moment = self._ledger.turn(entry.seat), moment
            self._record.append(entry)
        self._state.turns += len(answered)
        for entry in answered:
            self._say(entry)
        if stage.kind == "move":
            self._move(answered)

    async def _answer(self, stage: Stage, view: View) -> _Asked:
        began = perf_counter()
        async with asyncio.timeout(self._limits.turn_seconds):
            answer = await self._agents[view.seat].answer(view, self._sampler)
        return _Asked(view.seat, stage, view, answer, perf_counter() - began)

    def _view(self, stage: Stage, seat: str) -> View:
        table = self._table
        observation = table.observe(seat)
        info = table.info(seat)
        heard = "\n".join(f"{m.speaker}: {m.text}" for m in self._unheard[seat])
        self._unheard[seat].clear()
        if stage.prompt is not None:
            prompt = _fill(stage, observation=observation, heard=heard, seat=seat)
        else:
            prompt = f"{heard}\n{observation}" if heard else observation
        return View(
            seat=seat,
            stage=stage.name,
            prompt=prompt,
            observation=observation,
            legal_actions=table.legal_actions(seat),
            infostate=info.get("infostate"),
            window=stage.window,
        )

    def _say(self, entry: _Asked) -> None:
        """Write the words down. A game's env tells its moves; nobody hears the words beside."""
        if entry.stage.kind == "move" and not self._table.conversation:
            return
        hearers = self._protocol.hears(entry.seat)
        message = Message(entry.seat, entry.answer.text, hearers, entry.stage.name)
        self._state.messages.append(message)
        for seat in hearers:
            self._unheard[seat].append(message)

    def _move(self, answered: Sequence[_Asked]) -> None:
        table = self._table
        rewards = table.step({entry.seat: entry.answer.text for entry in answered})
        for entry in answered:
            info = table.info(entry.seat)
            entry.legal = bool(info.get("legal", True))
            entry.reason = str(info.get("reason", ""))
            entry.action = info.get("action")
        self._state.last_legal = all(entry.legal for entry in answered)
        self._ledger.pay(rewards)
        table.remove_finished()

    def _turns(self) -> tuple[Turn, ...]:
        rewards = {seat: self._ledger.rewards(seat) for seat in self._table.seats}
        turns = []
        for index, entry in enumerate(self._record):
            answer, done = entry.answer, entry.answer.completion
            turns.append(
                Turn(
                    index=index,
                    stage=entry.stage.name,
                    seat=entry.seat,
                    agent=self._request.cast.get(entry.seat, ""),
                    observation=entry.view.prompt,
                    text=answer.text,
                    policy=answer.policy,
                    version=None if done is None else done.version,
                    context_ids=answer.context_ids,
                    tokens=() if done is None else done.tokens,
                    logprobs=() if done is None else done.logprobs,
                    fresh=answer.fresh,
                    finish="stop" if done is None else done.finish,
                    legal=entry.legal,
                    reason=entry.reason,
                    action=entry.action,
                    reward=rewards[entry.seat][entry.number],
                    seconds=entry.seconds,
                    trainable=entry.stage.trainable,
                    moment=entry.moment,
                )
            )
        return tuple(turns)


def _fill(stage: Stage, **values: str) -> str:
    """The stage's template filled in; where nothing was heard yet no blank lines stand first."""
    try:
        return (stage.prompt or "").format_map(values).lstrip("\n")
    except (KeyError, IndexError, ValueError) as error:
        raise ConfigError(
            f"the prompt of stage {stage.name!r} can't be filled: {error!r}; it may name "
            f"{', '.join(values)}"
        ) from error


async def walk(
    table: Table,
    protocol: Protocol,
    agents: Mapping[str, Agent],
    request: EpisodeRequest,
    sampler: Sampler,
    limits: Limits | None = None,
) -> Episode:
    """Play one episode. `agents` has one agent a seat of the env."""
    return await Walk(table, protocol, agents, request, sampler, limits or Limits()).run()
