"""One episode, seat by seat: as plays (rewards a turn) and as trajectories (tokens to train on)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from opentinker.errors import EngineError
from opentinker.types import Episode, Play, Trajectory, Turn


def plays(episode: Episode) -> list[Play]:
    """One play for each seat that a policy held; none when the episode failed.

    K counts all the policy's turns of the seat, those that are not trained too, so that k means the
    same turn here and in `trajectories`. Raises ValueError for a reward that is not finite.
    """
    return [
        Play(
            episode=episode.request.id,
            group=episode.request.group,
            env=episode.env,
            seat=seat,
            policy=policy,
            rewards=turn_rewards(episode, seat, turns),
            stages=tuple(turn.stage for turn in turns),
            prompts=_digests(turns),
            truncated=episode.outcome == "truncated",
        )
        for (seat, policy), turns in _policy_turns(episode).items()
    ]


def turn_rewards(episode: Episode, seat: str, turns: Sequence[Turn]) -> NDArray[np.float64]:
    """[K] what `turns` of `seat` were paid; ValueError when one of them is not a finite number."""
    rewards = np.array([turn.reward for turn in turns], dtype=np.float64)
    if not np.isfinite(rewards).all():
        raise ValueError(
            f"seat {seat!r} in episode {episode.request.id!r} was paid {rewards.tolist()}; a "
            "reward is a finite number"
        )
    return rewards


def trajectories(episode: Episode) -> list[Trajectory]:
    """The segments of each seat's conversation, in order; none when the episode failed.

    A segment is what the seat was shown and what it sampled, as ids in the order in which the
    engine saw them. A `fresh` turn begins a new one. Only tokens that the policy sampled in
    trainable turns carry a turn index; segments without any are left out. Raises `EngineError` for
    sampled tokens without logprobs or version.
    """
    found = []
    for (seat, policy), turns in _policy_turns(episode).items():
        for segment in _segments(turns):
            if any(turn.trainable and turn.tokens for _, turn in segment):
                found.append(_trajectory(episode.request.id, seat, policy, segment))
    return found


def _policy_turns(episode: Episode) -> dict[tuple[str, str], list[Turn]]:
    """Turns by seat and policy; one seat never changes its policy within an episode."""
    found: dict[tuple[str, str], list[Turn]] = {}
    if episode.outcome != "failed":
        for turn in episode.turns:
            if turn.policy is not None:
                found.setdefault((turn.seat, turn.policy), []).append(turn)
    return found


def _digests(turns: Sequence[Turn]) -> tuple[int, ...]:
    """[K] 64 bits of a hash over all ids before each turn's answer; none for a seat without ids.

    One hash runs along the conversation, so that a long one costs no more a turn than a short one.
    """
    if not any(turn.context_ids or turn.tokens for turn in turns):
        return ()
    found = []
    running = blake2b(digest_size=8)
    for turn in turns:
        if turn.fresh:
            running = blake2b(digest_size=8)
        running.update(np.array(turn.context_ids, dtype="<i4").tobytes())
        found.append(int.from_bytes(running.digest(), "big"))
        running.update(np.array(turn.tokens, dtype="<i4").tobytes())
    return tuple(found)


def _segments(turns: Iterable[Turn]) -> list[list[tuple[int, Turn]]]:
    """The turns with their indices k, cut before each fresh one."""
    segments: list[list[tuple[int, Turn]]] = []
    for k, turn in enumerate(turns):
        if turn.fresh or not segments:
            segments.append([])
        segments[-1].append((k, turn))
    return segments


def _trajectory(
    episode: str, seat: str, policy: str, segment: list[tuple[int, Turn]]
) -> Trajectory:
    ids: list[int] = []
    owner: list[int] = []
    logprobs: list[float] = []
    versions: list[int] = []
    for k, turn in segment:
        if len(turn.logprobs) != len(turn.tokens) or turn.version is None:
            raise EngineError(
                f"turn {turn.index} of seat {seat!r} in episode {episode!r}: {len(turn.tokens)} "
                f"tokens of policy {policy!r} came with {len(turn.logprobs)} logprobs and "
                f"version {turn.version}"
            )
        unsampled, sampled = len(turn.context_ids), len(turn.tokens)
        if not turn.trainable:
            unsampled, sampled = unsampled + sampled, 0
        ids += turn.context_ids
        ids += turn.tokens
        owner += [-1] * unsampled + [k] * sampled
        logprobs += [0.0] * unsampled
        logprobs += turn.logprobs[:sampled]
        versions += [-1] * unsampled + [turn.version] * sampled
    return Trajectory(
        episode=episode,
        seat=seat,
        policy=policy,
        ids=np.array(ids, dtype=np.int32),
        turn=np.array(owner, dtype=np.int32),
        logprobs=np.array(logprobs, dtype=np.float32),
        versions=np.array(versions, dtype=np.int32),
    )
