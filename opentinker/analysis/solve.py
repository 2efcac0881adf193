"""Exact values of small games: what a policy earns, and how far it is from equilibrium.

A policy is a `Table`: a probability for each action at each infostate, for all seats together. An
infostate belongs to one seat, and its seat must have perfect recall. Values are in the units of the
game's returns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opentinker.game import Chance, Decision, Node, Table, Terminal

TOLERANCE = 1e-6
"""How far the probabilities at an infostate may be from summing to 1."""


@dataclass(frozen=True, slots=True)
class Infostate:
    """What a seat knows at some decisions, and the actions that it has there."""

    seat: str
    actions: tuple[str, ...]
    recalled: tuple[tuple[str, str], ...]
    """the seat's own (infostate, action) pairs before it"""


def infostates(tree: Node) -> dict[str, Infostate]:
    """All infostates by name, in the order in which the tree is walked.

    Raises ValueError if one is shared by two seats, by decisions with different actions, or by
    decisions that the seat could tell apart by its own past (no perfect recall).
    """
    found: dict[str, Infostate] = {}
    stack: list[tuple[Node, Mapping[str, tuple[tuple[str, str], ...]]]] = [(tree, {})]
    while stack:
        node, pasts = stack.pop()
        if isinstance(node, Chance):
            stack += [(child, pasts) for _, child in reversed(node.children)]
        elif isinstance(node, Decision):
            past = pasts.get(node.seat, ())
            state = Infostate(node.seat, tuple(node.children), past)
            known = found.setdefault(node.infostate, state)
            if known != state:
                raise ValueError(
                    f"infostate {node.infostate!r} stands for decisions that differ in seat, "
                    f"actions or what the seat did before: {known} and {state}"
                )
            stack += [
                (child, {**pasts, node.seat: (*past, (node.infostate, action))})
                for action, child in reversed(tuple(node.children.items()))
            ]
    return found


def uniform(tree: Node) -> dict[str, dict[str, float]]:
    """The policy that takes each action equally often."""
    return {
        name: dict.fromkeys(state.actions, 1.0 / len(state.actions))
        for name, state in infostates(tree).items()
    }


def values(tree: Node, policy: Table) -> dict[str, float]:
    """What each seat earns on average when all play `policy`."""
    _check(policy, infostates(tree))
    totals = dict.fromkeys(seats(tree), 0.0)
    for reach, leaf in _ends(tree, policy, 1.0):
        for seat, paid in leaf.returns.items():
            totals[seat] += reach * paid
    return totals


def best_response_value(tree: Node, seat: str, policy: Table) -> float:
    """What `seat` earns by its best answer when all others play `policy`.

    At each infostate the answer maximizes the sum, over the decisions in it, of their value times
    the probability that the others and chance lead there; perfect recall lets it be found from the
    end.
    """
    _check(policy, {name: each for name, each in infostates(tree).items() if each.seat != seat})
    members: dict[str, list[tuple[float, Decision]]] = {}
    _collect(tree, seat, policy, 1.0, members)
    answers: dict[str, str] = {}

    def value(node: Node) -> float:
        if isinstance(node, Terminal):
            return node.returns[seat]
        if isinstance(node, Chance):
            return sum(chance * value(child) for chance, child in node.children)
        if node.seat == seat:
            return value(node.children[answer(node.infostate)])
        taken = policy[node.infostate]
        return sum(
            taken[action] * value(child)
            for action, child in node.children.items()
            if taken.get(action, 0.0) > 0.0
        )

    def answer(infostate: str) -> str:
        if infostate not in answers:
            among = members[infostate]
            answers[infostate] = max(
                among[0][1].children,
                key=lambda action: sum(
                    reach * value(node.children[action]) for reach, node in among if reach > 0.0
                ),
            )
        return answers[infostate]

    return value(tree)


def nash_conv(tree: Node, policy: Table) -> float:
    """The sum over seats of what each could gain by its best answer; 0 at an equilibrium."""
    earned = values(tree, policy)
    return sum(best_response_value(tree, seat, policy) - now for seat, now in earned.items())


def exploitability(tree: Node, policy: Table) -> float:
    """NashConv over the number of seats: half of it when two play (as OpenSpiel counts it)."""
    return nash_conv(tree, policy) / len(seats(tree))


