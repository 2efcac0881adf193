"""A hidden profile: each seat holds a part of the evidence, the group decides (Stasser 1985).

Seats `player_0` to `player_{players-1}` choose whom to hire: Anna, Ben or Cara, the one with most
good points. All of them know two good points of one person, the decoy, and one of the third. The
best person has `players` good points, and each seat knows another one of these. So each seat alone
prefers the decoy, while together they hold at least 3 points against 2.

They talk in the protocol's `speak` stages; a move is a vote, `[Anna]`, and silence ("") abstains.
`decide = "vote"`: when each has voted, whoever has more votes than any other is hired; a tie hires
nobody. `decide = "captain"`: the first vote of `player_0` alone decides. All seats are paid 1 if
the best person is hired, else 0. After 100 steps without a decision the episode is truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.answer import Reading, parse_answer
from opentinker.env import ParallelTextEnv
from opentinker.options import one_of, whole

NAME = "hidden_profile_v0"
PEOPLE = ("Anna", "Ben", "Cara")
TRAITS = tuple(
    [
        "honest",
        "quick",
        "kind",
        "brave",
        "calm",
        "clever",
        "tidy",
        "loyal",
        "patient",
        "fair",
        "strong",
        "witty",
    ]
)
STEPS = 100


class HiddenProfile(ParallelTextEnv):
    name = NAME
    kind = "conversation"
    words = PEOPLE

    def __init__(
        self,
        *,
        players: int = 3,
        decide: str = "vote",
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        count = whole(NAME, "players", players, 3, len(TRAITS) - 3)
        self.seats = tuple(f"player_{k}" for k in range(count))
        self.deciders = self.seats
        if one_of(NAME, "decide", decide, ("vote", "captain")) == "captain":
            self.deciders = self.seats[:1]
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        self.best, self.decoy, third = self.rng.permutation(PEOPLE).tolist()
        traits = self.rng.permutation(TRAITS).tolist()
        shared = [(self.decoy, traits[0]), (self.decoy, traits[1]), (third, traits[2])]
        self.known: dict[str, list[str]] = {}
        for seat, trait in zip(self.seats, traits[3:], strict=False):
            points = [*shared, (self.best, trait)]
            order = self.rng.permutation(len(points))
            self.known[seat] = [f"{points[k][0]} is {points[k][1]}." for k in order]
        self.votes: dict[str, str] = {}
        self.hired: str | None = None
        self.steps = 0

    def describe(self, seat: str) -> str:
        text = f"Hire {', '.join(PEOPLE[:-1])} or {PEOPLE[-1]}: the one with most good points. "
        text += f"You are {seat} and know: {' '.join(self.known[seat])} "
        if self.hired is not None:
            return f"{text}Hired was {self.hired or 'nobody'}, the best was {self.best}."
        if seat not in self.deciders:
            return f"{text}Others know other points; {self.deciders[0]} decides."
        return f"{text}Others know other points. Vote {' or '.join(f'[{p}]' for p in PEOPLE)}."

    def legal(self, seat: str) -> Sequence[str]:
        return PEOPLE

    def read(self, seat: str, answer: str) -> Reading:
        return Reading("") if answer == "" else parse_answer(answer, PEOPLE)

    def play(self, actions: Mapping[str, str]) -> None:
        self.steps += 1
        self.votes |= {who: name for who, name in actions.items() if name and who in self.deciders}
        if len(self.votes) == len(self.deciders):
            votes = list(self.votes.values())
            most = max(map(votes.count, PEOPLE))
            ahead = [person for person in PEOPLE if votes.count(person) == most]
            self.hired = ahead[0] if len(ahead) == 1 else ""
            for each in self.seats:
                self.reward(each, float(self.hired == self.best))
            self.finish()
        elif self.steps >= STEPS:
            self.truncate()


def parallel_env(**options: Any) -> HiddenProfile:
    return HiddenProfile(**options)
