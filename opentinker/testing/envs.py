"""`check_env`: PettingZoo's tests and our text contract, every fault told in words."""

from __future__ import annotations

import contextlib
import io
import math
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from numbers import Real
from typing import Any, cast

import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from opentinker.env import FreeText
from opentinker.errors import ConfigError
from opentinker.registry import make_env
from opentinker.testing.words import told

Env = AECEnv | ParallelEnv


def check_env(env: str | Env | Callable[[], Env], *, games: int = 5, steps: int = 2000) -> None:
    """Hold an env, a factory of it or its name to PettingZoo's tests and to our text contract.

    `games` are played with random legal answers; each must end within `steps` steps. Raises
    ConfigError of the first fault; `env_faults` gives every one.
    """
    for fault in env_faults(env, games=games, steps=steps):
        raise fault


def env_faults(
    env: str | Env | Callable[[], Env], *, games: int = 5, steps: int = 2000
) -> Iterator[ConfigError]:
    """What `check_env` finds, one by one; what can only repeat an earlier fault is left out."""
    make = maker(env)
    found: list[ConfigError] = []
    for check in (_check_made, _check_spaces, partial(_check_games, games=games, steps=steps)):
        yield from (found := faults(check, make))
        if found:
            return
    yield from faults(_check_copies, make)
    for test in _pettingzoo_tests(make):
        yield from faults(test)


def faults(check: Callable[..., None], *args: Any) -> list[ConfigError]:
    """The fault that `check(*args)` raises, if it does."""
    try:
        check(*args)
    except ConfigError as error:
        return [error]
    return []


def maker(env: str | Env | Callable[[], Env]) -> Callable[[], Env]:
    """What makes a fresh env each time it is called."""
    if isinstance(env, str):
        return lambda: make_env(env)
    if isinstance(env, AECEnv | ParallelEnv):
        return lambda: deepcopy(env)
    return env


def _check_made(make: Callable[[], Env]) -> None:
    with told("the env's factory"):
        found = make()
    if not isinstance(found, AECEnv | ParallelEnv):
        raise ConfigError(
            f"the factory gave a {type(found).__name__}; it must give a PettingZoo AECEnv or "
            f"ParallelEnv, best by subclassing opentinker.env.TextEnv or ParallelTextEnv"
        )


def _check_games(make: Callable[[], Env], *, games: int, steps: int) -> None:
    for seed in range(games):
        env = make()
        with told(str(env)):
            _play(env, seed, steps)


def _check_spaces(make: Callable[[], Env]) -> None:
    env = make()
    if not getattr(env, "possible_agents", None):
        raise ConfigError(f"{env} has no possible_agents; name its seats there")
    for seat in env.possible_agents:
        for name in ("observation_space", "action_space"):
            space = getattr(env, name)(seat)
            if not isinstance(space, FreeText):
                raise ConfigError(f"{env}.{name}({seat!r}) is {space}; it must be a FreeText")
            if getattr(env, name)(seat) is not space:
                raise ConfigError(f"{env}.{name}({seat!r}) is a new object at each call; keep one")


