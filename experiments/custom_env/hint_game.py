"""A game of one's own: one seat knows a number of 1 to 4 and says one word, the other guesses.

Both get 1 if the guess is right, else 0. Two words can tell two of four numbers apart, so the best
that any pair can do is to be right half of the time; without listening it is a quarter.
"""

from opentinker.env import TextEnv

NUMBERS = ("1", "2", "3", "4")
WORDS = ("low", "high")


class HintGame(TextEnv):
    name = "hint_game"
    seats = ("player_0", "player_1")
    worst_reward = -1.0
    words = (*WORDS, *NUMBERS)

    def deal(self, options):
        self.number = str(options.get("number") or self.rng.choice(NUMBERS))
        self.hint = self.guess = None

    def describe(self, seat):
        if self.guess is not None:
            return f"The number was {self.number}, the guess {self.guess}."
        if seat == "player_0":
            return f"The number is {self.number}. Give a hint: [low] or [high]."
        return f"The hint is: {self.hint}. Guess the number: [1] [2] [3] or [4]."

    def legal(self, seat):
        return WORDS if seat == "player_0" else NUMBERS

    def infostate(self, seat):
        return f"number {self.number}" if seat == "player_0" else f"hint {self.hint}"

    def play(self, seat, action):
        if seat == "player_0":
            self.hint = action
            return
        self.guess = action
        for each in self.seats:
            self.reward(each, float(action == self.number))
        self.finish()


def env(**options):
    return HintGame(**options)