def seats(tree: Node) -> tuple[str, ...]:
    """The seats that are paid at the ends of the game."""
    node = tree
    while not isinstance(node, Terminal):
        node = (
            node.children[0][1] if isinstance(node, Chance) else next(iter(node.children.values()))
        )
    return tuple(node.returns)


class AveragePolicy:
    """The average of policies, each weighted at an infostate by how likely its seat plays to there.

    The weight is the seat's own part of the reach, as in the average strategy of counterfactual
    regret minimization (Zinkevich et al. 2007): so a seat's average earns, against others who never
    change, the mean of what its policies earn.
    """

    def __init__(self, tree: Node) -> None:
        self._infostates = infostates(tree)
        self._sums = {
            name: dict.fromkeys(state.actions, 0.0) for name, state in self._infostates.items()
        }

    def add(self, policy: Table, weight: float = 1.0) -> None:
        """Count `policy` in with `weight`, which must be above 0."""
        if not weight > 0.0:
            raise ValueError(f"a policy is averaged with a weight above 0, not {weight}")
        _check(policy, self._infostates)
        for name, state in self._infostates.items():
            own = math.prod(policy[past].get(action, 0.0) for past, action in state.recalled)
            for action in state.actions:
                self._sums[name][action] += weight * own * policy[name].get(action, 0.0)

    def policy(self) -> dict[str, dict[str, float]]:
        """The average; uniform where none of the policies ever played to."""
        table = {}
        for name, sums in self._sums.items():
            total = sum(sums.values())
            table[name] = {
                action: part / total if total > 0.0 else 1.0 / len(sums)
                for action, part in sums.items()
            }
        return table

    def state(self) -> dict[str, Any]:
        """The weighted sums, as JSON values."""
        return {"sums": {name: dict(sums) for name, sums in self._sums.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave; ValueError if it is of another game."""
        shape = {name: tuple(sums) for name, sums in self._sums.items()}
        if {name: tuple(sums) for name, sums in state["sums"].items()} != shape:
            raise ValueError("the saved average is of a game with other infostates or actions")
        self._sums = {name: dict(sums) for name, sums in state["sums"].items()}


def _ends(node: Node, policy: Table, reach: float) -> Iterator[tuple[float, Terminal]]:
    """The ends that can be reached, with their probabilities."""
    if isinstance(node, Terminal):
        yield reach, node
        return
    if isinstance(node, Chance):
        ways = node.children
    else:
        taken = policy[node.infostate]
        ways = [(taken.get(action, 0.0), child) for action, child in node.children.items()]
    for chance, child in ways:
        if chance > 0.0:
            yield from _ends(child, policy, reach * chance)


def _collect(
    node: Node,
    seat: str,
    policy: Table,
    reach: float,
    members: dict[str, list[tuple[float, Decision]]],
) -> None:
    """Add to each infostate of `seat` its decisions, and how likely all but the seat lead there."""
    if isinstance(node, Chance):
        for chance, child in node.children:
            _collect(child, seat, policy, reach * chance, members)
    elif isinstance(node, Decision):
        own = node.seat == seat
        if own:
            members.setdefault(node.infostate, []).append((reach, node))
        for action, child in node.children.items():
            part = 1.0 if own else policy[node.infostate].get(action, 0.0)
            _collect(child, seat, policy, reach * part, members)


def _check(policy: Table, states: Mapping[str, Infostate]) -> None:
    """Raise ValueError unless `policy` is a distribution over the actions at each infostate."""
    for name, state in states.items():
        chances = policy.get(name)
        if chances is None:
            raise ValueError(f"the policy has no entry for infostate {name!r} of {state.seat!r}")
        unknown = [action for action in chances if action not in state.actions]
        if unknown:
            raise ValueError(
                f"the policy plays {unknown[0]!r} at infostate {name!r}; the actions are "
                f"{', '.join(state.actions)}"
            )
        total = math.fsum(chances.values())
        if not abs(total - 1.0) <= TOLERANCE or min(chances.values()) < 0.0:
            raise ValueError(
                f"the policy at infostate {name!r} is no distribution: "
                f"{dict(chances)} sums to {total}"
            )
