"""PettingZoo's Leduc hold'em: six cards, two rounds of betting (Southey et al. 2005).

Seats `player_0` and `player_1`, a private card each of two J, two Q, two K; who begins is drawn,
and has 1 chip in, the other 2. At most two raises a round, of 2 chips, then of 4, when a card lies
on the table. A pair with it wins, else the higher card; equal cards share. Rewards at the end: the
chips won or lost, in big blinds of 2 chips.
"""

from __future__ import annotations

from opentinker.view import ViewedEnv
from opentinker.wrappers.poker import PokerView, poker_env

TITLE = "Leduc hold'em, cards J < Q < K, a pair with the table's card wins."


def env(*, illegal: str | None = None, render_mode: str | None = None) -> ViewedEnv:
    return poker_env(
        "classic/leduc_holdem-v4",
        PokerView(TITLE, "big blinds", suits=False),
        worst_reward=-7.0,  # 2 chips, then two raises of 2 and two of 4: 14 chips
        words=("call", "raise", "fold", "check"),
        illegal=illegal,
        render_mode=render_mode,
    )
