"""What a fine-tuning job says: where its examples come from, what is fitted, and how."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from opentinker.experiment import (
    AgentSection,
    BaseExperiment,
    EnvSection,
    Positive,
    Rate,
    Section,
)

STEPS = 400
"""of a fit that says neither `steps` nor `epochs`"""


class Transcripts(Section):
    """Which of a run's recorded turns are learned from, where `run` names one."""

    file: str | None = None
    """a JSONL file beside the experiment's, a line an example"""
    run: str | None = None
    """a run whose transcripts are learned from: its name, or its folder"""
    seats: tuple[str, ...] = ()
    """empty: all"""
    policies: tuple[str, ...] = ()
    """names of the cast; empty: every policy"""
    last_steps: Positive | None = None
    """only the newest so many of the steps that have transcripts"""

    def given(self) -> list[str]:
        """The names of the sources that are given."""
        return [name for name in self.sources() if getattr(self, name) is not None]

    @classmethod
    def sources(cls) -> tuple[str, ...]:
        return ("file", "run")

    @model_validator(mode="after")
    def _one_source(self) -> Transcripts:
        names, given = self.sources(), self.given()
        if len(given) != 1:
            said = " and ".join(given) or "none"
            raise ValueError(f"data: give exactly one of {', '.join(names)}; given: {said}")
        others = [name for name in type(self).model_fields if name not in names]
        idle = [name for name in others if getattr(self, name) not in ((), None)]
        if idle and self.run is None:
            raise ValueError(
                f"data.{idle[0]} chooses among a run's transcripts; data.{given[0]} has none"
            )
        return self


class DataSection(Transcripts):
    """Where supervised examples come from."""

    episodes: Positive | None = None
    """episodes that the cast plays; every legal answer is learned"""
    min_reward: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """only what a seat did in an episode that paid it at least this"""
    top: Annotated[float, Field(gt=0, le=1)] | None = None
    """only this share of each seat's episodes of an env, the highest returns"""

    @classmethod
    def sources(cls) -> tuple[str, ...]:
        return ("episodes", "file", "run")


class FitSection(Section):
    steps: Positive | None = None
    """optimizer steps; 400 where `epochs` isn't given either"""
    epochs: Rate | None = None
    """passes over the examples, instead of `steps`"""
    learning_rate: Rate = 3e-3
    batch_tokens: Positive = 8192
    """tokens of one step, padding included"""
    packing: bool = False
    """several examples share a row, and none sees another; else examples of similar length are
    padded, which on a CPU is faster"""
    max_length: Positive | None = None
    """longer examples are left out; None is the model's context"""
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """share of the examples that is held out; 0 is none"""
    evaluate_every: Positive | None = None
    """steps between two looks at the held-out examples, and checkpoints; None is a tenth of all"""
    patience: Positive | None = None
    """looks in a row without a better val_loss that end the fit; the best weights are kept"""

    @model_validator(mode="before")
    @classmethod
    def _length(cls, table: Any) -> Any:
        if isinstance(table, dict) and table.get("steps") is None and table.get("epochs") is None:
            return {**table, "steps": STEPS}
        return table

    @model_validator(mode="after")
    def _whole(self) -> FitSection:
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                f"fit: steps = {self.steps} and epochs = {self.epochs}: give one of them"
            )
        if self.patience is not None and not self.validation:
            raise ValueError(
                f"fit.patience = {self.patience} needs fit.validation above 0: it waits for a "
                "better val_loss"
            )
        return self


class PreferenceFit(FitSection):
    beta: Rate = 0.1
    """how dearly a step away from the starting weights is paid (arXiv 2305.18290, eq. 7)"""


class FittedSection(Section):
    """What is fitted: every weight of the model, or a LoRA adapter over it."""

    kind: Literal["full", "lora"] = "full"
    rank: Positive | None = None
    """8 for an adapter"""
    alpha: Rate | None = None
    """twice the rank where it isn't given"""
    targets: list[str] | None = None
    """leaf names of the linear layers to adapt; all of them where they aren't given"""

    @model_validator(mode="after")
    def _of_its_kind(self) -> FittedSection:
        given = [name for name in ("rank", "alpha", "targets") if getattr(self, name) is not None]
        if self.kind == "full" and given:
            raise ValueError(
                f"policy.{given[0]} is of an adapter; set policy.kind = 'lora', or leave it out"
            )
        if self.alpha is not None and self.rank is None:
            raise ValueError(
                f"policy.alpha = {self.alpha} without rank: alpha scales an adapter as alpha / "
                "rank, so name the rank beside it"
            )
        return self


class FitExperiment(BaseExperiment):
    """What every job that fits examples has: an env and a cast only where these play."""

    env: EnvSection | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    cast: dict[str, str | AgentSection] = Field(default={})
    policy: FittedSection = FittedSection()


class SFTExperiment(FitExperiment):
    """A job that fine-tunes a model on conversations, by cross-entropy on the answers."""

    job: Literal["sft"]
    data: DataSection
    fit: FitSection = FitSection()

    @model_validator(mode="after")
    def _played(self) -> SFTExperiment:
        if self.data.episodes is None:
            _no_table(self, self.data.given()[0])
        elif self.env is None or not self.cast:
            missing = "env" if self.env is None else "cast"
            raise ValueError(f"data.episodes needs [{missing}]: somebody has to play them")
        return self


class DPOExperiment(FitExperiment):
    """A job that fits a model to preferences between answers (DPO, arXiv 2305.18290)."""

    job: Literal["dpo"]
    data: Transcripts
    fit: PreferenceFit = PreferenceFit()

    @model_validator(mode="after")
    def _not_played(self) -> DPOExperiment:
        _no_table(self, self.data.given()[0])
        return self


def _no_table(experiment: FitExperiment, source: str) -> None:
    """Refuse what would have no effect."""
    for name in ("env", "cast"):
        if getattr(experiment, name):
            raise ValueError(f"[{name}] has no part in a fit on data.{source}; leave it out")
