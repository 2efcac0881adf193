"""Which games of TextArena 0.7.4 can be played, found by running each under `check_env`.

Each variant of a game (`"Nim-v0-large"`) was tried too. What a table says of a game (`"Nim-v0"`)
holds for its variants, unless the variant stands there itself.
"""

from __future__ import annotations

from collections.abc import Mapping

KEY = "it asks a remote model, which takes a key"
WORDS = "it takes word lists (nltk's) that don't come with it"
SYNTAX = "its source takes Python 3.12"
FILES = "its package lacks files that it reads"
CALLS = "it breaks off at its first move: it calls TextArena's own state with wrong arguments"
REWARD = "its rewards are sentences"
DEAL = "dealing its puzzle takes from seconds to minutes"
LOOP = "it never ends a move once every player has made too many invalid ones"
RAW = "it has no form without TextArena's own wrappers"

SEATS: Mapping[str, tuple[int, int]] = {
    "2048-v0": (1, 1),
    "Alquerque-v0": (2, 2),
    "Bandit-v0": (1, 1),
    "Battleship-v0": (2, 2),
    "Blackjack-v0": (1, 1),
    "Breakthrough-v0": (2, 2),
    "Briscola-v0": (2, 4),
    "Chopsticks-v0": (2, 2),
    "ColonelBlotto-v0": (2, 2),
    "ConnectFour-v0": (2, 2),
    "Crosswords-v0": (1, 1),
    "Crusade-v0": (2, 2),
    "FifteenPuzzle-v0": (1, 1),
    "FrozenLake-v0": (1, 1),
    "GameOfPureStrategy-v0": (2, 2),
    "GermanWhist-v0": (2, 2),
    "Golf-v0": (2, 4),
    "GuessTheNumber-v0": (1, 1),
    "HighSociety-v0": (2, 2),
    "IndianPoker-v0": (2, 2),
    "IteratedMatchingPennies-v0": (2, 2),
    "IteratedPrisonersDilemma-v0": (2, 2),
    "IteratedRockPaperScissors-v0": (2, 2),
    "IteratedTwoThirdsAverage-v0": (2, 2),
    "IteratedUltimatumGame-v0": (2, 2),
    "KuhnPoker-v0": (2, 2),
    "LiarsDice-v0": (2, 10),
    "LightsOut-v0": (1, 1),
    "LinesOfAction-v0": (2, 2),
    "LogicPuzzle-v0": (1, 1),
    "Mastermind-v0": (1, 1),
    "MemoryGame-v0": (2, 2),
    "Minesweeper-v0": (1, 1),
    "NewRecruit-v0": (2, 2),
    "Nim-v0": (2, 2),
    "Othello-v0": (2, 2),
    "PegJump-v0": (1, 1),
    "PigDice-v0": (2, 2),
    "Poker-v0": (2, 10),
    "QuantumTicTacToe-v0": (2, 2),
    "RushHour-v0": (1, 1),
    "SantoriniBaseFixed-v0": (2, 3),
    "SecretMafia-v0": (6, 15),
    "Secretary-v0": (1, 1),
    "Set-v0": (1, 1),
    "SettlersOfCatan-v0": (4, 4),
    "SimpleBlindAuction-v0": (2, 2),
    "SimpleNegotiation-v0": (2, 2),
    "SimpleTak-v0": (2, 2),
    "Snake-v0": (2, 9),
    "Sokoban-v0": (1, 1),
    "SpiteAndMalice-v0": (2, 2),
    "Stratego-v0": (2, 2),
    "Sudoku-v0": (1, 1),
    "Surround-v0": (2, 9),
    "Taboo-v0": (4, 4),
    "Tak-v0": (2, 2),
    "ThreePlayerGOPS-v0": (3, 3),
    "ThreePlayerIPD-v0": (3, 3),
    "ThreePlayerTicTacToe-v0": (3, 3),
    "TicTacToe-v0": (2, 2),
    "TowerOfHanoi-v0": (1, 1),
    "TruthAndDeception-v0": (2, 2),
    "TwoDollar-v0": (2, 2),
    "UltimateTicTacToe-v0": (2, 2),
    "WildTicTacToe-v0": (2, 2),
}
"""Game -> the fewest and the most seats that it was started with, of 1 to 10 (SecretMafia 15)."""

REFUSED: Mapping[str, str] = {
    "BabyAiText-v0": RAW,
    "CharacterConclave-v0": CALLS,
    "Checkers-v0": SYNTAX,
    "Chess-v0": SYNTAX,
    "Codenames-v0": WORDS,
    "Countdown-v0": CALLS,
    "Cryptarithm-v0": CALLS,
    "Debate-v0": KEY,
    "DontSayIt-v0": WORDS,
    "GuessWho-v0": KEY,
    "Hangman-v0": WORDS,
    "IteratedStagHunt-v0": SYNTAX,
    "Klondike-v0": SYNTAX,
    "LetterAuction-v0": WORDS,
    "MarketEntryGame-v0": LOOP,
    "PublicGoodsGame-v0": LOOP,
    "ReverseTicTacToe-v0": SYNTAX,
    "ScenarioPlanning-v0": KEY,
    "ScorableGames-v0": FILES,
    "Slitherlink-v0": CALLS,
    "Sokoban-v0-medium": DEAL,
    "SpellingBee-v0": WORDS,
    "Sudoku-v0-hard": DEAL,
    "ThreeCardMonte-v0": REWARD,
    "TwentyQuestions-v0": KEY,
    "UltimateTexasHoldem-v0": SYNTAX,
    "UsedCar-v0": FILES,
    "UsedCarNegotiation-v0": FILES,
    "WordChains-v0": WORDS,
    "WordLadder-v0": WORDS,
    "WordSearch-v0": WORDS,
    "Wordle-v0": WORDS,
}
"""Game or variant -> why it can't be played."""


def game_of(id: str) -> str:
    """The game that `id` is a variant of, or is: `"Nim-v0"` of `"Nim-v0-large"`."""
    name, version, _ = id.partition("-v0")
    return name + version


def refusal(id: str) -> str | None:
    """Why `id` can't be played; None if it can, or is in no table."""
    return REFUSED.get(id) or REFUSED.get(game_of(id))
