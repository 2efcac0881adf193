"""An experiment as it is written down: TOML in, checked key by key, resolved TOML out.

What a value means to the env, the protocol or the model is checked by `opentinker.scheduler.check`,
before Ray or an engine starts.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from opentinker.errors import ConfigError


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Positive = Annotated[int, Field(ge=1, strict=True)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
Schedule = Share | tuple[Share, Share]


class EnvSection(_Section):
    id: str
    """a file of `envs/`, a registered name, `pettingzoo/classic/chess-v6`, `"my.module:env"`"""
    options: dict[str, Any] = {}
    """keyword arguments of the env's factory"""


class ProtocolSection(_Section):
    id: str = "follow_env"
    options: dict[str, Any] = {}


class AgentSection(BaseModel):
    """An agent that is not a policy; keys beside `kind` are options of its factory."""

    model_config = ConfigDict(frozen=True, extra="allow")
    kind: str

    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class LoraPolicy(_Section):
    """A trainable LoRA adapter over the experiment's model."""

    kind: Literal["lora"] = "lora"
    rank: Positive = 8
    alpha: Rate | None = None
    """None is twice the rank"""
    targets: list[str] = ["all-linear"]
    """leaf names of the linear layers to adapt"""
    learning_rate: Rate | tuple[Rate, Rate] = 2e-3
    """a number, or its value at the start and at the end, linear in between"""
    entropy: Schedule = 0.0
    """coefficient of the entropy bonus; a schedule, too"""
    kl: Schedule = 0.0
    """coefficient of the KL to a slowly moving copy (magnetic mirror descent, arXiv 2206.05825)"""
    reference_every: Positive = 20
    """updates between two refreshes of that copy"""


class TinyModel(_Section):
    """What `model = "tiny"` makes: a Llama with a tokenizer trained on the env's own texts."""

    hidden: Annotated[int, Field(ge=32, multiple_of=32)] = 64
    layers: Positive = 2
    context: Annotated[int, Field(ge=64)] = 512


class SamplingSection(_Section):
    max_tokens: Positive = 8
    temperature: Rate = 1.0


class LimitsSection(_Section):
    turns: Positive = 200
    """answers in one episode, all seats together"""
    turn_seconds: Rate = 120.0
    episode_seconds: Rate = 600.0


class ResourcesSection(_Section):
    engine_threads: Positive = 1
    learner_threads: Positive = 1
    rollout: Literal["engine", "worker"] = "engine"
    """where episodes are walked: in the engine's own process, or in one beside it"""


class TrainSection(_Section):
    updates: Positive = 150
    episodes_per_update: Positive = 256
    group_size: Positive = 1
    """episodes that start from the same state"""
    credit: str = "role_baseline"
    credit_options: dict[str, Any] = {}
    loss: Literal["policy_gradient"] = "policy_gradient"
    normalization: Literal["token", "sequence"] = "token"
    importance_cap: Rate | None = None
    """truncation of importance weights (TIS); None takes the sampled tokens as on-policy"""
    max_grad_norm: Rate = 1.0
    batch_tokens: Positive = 8192
    """tokens of one micro-batch, padding included"""
    max_skipped: Positive = 5
    """updates in a row with a non-finite loss or gradient before the job fails"""
    max_failed: Annotated[float, Field(ge=0, le=1)] = 0.5
    """share of failed episodes in one update above which the job fails"""


class EvaluateSection(_Section):
    every: Positive = 10
    episodes: Positive = 256
    against: list[str] = []
    """agents that take the other seats: `random`, `equilibrium`, or one of `[agents]`"""
    exploitability: bool = False
    """exact exploitability at every update; the env must give its game tree"""


class CheckpointSection(_Section):
    every: Positive = 50
    keep_last: Positive = 2
    transcripts: Positive = 16
    """episodes of each update that are written out in full"""


class DataSection(_Section):
    """Where supervised examples come from: episodes that the cast plays, every answer learned."""

    episodes: Positive = 4000


class FitSection(_Section):
    steps: Positive = 400
    learning_rate: Rate = 3e-3
    batch_tokens: Positive = 8192
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.05


class _Experiment(_Section):
    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    model: str = "tiny"
    """`tiny`, a Hugging Face folder or id; left out with `after`, it is what that job made"""
    modules: list[str] = []
    """modules to import first, for what they register"""
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


class RLExperiment(_Experiment):
    """A job that plays episodes and trains every policy of the cast from them."""

    job: Literal["rl"] = "rl"
    engine: Literal["auto", "vllm", "torch"] = "auto"
    policies: Annotated[dict[Name, LoraPolicy], Field(min_length=1)]
    train: TrainSection = TrainSection()
    evaluate: EvaluateSection = EvaluateSection()
    checkpoint: CheckpointSection = CheckpointSection()

    @model_validator(mode="after")
    def _names(self) -> RLExperiment:
        for name in self.policies:
            if name == "base" or name in self.agents:
                raise ValueError(f"policies.{name}: the name is taken; choose another")
        return self


