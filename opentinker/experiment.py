"""What an experiment says, section by section: the parts of every job, and the `rl` job.

A default is the setting that was tried.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Positive = Annotated[int, Field(ge=1, strict=True)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
Schedule = Share | tuple[Share, Share]


class EnvSection(Section):
    id: str
    """a file of `envs/`, a registered name, `pettingzoo/classic/chess-v6`, `"my.module:env"`"""
    options: dict[str, Any] = {}
    """keyword arguments of the env's factory"""


class ProtocolSection(Section):
    id: str = "follow_env"
    options: dict[str, Any] = {}


class AgentSection(BaseModel):
    """An agent that is not a policy; keys beside `kind` are options of its factory."""

    model_config = ConfigDict(frozen=True, extra="allow")
    kind: str

    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class _Learning(Section):
    """How a trainable policy learns."""

    learning_rate: Rate | tuple[Rate, Rate] = 2e-3
    """a number, or its value at the start and at the end, linear in between"""
    entropy: Schedule = 0.0
    """coefficient of the entropy bonus; a schedule, too"""
    kl: Schedule = 0.0
    """coefficient of the KL to the reference"""
    reference: str = "copy"
    """`copy`: a copy of the policy itself, taken anew every `reference_every` updates (magnetic
    mirror descent, arXiv 2206.05825); `base`: the experiment's model; or a frozen policy's name"""
    reference_every: Positive = 20
    every: Positive = 1
    """the policy is updated at every step whose number this divides"""


class LoraPolicy(_Learning):
    """A trainable LoRA adapter over the experiment's model."""

    kind: Literal["lora"] = "lora"
    rank: Positive = 8
    alpha: Rate | None = None
    """None is twice the rank"""
    targets: list[str] = ["all-linear"]
    """leaf names of the linear layers to adapt"""
    init: Literal["kaiming", "gaussian"] = "kaiming"
    """how A is drawn; B starts at zero"""
    start: str | None = None
    """weights to go on from instead: a PEFT folder, or `RUN:POLICY` of an earlier run"""

    @model_validator(mode="after")
    def _whole(self) -> LoraPolicy:
        if "alpha" in self.model_fields_set and "rank" not in self.model_fields_set:
            raise ValueError(
                f"alpha = {self.alpha} without rank: alpha scales an adapter as alpha / rank, so "
                "name the rank beside it"
            )
        return self


class FullPolicy(_Learning):
    """A whole model of its own, every weight trained, served by an engine of its own."""

    kind: Literal["full"]
    model: str | None = None
    """where it starts: a folder, `RUN:POLICY` of an earlier run; None is the experiment's model"""
    learning_rate: Rate | tuple[Rate, Rate] = 3e-4
    engine: Literal["auto", "vllm", "torch"] = "auto"


class FrozenPolicy(Section):
    """A policy that plays and never learns."""

    kind: Literal["frozen"]
    source: str | None = None
    """a PEFT folder, a model's folder, `RUN:POLICY` of an earlier run; None is the experiment's
    model itself"""


def _kind_of_policy(value: Any) -> str:
    kind = value.get("kind", "lora") if isinstance(value, dict) else getattr(value, "kind", "lora")
    return str(kind)


Policy = Annotated[
    Annotated[LoraPolicy, Tag("lora")]
    | Annotated[FullPolicy, Tag("full")]
    | Annotated[FrozenPolicy, Tag("frozen")],
    Discriminator(_kind_of_policy),
]


class TinyModel(Section):
    """What `model = "tiny"` makes: a Llama with a tokenizer trained on the env's own texts."""

    hidden: Annotated[int, Field(ge=32, multiple_of=32)] = 64
    layers: Positive = 2
    context: Annotated[int, Field(ge=64)] = 512


class SamplingSection(Section):
    max_tokens: Positive = 8
    temperature: Rate = 1.0


class LimitsSection(Section):
    turns: Positive = 200
    """answers in one episode, all seats together"""
    turn_seconds: Rate = 120.0
    episode_seconds: Rate = 600.0


class ResourcesSection(Section):
    engine_threads: Positive = 1
    learner_threads: Positive = 1
    rollout: Literal["engine", "worker"] = "engine"
    """where episodes are walked: in the engine's own process, or in one beside it"""


