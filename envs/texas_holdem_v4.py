"""PettingZoo's Texas hold'em with limits: 52 cards, four rounds of betting.

Seats `player_0`, ..., two unless `players` says otherwise; blinds of 1 and 2 chips. At most four
raises a round, of 2 chips, and of 4 when four or five cards lie on the table. Cards are written
`Ts`, the ten of spades. Rewards at the end: the chips won or lost, in big blinds of 2 chips.
"""

from __future__ import annotations

from opentinker.options import whole
from opentinker.view import ViewedEnv
from opentinker.wrappers.poker import PokerView, poker_env

NAME = "texas_holdem_v4"
TITLE = "Texas hold'em with limits, the best five of seven cards win."


def env(
    *, players: int = 2, illegal: str | None = None, render_mode: str | None = None
) -> ViewedEnv:
    return poker_env(
        "classic/texas_holdem-v4",
        PokerView(TITLE, "big blinds"),
        worst_reward=-25.0,  # 2 chips, then four raises of 2, 2, 4 and 4: 50 chips
        words=("call", "raise", "fold", "check"),
        illegal=illegal,
        render_mode=render_mode,
        num_players=whole(NAME, "players", players, 2, 10),
    )