class SFTExperiment(_Experiment):
    """A job that fine-tunes the model on what its cast plays, and leaves a new model."""

    job: Literal["sft"]
    data: DataSection = DataSection()
    fit: FitSection = FitSection()


Experiment = RLExperiment | SFTExperiment
_KINDS: dict[str, type[RLExperiment] | type[SFTExperiment]] = {
    "rl": RLExperiment,
    "sft": SFTExperiment,
}


def load_experiment(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment file; each override is `a.b=value`, the value as TOML or a bare word.

    Raises `ConfigError` with one line: the file, the key, the value, what is allowed.
    """
    path = Path(path)
    if not path.is_file():
        near = sorted(str(p) for p in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        hint = f"; there is {', '.join(near)}" if near else ""
        raise ConfigError(f"no experiment file {str(path)!r}{hint}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    for override in overrides:
        _override(table, override)
    return parse_experiment(table, str(path))


def parse_experiment(table: Mapping[str, Any], source: str = "experiment") -> Experiment:
    """An experiment from a table as TOML gives it; `source` names it in errors."""
    job = table.get("job", "rl")
    if not isinstance(job, str) or job not in _KINDS:
        raise ConfigError(
            f"{source}: unknown job {job!r}{_nearest(str(job), _KINDS)}; known: rl, sft"
        )
    try:
        return _KINDS[job].model_validate(dict(table))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error, table, _KINDS[job])}") from error


def dump_experiment(experiment: Experiment) -> str:
    """The resolved experiment as TOML, defaults in, keys without a value left out."""
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


def _override(table: dict[str, Any], text: str) -> None:
    key, equals, raw = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"--set {text!r} is not of the form key.subkey=value")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    *parents, leaf = (part.strip() for part in key.split("."))
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {text!r}: {parent!r} is a value, not a section")
    table[leaf] = value


def _explain(error: ValidationError, table: Mapping[str, Any], model: type[BaseModel]) -> str:
    """The first fault in one line, with the nearest key where one was misspelt."""
    faults = [(_written(fault, table), fault) for fault in error.errors()]
    path, first = faults[0]
    where = ".".join(path)
    here = [fault for found, fault in faults if found[: len(path)] == path]
    count = len({tuple(found[: len(path)]) for found, _ in faults}) - 1
    more = f" (and {count} more)" if count else ""
    if first["type"] == "extra_forbidden":
        allowed = _keys_at(model, first["loc"][:-1])
        key = str(first["loc"][-1])
        known = f"; known: {', '.join(allowed)}" if allowed else ""
        return f"unknown key {where!r}{_nearest(key, allowed)}{known}{more}"
    if first["type"] == "missing":
        return f"{where!r} is missing{more}"
    if first["type"] == "value_error":
        return f"{first['msg'].removeprefix('Value error, ')}{more}"
    # A union has a fault for each of its kinds, all at one place.
    said = dict.fromkeys(_message(fault) for fault in here)
    return f"{where} = {first['input']!r}: {', or '.join(said)}{more}"


def _message(fault: ErrorDetails) -> str:
    if fault["type"] == "missing" and isinstance(fault["loc"][-1], str):
        return f"a table with the key {fault['loc'][-1]!r}"
    return fault["msg"][0].lower() + fault["msg"][1:]


def _written(fault: ErrorDetails, table: Mapping[str, Any]) -> list[str]:
    """The part of a fault's path that is in the table, or missing in it, without pydantic's own
    names of a union's kinds.
    """
    found: list[str] = []
    node: Any = table
    for place, part in enumerate(fault["loc"]):
        keys = node if isinstance(node, Mapping) else range(len(node) if type(node) is list else 0)
        if part in keys:
            node = node[part]  # pyright: ignore[reportArgumentType, reportCallIssue]
        elif fault["type"] != "missing" or place < len(fault["loc"]) - 1:
            continue
        found.append(str(part))
    return found


def _keys_at(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """The keys of the section at `path` of a model, looked up in its JSON schema."""
    schema = TypeAdapter(model).json_schema()
    node: Mapping[str, Any] = schema
    for part in (*path, None):
        while "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
        if part is not None:
            inner = node.get("properties", {}).get(str(part))
            if inner is None:
                patterns = node.get("patternProperties", {}).values()
                inner = next(iter(patterns), node.get("additionalProperties"))
            if not isinstance(inner, Mapping):
                return []
            node = inner
    return list(node.get("properties", {}))


def _nearest(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
