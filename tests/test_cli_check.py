"""`opentinker check`: a sound part is 0, a broken one 1 and told in words, a missing one 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from opentinker import cli

ENV = """
from opentinker.env import TextEnv

class Coin(TextEnv):
    seats = ("player_0", "player_1")

    def deal(self, options):
        self.said = []

    def describe(self, seat):
        return f"Said: {self.said}. Say [heads] or [tails]."

    def legal(self, seat):
        return ["heads", "tails"]

    def play(self, seat, action):
        self.said.append(action)
        if len(self.said) == 2:
            self.finish()

def env(**options):
    return Coin(**options)
"""
AGENT = """
from opentinker.agent import Answer

class Heads:
    async def answer(self, view, sampler):
        return Answer("[heads]" if "heads" in view.observation else "[yes]")

def make(*, seat, seed):
    return Heads()
"""
PROTOCOL = """
from opentinker.protocol import CURRENT, Protocol, Stage

def build(seats):
    stages = [Stage("say", (CURRENT,), "speak"), Stage("move", (CURRENT,), "move")]
    return Protocol.of("aloud", seats, stages, [("say", "move", "*"), ("move", "say", "*")])
"""


class Checked:
    """`opentinker check` in a folder of its own: the exit code, and all that was shown."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def write(self, name: str, text: str, *changes: tuple[str, str]) -> str:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (self.folder / name).write_text(text)
        return name

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = cli.main(["check", *arguments])
        shown = self._capsys.readouterr()
        return code, shown.out + shown.err


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Checked:
    monkeypatch.chdir(tmp_path)
    return Checked(tmp_path, capsys)


def test_sound_parts_are_0(check: Checked) -> None:
    env, agent = check.write("my_coin.py", ENV), check.write("my_heads.py", AGENT)
    protocol = check.write("my_aloud.py", PROTOCOL)
    assert check(env) == (0, "env my_coin:env: sound\n")
    code, shown = check(agent)
    assert code == 0 and shown.startswith("agent my_heads:make: sound")
    assert check(agent, "--env", env) == (0, "agent my_heads:make: sound (in my_coin:env)\n")
    code, shown = check(protocol)
    assert code == 0 and shown.startswith("protocol my_aloud:build: sound (over kuhn_poker_v0, ")
    assert check(protocol, "--env", env)[0] == 0


def test_a_registered_name_and_a_place_are_checked_too(check: Checked) -> None:
    check.write("my_coin.py", ENV)
    assert check("kuhn_poker_v0") == (0, "env kuhn_poker_v0: sound\n")
    assert check("my_coin:env") == (0, "env my_coin:env: sound\n")
    assert check("my_coin:Coin") == (0, "env my_coin:Coin: sound\n")
    assert check("scripted", "--options", 'lines=["[yes]"]')[0] == 0
    code, shown = check("scripted")
    assert code == 1 and "missing a required argument: 'lines'" in shown


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("self.finish()", "{}['k']", "Coin raised KeyError: 'k' (broken_env.py, line 19, in play)"),
        ("self.said = []", "self.sad = []", "has no attribute 'said'"),
        ("        if len(self.said) == 2:\n            self.finish()\n", "", "did not end within"),
        ("return f", "return 1 or f", "describes itself to 'player_0' as 1; it must be a text"),
        ("return Coin(**options)", "return {}", "gave a dict, not a PettingZoo AECEnv"),
        ("return Coin(**options)", "return Coin(size=3)", "unexpected keyword argument 'size'"),
        ("def env(", "def game(", "for its class Coin: def env(**options)"),
        ("def deal", "def deal(", "importing broken_env.py raised SyntaxError"),
        ("import TextEnv", "import TextEnvs", "cannot import name 'TextEnvs'"),
    ],
)
def test_a_broken_env_is_1_and_told_in_words(
    check: Checked, old: str, new: str, words: str
) -> None:
    code, shown = check(check.write("broken_env.py", ENV, (old, new)))
    assert code == 1 and words in shown and "Traceback" not in shown


def test_each_fault_of_an_env_is_told(check: Checked) -> None:
    """It keeps a lambda, and deals otherwise than its seed says: two faults, two lines."""
    seen = "Said: {self.said} {self.luck}"
    dealt = "self.said, self.f = [], lambda: 0\n        self.luck = __import__('os').urandom(4)"
    name = check.write(
        "broken_twice.py", ENV, ("self.said = []", dealt), ("Said: {self.said}", seen)
    )
    code, shown = check(name)
    assert code == 1 and "can't be pickled" in shown and "fails PettingZoo's seed_test" in shown


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("async def", "def", "must be an `async def`"),
        ("def answer", "def reply", "is a Heads without a method `answer`"),
        ("return Answer(", "return str(", "it must be an opentinker.agent.Answer"),
        ("view.observation", "view.seen", "object has no attribute 'seen' (broken_agent.py, line"),
        ("seat, seed", "seat", "can't be made with"),
        ('"[yes]"', '"[perhaps]"', "not legal now: [perhaps]"),
        ('"[yes]"', '"[yes] " + str(__import__("os").urandom(4))', "made twice with the same seed"),
    ],
)
def test_a_broken_agent_is_1_and_told_in_words(
    check: Checked, old: str, new: str, words: str
) -> None:
    code, shown = check(check.write("broken_agent.py", AGENT, (old, new)))
    assert code == 1 and words in shown and "Traceback" not in shown


def test_an_agent_is_wrong_in_the_env_that_it_does_not_understand(check: Checked) -> None:
    name = check.write("my_heads.py", AGENT)
    code, shown = check(name, "--env", "kuhn_poker_v0")
    assert code == 1 and "answers '[yes]' to" in shown and "not legal now: [yes]" in shown


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('("say", "move", "*"), ', "", "say"),
        ('("move", "say", "*")', '("move", "sing", "*")', "sing"),
        ('"say", (CURRENT,)', '"say", ("alice",)', "alice"),
        ('"speak")', '"speak", "Hear {hears}.")', "can't be filled: KeyError('hears')"),
        ("return Protocol", "return [] or Protocol.name", "raised AttributeError"),
        ("def build(seats)", "def build()", "can't be made with"),
    ],
)
def test_a_broken_protocol_is_1_and_told_in_words(
    check: Checked, old: str, new: str, words: str
) -> None:
    code, shown = check(check.write("broken_protocol.py", PROTOCOL, (old, new)))
    assert code == 1 and words in shown and "Traceback" not in shown


def test_what_is_not_there_is_2(check: Checked) -> None:
    check.write("my_coin.py", ENV)
    code, shown = check("my_con.py")
    assert code == 2 and "no file 'my_con.py'; there is my_coin.py" in shown
    code, shown = check("kuhn_pokr_v0")
    assert code == 2 and "did you mean 'kuhn_poker_v0'?" in shown
    code, shown = check("my_coins:env")
    assert code == 2 and "no module 'my_coins'" in shown
    code, shown = check("my_coin:envs")
    assert code == 2 and "did you mean 'env'?" in shown
    code, shown = check("random", "--env", "nowhere.py")
    assert code == 2 and "no file 'nowhere.py'" in shown
    assert check("kuhn_poker_v0", "--options", "illegal")[0] == 2


def test_a_file_that_hides_behind_another_module_is_told(check: Checked) -> None:
    code, shown = check(check.write("random.py", AGENT))
    assert code == 1 and "another module named 'random' is loaded already" in shown
