"""Each seat says a word that binds nobody, which all hear; then the game goes its way."""

from opentinker.protocol import ALL, CURRENT, Protocol, Stage


def build(seats: tuple[str, ...], *, trainable: bool = False) -> Protocol:
    greet = Stage("greet", (ALL,), "speak", "Say a word to the others.", trainable=trainable)
    move = Stage("move", (CURRENT,), "move")
    return Protocol.of(
        "greet_first", seats, [greet, move], [("greet", "move", "*"), ("move", "move", "*")]
    )
