"""A task of reasoning-gym by its name, `reasoning_gym/<task>`: one seat, one question, one answer.

Parts: `reasoning_env`, the factory; `ReasoningEnv`, the env. The reward is the task's own score of
the answer, from 0 to 1.
"""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Mapping
from typing import Any

from opentinker.answer import Reading
from opentinker.env import TextEnv
from opentinker.errors import ConfigError, UnknownNameError
from opentinker.wrappers.extras import load
from opentinker.wrappers.generators import OwnGenerators

log = logging.getLogger(__name__)

SCORING = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""seen from reasoning-gym's scorers were ValueError, AttributeError, LookupError and TypeError; the
others are what evaluating somebody's words can raise"""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {"number_sequence": {"max_complexity": 2}}
"""task -> settings that differ from reasoning-gym's own defaults; at a complexity of 3 some of its
sequences are squares of squares, whose numbers take minutes to work out"""

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class ReasoningEnv(TextEnv):
    """One seat, `player_0`, is asked one question of `size`; reset's option `index` says which.

    The answer is what stands in the last `<answer>...</answer>`, or else all that was said.
    """

    seats = ("player_0",)
    words = ("0", "yes")

    def __init__(
        self, task: str, *, size: int, data_seed: int, config: Mapping[str, Any], **options: Any
    ) -> None:
        self.name = f"reasoning_gym/{task}"
        self._task, self._config = task, {**config, "size": size, "seed": data_seed}
        self._data = make_dataset(task, self._config)
        super().__init__(**options)

    def deal(self, options: Mapping[str, Any]) -> None:
        size = self._config["size"]
        drawn = int(self.rng.integers(size))
        self.index = options.get("index", drawn)
        if self.index not in range(size):
            raise ConfigError(f"{self.name} has no question {self.index!r}; it has {size}")
        self._entry = self._question()
        self._score: float | None = None

    def describe(self, seat: str) -> str:
        question = self._entry["question"].strip()
        if self._score is not None:
            return f"{question}\nYour answer scores {self._score:g}."
        return f"{question}\nSay only the answer, or put it between <answer> and </answer>."

    def read(self, seat: str, answer: str) -> Reading:
        tagged = _ANSWER.findall(answer)
        return Reading((tagged[-1] if tagged else answer).strip())

    def play(self, seat: str, action: str) -> None:
        self._score = self._judge(action)
        self.reward(seat, self._score)
        self.finish()

    def _question(self) -> Any:
        with OwnGenerators(self.index).inside():
            return self._data[self.index]

    def _judge(self, answer: str) -> float:
        """The task's score. Some scorers raise on words that they did not foresee: that is 0.

        What they raise follows from how they read an answer; anything else is a fault, and raised.
        """
        try:
            with OwnGenerators(self.index).inside():
                return float(self._data.score_answer(answer, self._entry))
        except SCORING as error:
            log.info("reasoning-gym's %r can't score %r: %r", self._task, answer, error)
            return 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_data", "_entry")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._data = make_dataset(self._task, self._config)
        if "index" in state:
            self._entry = self._question()


def reasoning_env(
    task: str,
    *,
    size: int = 1000,
    data_seed: int = 0,
    illegal: str | None = None,
    render_mode: str | None = None,
    **config: Any,
) -> ReasoningEnv:
    """The task that reasoning-gym calls `task`; `config` is the task's own (`max_terms=3`).

    There are `size` questions, the same for each `data_seed`; the seed of a game draws one.
    """
    return ReasoningEnv(
        task,
        size=size,
        data_seed=data_seed,
        config={**DEFAULTS.get(task, {}), **config},
        illegal=illegal,
        render_mode=render_mode,
    )


def make_dataset(task: str, config: Mapping[str, Any]) -> Any:
    """reasoning-gym's data set; UnknownNameError, or ConfigError that lists the task's config."""
    load("reasoning_gym", "reasoning-gym")
    known: Mapping[str, Any] = load("reasoning_gym.factory", "reasoning-gym").DATASETS
    if task not in known:
        raise UnknownNameError("reasoning-gym task", task, known)
    kind, settings = known[task]
    takes = list(inspect.signature(settings).parameters)
    for key in config:
        if key not in takes:
            raise UnknownNameError(f"setting of reasoning-gym's {task!r}:", key, takes)
    try:
        made = settings(**config)
        if hasattr(made, "validate"):
            made.validate()
    except (AssertionError, TypeError, ValueError) as error:
        raise ConfigError(
            f"reasoning-gym's {task!r} can't be made with {dict(config)!r}: {error!r}"
        ) from error
    with OwnGenerators(config["seed"]).inside(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # arc_agi's library leaves its files open
        return kind(config=made)
