"""Every error that OpenTinker raises on purpose, one tree, each also kin of a standard error.

OpenTinkerError
├── ConfigError (ValueError)          an experiment that can't run; the CLI exits with 2
│   ├── UnknownNameError (LookupError)  a name that nothing is registered under
│   └── ProtocolError                 a graph that can't be walked over this env
├── EnvironmentFault (RuntimeError)   an env that broke its contract; fails one episode
├── ContextFull (ValueError)          a conversation that outgrew the model; cuts one episode
├── RenderingError (ValueError)       a chat template that can't carry a conversation
├── EngineError (RuntimeError)        an inference engine that died or answered wrongly
│   └── PublishError                  a published version does not answer as the learner does
├── LearningError (RuntimeError)      too many updates in a row that were not finite
└── CheckpointError (OSError)         a checkpoint that is missing, torn or does not fit
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OpenTinkerError(Exception):
    """The root of the tree."""


class ConfigError(OpenTinkerError, ValueError):
    """An experiment, env, protocol or cast that can't run as written."""


class UnknownNameError(ConfigError, LookupError):
    """A name that nothing is registered under; the message lists what is, nearest first."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        options = sorted(known)
        super().__init__(kind, name, options, hint)  # all of them, so that it can be pickled
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
        self.message = f"unknown {kind} {name!r}"
        if near:
            self.message += f"; did you mean {near[0]!r}?"
        if options:
            self.message += f"{'' if near else ';'} known: {', '.join(options)}"
        if hint:
            self.message += f" ({hint})"

    def __str__(self) -> str:
        return self.message


class ProtocolError(ConfigError):
    """A protocol whose graph can't be walked, or that does not fit the env."""


class EnvironmentFault(OpenTinkerError, RuntimeError):
    """An env that raised or broke the PettingZoo API: the episode fails, the job goes on."""


class ContextFull(OpenTinkerError, ValueError):
    """A conversation that outgrew the model's context: its episode is truncated there."""


class RenderingError(OpenTinkerError, ValueError):
    """A chat template that rewrites history, or text that it can't carry."""


class EngineError(OpenTinkerError, RuntimeError):
    """An inference engine that died, or answered without what was asked for."""


class PublishError(EngineError):
    """A published version whose answers differ from the learner's."""


class LearningError(OpenTinkerError, RuntimeError):
    """Too many updates in a row were skipped because the loss or the gradient was not finite."""


class CheckpointError(OpenTinkerError, OSError):
    """A checkpoint that is missing, torn, or of another experiment."""
