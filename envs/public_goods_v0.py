"""The public goods game: each seat gives some of its tokens to a pot that grows and is shared.

Seats `player_0` to `player_{players-1}`. In each round each gets `endowment` tokens and says, all
at once, how many it gives, `[3]`. The pot times `multiplier` is shared equally by all. The round
pays `endowment - given + multiplier * pot / players` tokens; all gifts are then told. With a
multiplier between 1 and `players`, giving all is best for the group and giving nothing is best for
each. The game ends after `rounds` rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentinker.env import ParallelTextEnv
from opentinker.options import number, whole

NAME = "public_goods_v0"


class PublicGoods(ParallelTextEnv):
    """The infostate is the seat, then the gifts of each round in the order of the seats."""

    name = NAME
    words = ("0", "5", "10")

    def __init__(
        self,
        *,
        players: int = 4,
        rounds: int = 3,
        endowment: int = 10,
        multiplier: float = 2.0,
        illegal: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        count = whole(NAME, "players", players, 2)
        self.rounds = whole(NAME, "rounds", rounds, 1)
        self.endowment = whole(NAME, "endowment", endowment, 1, 100)
        self.multiplier = number(NAME, "multiplier", multiplier, 0.0)
        self.seats = tuple(f"player_{k}" for k in range(count))
        super().__init__(illegal=illegal, render_mode=render_mode)

    def deal(self, options: Mapping[str, Any]) -> None:
        self.gifts: list[dict[str, int]] = []
        self.earned = dict.fromkeys(self.seats, 0.0)

    def describe(self, seat: str) -> str:
        text = (
            f"{len(self.seats)} players get {self.endowment} tokens each round and give some to a "
            f"pot. The pot times {self.multiplier:g} is shared equally. You are {seat}."
        )
        for k, gifts in enumerate(self.gifts, start=1):
            others = ", ".join(f"{who} {gift}" for who, gift in gifts.items() if who != seat)
            text += f"\nRound {k}: you gave {gifts[seat]}, {others}; you earned "
            text += f"{self.payoffs(gifts)[seat]:g}."
        if len(self.gifts) == self.rounds or seat not in self.agents:
            return f"{text}\nThe game is over. You earned {self.earned[seat]:g} in all."
        now = f"Round {len(self.gifts) + 1} of {self.rounds}"
        return f"{text}\n{now}: how many do you give? Answer [0] to [{self.endowment}]."

    def legal(self, seat: str) -> Sequence[str]:
        return [str(gift) for gift in range(self.endowment + 1)]

    def infostate(self, seat: str) -> str:
        rounds = ["-".join(map(str, gifts.values())) for gifts in self.gifts]
        return ":".join([seat, *rounds])

    def play(self, actions: Mapping[str, str]) -> None:
        gifts = {seat: int(actions[seat]) for seat in self.seats}
        self.gifts.append(gifts)
        for seat, amount in self.payoffs(gifts).items():
            self.earned[seat] += amount
            self.reward(seat, amount)
        if len(self.gifts) == self.rounds:
            self.finish()

    def payoffs(self, gifts: Mapping[str, int]) -> dict[str, float]:
        """What a round of `gifts` pays each seat."""
        share = self.multiplier * sum(gifts.values()) / len(gifts)
        return {seat: self.endowment - gift + share for seat, gift in gifts.items()}


def parallel_env(**options: Any) -> PublicGoods:
    return PublicGoods(**options)
