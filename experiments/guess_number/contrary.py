"""A teacher that reads what it was told, and plays badly: the model learns to look, not to win.

Half of the time it names any number, else one that the last answer has just ruled out.
"""

import random

from opentinker.agent import Answer


class Contrary:
    def __init__(self, seed):
        self._generator = random.Random(seed)

    async def answer(self, view, sampler):
        numbers = list(view.legal_actions)
        last = view.infostate.rpartition("-")[2]
        if last != "start" and self._generator.random() < 0.5:
            guess, answer = last.split(":")
            place = numbers.index(guess)
            numbers = numbers[: place + 1] if answer == "higher" else numbers[place:]
        return Answer(f"[{self._generator.choice(numbers)}]")


def make(*, seat, seed):
    return Contrary(seed)
