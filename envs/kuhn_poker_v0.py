"""Kuhn poker: three cards, one bet, the smallest poker in which bluffing is right (Kuhn 1950).

J < Q < K, a card each, an ante of 1 chip each. player_0 checks or bets 1; after a check player_1
checks or bets; who faces a bet folds or calls. The higher card wins the pot. Rewards are the chips
won or lost, at the end. `reset(options={"deal": ["J", "Q"]})` gives out these cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

from opentinker.env import TextEnv
from opentinker.errors import ConfigError
from opentinker.game import Chance, Decision, Node, Terminal

CARDS = ("J", "Q", "K")
SEATS = ("player_0", "player_1")
NEXT: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (): ("check", "bet"),
    ("check",): ("check", "bet"),
    ("bet",): ("fold", "call"),
    ("check", "bet"): ("fold", "call"),
}
"""The actions after each betting that is not over."""


class KuhnPoker(TextEnv):
    """Two seats; the infostates are as `"J"`, `"Q:check"`, `"K:bet"`, `"J:check-bet"`."""

    name = "kuhn_poker_v0"
    seats = SEATS
    worst_reward = -2.0
    words = ("check", "bet", "fold", "call")

    def deal(self, options: Mapping[str, Any]) -> None:
        self.cards = _given(options) or tuple(map(str, self.rng.permutation(CARDS)[:2]))
        self.betting: tuple[str, ...] = ()

    def describe(self, seat: str) -> str:
        card = self.cards[SEATS.index(seat)]
        said = ", ".join(f"{SEATS[i % 2]} {action}" for i, action in enumerate(self.betting))
        text = f"Kuhn poker. Cards J < Q < K. You are {seat}. Your card: {card}. "
        text += f"Betting so far: {said or 'none'}. "
        legal = NEXT.get(self.betting)
        if legal is None:
            return text + f"The game is over: {_outcome(self.cards, self.betting)}."
        return text + f"Answer {' or '.join(f'[{action}]' for action in legal)}."

    def legal(self, seat: str) -> tuple[str, ...]:
        return NEXT[self.betting]

    def infostate(self, seat: str) -> str:
        return _infostate(self.cards[SEATS.index(seat)], self.betting)

    def play(self, seat: str, action: str) -> None:
        self.betting = (*self.betting, action)
        if self.betting not in NEXT:
            for each, chips in payoff(self.cards, self.betting).items():
                self.reward(each, chips)
            self.finish()

    def picture(self) -> str:
        said = " ".join(self.betting) or "-"
        return f"player_0 {self.cards[0]}, player_1 {self.cards[1]}, betting {said}"


def env(*, illegal: str | None = None, render_mode: str | None = None) -> KuhnPoker:
    return KuhnPoker(illegal=illegal, render_mode=render_mode)


def payoff(cards: tuple[str, ...], betting: tuple[str, ...]) -> dict[str, float]:
    """What each seat wins, in chips, when `betting` is how the game ended."""
    if betting[-1] == "fold":
        winner, chips = 1 - (len(betting) - 1) % 2, 1.0
    else:
        winner = int(CARDS.index(cards[1]) > CARDS.index(cards[0]))
        chips = 2.0 if betting[-1] == "call" else 1.0
    return {SEATS[winner]: chips, SEATS[1 - winner]: -chips}


def game_tree() -> Node:
    """The whole game: 6 deals, 12 infostates."""
    deals = tuple(permutations(CARDS, 2))
    return Chance(tuple((1.0 / len(deals), _node(cards, ())) for cards in deals))


def equilibrium(alpha: float = 1 / 3) -> dict[str, dict[str, float]]:
    """The equilibrium in which player_0 bets a J with probability `alpha`, in [0, 1/3] (Kuhn 1950).

    There is one for each `alpha`, and no other; player_1's part is the same in all.
    """
    if not 0.0 <= alpha <= 1 / 3:
        raise ConfigError(f"alpha is {alpha!r}; the equilibria have it in [0, 1/3]")
    bold = {
        **{"J": alpha, "Q": 0.0, "K": 3 * alpha},
        **{"J:check-bet": 0.0, "Q:check-bet": alpha + 1 / 3, "K:check-bet": 1.0},
        **{"J:check": 1 / 3, "Q:check": 0.0, "K:check": 1.0},
        **{"J:bet": 0.0, "Q:bet": 1 / 3, "K:bet": 1.0},
    }
    return {state: _row(state, chance) for state, chance in bold.items()}


def weak_play() -> dict[str, dict[str, float]]:
    """A teacher that can be beaten: bets or calls a J, Q, K with 0.25, 0.5, 0.75 everywhere.

    Its exploitability is 1/6 chips, computed from the tree.
    """
    bold = {"J": 0.25, "Q": 0.5, "K": 0.75}
    states = [_infostate(card, betting) for betting in NEXT for card in CARDS]
    return {state: _row(state, bold[state[0]]) for state in states}


def _given(options: Mapping[str, Any]) -> tuple[str, ...] | None:
    deal = options.get("deal")
    if deal is None:
        return None
    if tuple(deal) not in tuple(permutations(CARDS, 2)):
        raise ConfigError(f"deal {deal!r} is not two different cards of {', '.join(CARDS)}")
    return tuple(deal)


def _outcome(cards: tuple[str, ...], betting: tuple[str, ...]) -> str:
    winner, chips = max(payoff(cards, betting).items(), key=lambda pair: pair[1])
    shown = "" if betting[-1] == "fold" else f"; player_0 had {cards[0]}, player_1 {cards[1]}"
    return f"{winner} wins {chips:.0f}{shown}"


def _infostate(card: str, betting: tuple[str, ...]) -> str:
    return f"{card}:{'-'.join(betting)}" if betting else card


def _node(cards: tuple[str, ...], betting: tuple[str, ...]) -> Node:
    if betting not in NEXT:
        return Terminal(payoff(cards, betting))
    seat = len(betting) % 2
    return Decision(
        SEATS[seat],
        _infostate(cards[seat], betting),
        {action: _node(cards, (*betting, action)) for action in NEXT[betting]},
    )


def _row(state: str, bold: float) -> dict[str, float]:
    """The chances of the two actions at `state`, `bold` being that of the second: bet, or call."""
    passive, active = NEXT[tuple(state.partition(":")[2].split("-")) if ":" in state else ()]
    return {passive: 1.0 - bold, active: bold}