class _Game:
    """An env being played, of either kind: who is asked, what is seen, told and paid."""

    def __init__(self, env: Env, seed: int) -> None:
        self.env: Any = env
        self.aec = isinstance(env, AECEnv)
        self.seen, self.infos = self.env.reset(seed=seed) or ({}, self.env.infos)

    def asked(self) -> list[str]:
        return [self.env.agent_selection] if self.aec else list(self.env.agents)

    def look(self) -> dict[str, Any]:
        """What each seat that plays sees."""
        return {seat: self.env.observe(seat) for seat in self.env.agents} if self.aec else self.seen

    def answers(self, player: random.Random) -> dict[str, str | None]:
        """Random legal ones of the seats that are asked; None of a finished seat."""
        env = self.env
        return {
            seat: None
            if self.aec and (env.terminations[seat] or env.truncations[seat])
            else self._random_answer(seat, player)
            for seat in self.asked()
        }

    def step(self, answers: dict[str, str | None]) -> None:
        """Step, and check what is paid and told."""
        if self.aec:
            self.env.step(*answers.values())
            rewards, self.infos = self.env.rewards, self.env.infos
        else:
            self.seen, rewards, _, _, self.infos = self.env.step(answers)
        for seat, amount in rewards.items():
            if not isinstance(amount, Real) or not math.isfinite(amount):
                raise ConfigError(f"{self.env} rewards {seat!r} with {amount!r}, no finite number")
        for seat, answer in answers.items():
            if answer is not None:
                self._check_told(seat, self.infos.get(seat, {}), answer)

    def _random_answer(self, seat: str, player: random.Random) -> str:
        info = self.infos.get(seat, {})
        if "legal_actions" not in info:
            return player.choice(["Well.", "Yes, I think so.", "No."])
        legal = info["legal_actions"]
        if not isinstance(legal, list) or not legal or not all(isinstance(a, str) for a in legal):
            raise ConfigError(
                f"{self.env}.infos[{seat!r}]['legal_actions'] is {legal!r}; it must be a list of "
                f"at least one text, or be left out where any text is an action"
            )
        return f"[{player.choice(legal)}]"

    def _check_told(self, seat: str, info: dict[str, Any], answer: str) -> None:
        missing = [key for key in ("legal", "action", "reason") if key not in info]
        if missing:
            raise ConfigError(
                f"after the answer of {seat!r} {self.env}.infos[{seat!r}] has no "
                f"{', '.join(missing)}; it must tell how the answer was read"
            )
        if info["legal"] is not True:
            raise ConfigError(
                f"{self.env} says that {answer!r} of {seat!r} is not legal ({info['reason']}), "
                f"though it was made from its legal_actions, or any text was an action"
            )


def _play(env: Env, seed: int, steps: int) -> None:
    """One game of random legal answers."""
    before = _moved_generators()
    game, player = _Game(env, seed), random.Random(seed)
    for _ in range(steps):
        for seat, seen in game.look().items():
            if not isinstance(seen, str) or getattr(seen, "dtype", None) != np.dtype(str):
                raise ConfigError(
                    f"{env} shows {seat!r} {type(seen).__name__} {seen!r}; an observation is an "
                    f"opentinker.env.Text"
                )
        game.step(game.answers(player))
        if not env.agents:
            break
    else:
        raise ConfigError(
            f"{env} did not end within {steps} steps of random legal answers (seed {seed}); "
            f"finish or truncate it, or give a larger `steps`"
        )
    if _generators() != before:
        raise ConfigError(
            f"{env} draws from or seeds the process-wide random generator; use one of its own "
            f"(`self.rng`)"
        )


def _moved_generators() -> bytes:
    """The state after one draw: an env that seeds them again with its own number then shows."""
    random.random()
    np.random.random()
    return _generators()


def _generators() -> bytes:
    return pickle.dumps((random.getstate(), np.random.get_state()))


def _check_copies(make: Callable[[], Env]) -> None:
    """A pickled and a copied env must go on in the middle of a game as the first does."""
    env = make()
    game, player = _Game(env, 0), random.Random(0)
    game.step(game.answers(player))
    try:
        copies = {"pickle": pickle.loads(pickle.dumps(game)), "copy.deepcopy": deepcopy(game)}
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{env} can't be pickled or copied, so no worker can hold it: {error}; keep no "
            f"lambdas, open files or generators in it"
        ) from error
    for word, copied in copies.items():
        if list(copied.env.agents) != list(env.agents) or copied.look() != game.look():
            raise ConfigError(f"{word} of {env} in the middle of a game gives another game")


def _pettingzoo_tests(make: Callable[[], Any]) -> Iterator[Callable[[], None]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pettingzoo import test

    env = make()
    run = partial(partial, _run, env)
    if isinstance(env, ParallelEnv):
        yield run("parallel_api_test", lambda: test.parallel_api_test(make(), 100))
        yield run("parallel_seed_test", lambda: test.parallel_seed_test(make, 100))
        return
    yield run("api_test", lambda: test.api_test(make(), 100))
    yield run("seed_test", lambda: test.seed_test(make, 100))
    modes = env.metadata.get("render_modes", [])

    def shown(render_mode: str) -> Any:
        """The test makes a "human" one first, whatever the modes are."""
        made = make()
        made.render_mode = render_mode if render_mode in modes else None
        return made

    if modes:
        yield run("render_test", lambda: test.render_test(cast(Any, shown)))


def _run(env: Env, name: str, test: Callable[[], None]) -> None:
    """One of PettingZoo's tests, silent; its warnings ask for arrays, which texts are not."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            test()
        except Exception as error:
            raise ConfigError(
                f"{env} fails PettingZoo's {name}: {type(error).__name__}: {error}"
            ) from error
