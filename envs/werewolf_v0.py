"""Werewolf for 5 to 9 seats: secret roles, talk at night among the wolves, talk and votes by day.

Seats `player_0` to `player_{players-1}`. Roles are drawn: one wolf among 5 or 6 seats, two among 7
to 9; one seer; villagers. The game goes round in four phases:

- night: each living wolf in turn names who is to die, with any words beside the tag. Wolves know
  each other and read these words, nobody else does. The last wolf's choice dies.
- seer: the seer, even if it is to die this night, learns alone whether a seat it names is a wolf.
- talk: each living seat in turn says something to all, `talks` times round.
- vote: each living seat in turn names whom to put out; the votes are told when all have voted.
  Whoever has more votes than any other is out, and its role is told; a tie puts nobody out.

The village wins when no wolf lives, the wolves when they are as many as the others. Then each seat
of the winning side, dead or alive, is paid 1, each of the other -1. A speech counts up to 200
letters. An answer that can't be read is asked again once, then drawn at random.
`reset(options={"wolves": ["player_0"], "seer": "player_1"})` gives out these roles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.answer import Reading
from opentinker.env import TextEnv
from opentinker.options import one_of, some_of, whole

NAME = "werewolf_v0"
SPEECH = 200


class Werewolf(TextEnv):
    """Who is to move stands in `queue`; `log[seat]` is what the seat has learned so far."""

    name = NAME
    illegal = "retry(1), random"
    words = ("player_0", "player_1", "player_2", "player_3")

    def __init__(
        self,
        *,
        players: int = 5,
        talks: int = 1,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        count = whole(NAME, "players", players, 5, 9)
        self.talks = whole(NAME, "talks", talks, 0, 9)
        self.seats = tuple(f"player_{k}" for k in range(count))
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        order = self.rng.permutation(self.seats).tolist()
        count = 1 if len(self.seats) < 7 else 2
        wolves = some_of(NAME, "wolves", options.get("wolves", order[:count]), self.seats, count)
        whole(NAME, "the number of wolves", len(wolves), count, count)
        self.wolves = tuple(seat for seat in self.seats if seat in wolves)
        others = [seat for seat in order if seat not in self.wolves]
        self.seer = one_of(NAME, "seer", options.get("seer", others[0]), others)
        self.living = list(self.seats)
        self.log: dict[str, list[str]] = {seat: [] for seat in self.seats}
        self.said = ""
        self.winner = ""
        self._night()

    # What is seen.

    def describe(self, seat: str) -> str:
        text = f"Werewolf. You are {seat}, {self._role(seat)}. Living: {', '.join(self.living)}."
        text += "".join(f"\n{line}" for line in self.log[seat])
        if self.winner:
            return f"{text}\nThe {self.winner} won. Wolves: {', '.join(self.wolves)}."
        if seat not in self.living:
            return f"{text}\nYou are dead."
        if not self.queue or seat != self.queue[0]:
            return f"{text}\nWait."
        if self.phase == "talk":
            return f"{text}\nDay: say something to all, in one sentence."
        task = {"night": "kill", "seer": "look at", "vote": "put out"}[self.phase]
        tags = " ".join(f"[{name}]" for name in self.legal(seat) or ())
        return f"{text}\n{'Day' if self.phase == 'vote' else 'Night'}: whom to {task}? {tags}"

    def legal(self, seat: str) -> Sequence[str] | None:
        if self.phase == "talk":
            return None
        hidden = self.wolves if self.phase == "night" else (seat,)
        return [each for each in self.living if each not in hidden]

    def read(self, seat: str, answer: str) -> Reading:
        self.said = " ".join(answer.split())[:SPEECH]
        return super().read(seat, answer)

    # What happens.

    def play(self, seat: str, action: str) -> None:
        self.queue.pop(0)
        {"night": self._kill, "seer": self._look, "talk": self._talk, "vote": self._vote}[
            self.phase
        ](seat, action)
        if not self.winner:
            self.next(self.queue[0])

    def _kill(self, wolf: str, victim: str) -> None:
        self._tell(self.wolves, f"Night, to wolves only, {wolf}: {self.said}")
        if self.queue:
            return
        self.victim = victim
        self.phase, self.queue = "seer", [self.seer] if self.seer in self.living else []
        if not self.queue:
            self._morning()

    def _look(self, seer: str, seat: str) -> None:
        self._tell([seer], f"Night: {seat} is {'a' if seat in self.wolves else 'no'} wolf.")
        self._morning()

    def _talk(self, seat: str, words: str) -> None:
        self._tell(self.seats, f"{seat}: {' '.join(words.split())[:SPEECH]}")
        if not self.queue:
            self._ballot()

    def _vote(self, seat: str, against: str) -> None:
        self.votes[seat] = against
        if self.queue:
            return
        told = ", ".join(f"{one} against {two}" for one, two in self.votes.items())
        counts = {each: list(self.votes.values()).count(each) for each in self.living}
        ahead = [each for each, count in counts.items() if count == max(counts.values())]
        if len(ahead) == 1:
            self.living.remove(ahead[0])
            told += f". {ahead[0]} is out and was {self._role(ahead[0])}"
        self._tell(self.seats, f"Votes: {told}.")
        if not self._decided():
            self._night()

    def _night(self) -> None:
        self.phase = "night"
        self.queue = [wolf for wolf in self.wolves if wolf in self.living]
        self.next(self.queue[0])

    def _morning(self) -> None:
        self.living.remove(self.victim)
        self._tell(self.seats, f"Morning: {self.victim} was killed, {self._role(self.victim)}.")
        if self._decided():
            return
        self.phase, self.queue = "talk", self.living * self.talks
        if not self.queue:
            self._ballot()

    def _ballot(self) -> None:
        self.phase, self.queue = "vote", list(self.living)
        self.votes: dict[str, str] = {}

    def _decided(self) -> bool:
        wolves = sum(seat in self.wolves for seat in self.living)
        if 0 < wolves < len(self.living) - wolves:
            return False
        self.winner = "wolves" if wolves else "village"
        for seat in self.seats:
            self.reward(seat, 1.0 if (seat in self.wolves) == bool(wolves) else -1.0)
        self.finish()
        return True

    def _tell(self, seats: Sequence[str], line: str) -> None:
        for seat in seats:
            self.log[seat].append(line)

    def _role(self, seat: str) -> str:
        if seat not in self.wolves:
            return "the seer" if seat == self.seer else "a villager"
        fellows = [wolf for wolf in self.wolves if wolf != seat]
        return f"a wolf with {' '.join(fellows)}" if fellows else "a wolf"


def env(**options: Any) -> Werewolf:
    return Werewolf(**options)
