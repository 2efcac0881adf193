"""PettingZoo's chess, moves said as in a score sheet (`[Nf3]`) or as from and to (`[g1f3]`).

Seats `player_0` (White, first) and `player_1` (Black). Legal answers are listed in standard
algebraic notation (SAN), `[exd8=Q+]`; one without its `+` or `#`, and UCI notation, `[e7d8q]`, is
read as the same move. A game is drawn as soon as a draw can be claimed (a position for the third
time, 50 moves without a capture or a pawn's move). Rewards at the end: 1 won, -1 lost, 0 drawn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from opentinker.answer import Reading, parse_answer
from opentinker.view import Moves, ViewedEnv, ask, pettingzoo_maker

COLOURS = {"player_0": "White", "player_1": "Black"}
SHOWN = 8
"""how many of the last moves are told"""


class ChessView:
    """The board as White sees it; the infostate is its FEN, which does not tell repetitions."""

    def describe(self, env: Any, seat: str, moves: Moves) -> str:
        board = env.unwrapped.board
        rows = [f"{8 - k} {row}" for k, row in enumerate(str(board).splitlines())]
        picture = "\n".join([*rows, "  a b c d e f g h"])
        text = (
            f"Chess. You are {seat} and play {COLOURS[seat]}; White's pieces are KQRBNP, Black's "
        )
        text += f"kqrbnp.\n{picture}\n{_told(moves)}"
        if any(env.terminations.values()):
            return text + {1: "You won.", -1: "You lost.", 0: "A draw."}[int(env.rewards[seat])]
        if seat != env.agent_selection:
            return text + "The other one is to move."
        check = "You are in check. " if board.is_check() else ""
        return f"{text}{check}{ask(self.legal(env, seat))}"

    def legal(self, env: Any, seat: str) -> list[str]:
        board = env.unwrapped.board
        return [board.san(move) for move in board.legal_moves]

    def action(self, env: Any, seat: str, name: str) -> int:
        from pettingzoo.classic.chess import chess_utils  # comes with an extra

        board = env.unwrapped.board
        chess_utils.legal_moves(board)  # gives each legal move its number
        move = board.parse_san(name)
        seen = move if board.turn else chess_utils.mirror_move(move)
        return chess_utils.moves_to_actions[seen.uci()]

    def infostate(self, env: Any, seat: str, moves: Moves) -> str:
        return env.unwrapped.board.fen()


class Chess(ViewedEnv):
    """Reads a move in either notation, as a tag or as the whole answer."""

    def read(self, seat: str, answer: str) -> Reading:
        board = self._foreign.env.unwrapped.board
        legal = self.legal(seat)
        if not re.search(r"\[[^\[\]]*\]", answer):
            return parse_answer(_san(board, answer, legal), legal)
        told = re.sub(r"\[([^\[\]]*)\]", lambda tag: f"[{_san(board, tag[1], legal)}]", answer)
        return parse_answer(told, legal)


def env(*, illegal: str | None = None, render_mode: str | None = None) -> ViewedEnv:
    return Chess(
        pettingzoo_maker("aec", "classic/chess-v6"),
        ChessView(),
        words=("e4", "e5", "Nf3", "Nc6", "d4", "d5", "g1f3", "g8f6"),
        illegal=illegal,
        render_mode=render_mode,
    )


def _told(moves: Moves) -> str:
    """The last moves as in a score sheet: `3. Bb5 a6`."""
    said = [name for move in moves for name in move.values()]
    first = max(0, len(said) - SHOWN)
    first += first % 2
    numbered = [
        f"{k // 2 + 1}. {said[k]}" if k % 2 == 0 else said[k] for k in range(first, len(said))
    ]
    return f"Last moves: {' '.join(numbered)}\n" if said else ""


def _san(board: Any, said: str, legal: Sequence[str]) -> str:
    """How the list of legal moves spells what was said; as said where it is none of them."""
    said = said.strip()
    if said in legal:
        return said
    for read, word in ((board.parse_uci, said.lower()), (board.parse_san, said)):
        try:
            move = read(word)
        except ValueError:
            continue
        if move:
            return board.san(move)
    return said
