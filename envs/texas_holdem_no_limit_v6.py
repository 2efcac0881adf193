"""PettingZoo's Texas hold'em without limits: each seat has 100 chips and may bet them all.

Seats `player_0`, ..., two unless `players` says otherwise; blinds of 1 and 2 chips. A raise is
`[half pot]`, `[pot]` or `[all in]`. Cards are written `Ts`, the ten of spades. Rewards at the end:
the chips won or lost.
"""

from __future__ import annotations

from opentinker.options import whole
from opentinker.view import ViewedEnv
from opentinker.wrappers.poker import RAISES, PokerView, poker_env

NAME = "texas_holdem_no_limit_v6"
TITLE = "Texas hold'em without limits, the best five of seven cards win."
CHIPS = 100


def env(
    *, players: int = 2, illegal: str | None = None, render_mode: str | None = None
) -> ViewedEnv:
    return poker_env(
        "classic/texas_holdem_no_limit-v6",
        PokerView(TITLE, "chips"),
        worst_reward=-float(CHIPS),
        words=("call", "check", "fold", *RAISES.values()),
        illegal=illegal,
        render_mode=render_mode,
        num_players=whole(NAME, "players", players, 2, 10),
    )