class TrainSection(Section):
    updates: Positive = 150
    episodes_per_update: Positive = 256
    group_size: Positive = 1
    """episodes that start from the same state"""
    update: Literal["simultaneous", "alternating"] = "simultaneous"
    alternate_every: Positive = 1
    """with `alternating`: updates that one policy makes while the others stand still"""
    max_staleness: Annotated[int, Field(ge=0, strict=True)] = 0
    """how many updates old a token may be when it is trained on; 0 is strictly on-policy, above it
    rollouts go on while learners learn"""
    credit: str = "role_baseline"
    credit_options: dict[str, Any] = {}
    team: Annotated[float, Field(ge=0, le=1)] = 0.0
    """share of the team's mean reward in what a seat is paid for learning; 0 is its own alone"""
    teams: list[list[str]] = []
    """seats that are one team; empty: all of them"""
    loss: str = "policy_gradient"
    loss_options: dict[str, Any] = {}
    normalization: Literal["token", "sequence", "constant"] = "token"
    normalization_tokens: Positive | None = None
    """with `constant`: tokens that a row counts as; None is `sampling.max_tokens`"""
    importance_cap: Rate | None = None
    """truncation of importance weights (TIS); None is 2 where `max_staleness` is above 0, and takes
    the sampled tokens as on-policy where it is not"""
    epochs: Positive = 1
    """passes over the episodes of one update"""
    minibatches: Positive = 1
    """optimizer steps of one pass"""
    value_coefficient: Rate = 0.5
    """of the critic's loss, where the credit needs a critic"""
    max_grad_norm: Rate = 1.0
    batch_tokens: Positive = 8192
    """tokens of one micro-batch, padding included"""
    max_skipped: Positive = 5
    """updates in a row with a non-finite loss or gradient before the job fails"""
    max_failed: Annotated[float, Field(ge=0, le=1)] = 0.5
    """share of failed episodes in one update above which the job fails"""


class EvaluateSection(Section):
    every: Positive = 10
    episodes: Positive = 256
    against: list[str] = []
    """agents that take the other seats: `random`, `equilibrium`, one of `[agents]`, or a
    frozen policy"""
    exploitability: bool = False
    """exact exploitability at every update; the env must give its game tree"""


class CheckpointSection(Section):
    every: Positive = 1
    """updates; a killed run loses those since the last checkpoint"""
    keep_last: Positive = 2
    keep_best: Annotated[int, Field(ge=0)] = 0
    """checkpoints kept beside the last ones for their `metric`"""
    metric: str = ""
    """a name in `metrics.jsonl`, such as `exploitability` or `reward/player_0`"""
    goal: Literal["min", "max"] = "max"
    transcripts: Positive = 16
    """episodes of each update that are written out in full"""

    @model_validator(mode="after")
    def _named(self) -> CheckpointSection:
        if self.keep_best and not self.metric:
            raise ValueError(
                f"checkpoint.keep_best = {self.keep_best} needs checkpoint.metric: best by what?"
            )
        return self


class BaseExperiment(Section):
    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    model: str = "tiny"
    """`tiny`, a Hugging Face folder or id; not beside `after`, whose job's model is taken"""
    modules: list[str] = []
    """modules to import first, for what they register"""
    paths: list[str] = []
    """folders whose modules are found, as those beside the experiment's file are; relative to it"""
    after: str | None = None
    """an experiment file beside this one whose job must have succeeded first"""
    tiny: TinyModel = TinyModel()
    env: EnvSection
    protocol: ProtocolSection = ProtocolSection()
    agents: dict[Name, AgentSection] = {}
    cast: Annotated[dict[str, str | AgentSection], Field(min_length=1)]
    sampling: SamplingSection = SamplingSection()
    limits: LimitsSection = LimitsSection()
    resources: ResourcesSection = ResourcesSection()

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.after is not None and "model" in self.model_fields_set:
            raise ValueError(
                f"model = {self.model!r} and after = {self.after!r}: beside `after` the model is "
                "what that job made; remove `after` to start from the model, or else `model`"
            )
        return self


class RLExperiment(BaseExperiment):
    """A job that plays episodes and trains every policy of the cast from them."""

    job: Literal["rl"] = "rl"
    engine: Literal["auto", "vllm", "torch"] = "auto"
    policies: Annotated[dict[Name, Policy], Field(min_length=1)]
    train: TrainSection = TrainSection()
    evaluate: EvaluateSection = EvaluateSection()
    checkpoint: CheckpointSection = CheckpointSection()

    @model_validator(mode="after")
    def _names(self) -> RLExperiment:
        for name in self.policies:
            if name == "base" or name in self.agents:
                raise ValueError(f"policies.{name}: the name is taken; choose another")
        return self
