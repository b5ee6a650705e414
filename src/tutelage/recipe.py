"""What a run does: one YAML file, checked by typed models before anything starts.

A recipe names artefacts that depend on each other (rollouts, models, evaluations). Out comes a frozen `Recipe`; a key that
does not exist, a name that is not defined and an impossible value are `ConfigError`s that tell the file and the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from tutelage.envs.registry import find_environment
from tutelage.errors import ConfigError
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.recipe_file import apply_override, check_keys, find_recipe, parse_override, read_yaml
from tutelage.rollout.episode import Limits
from tutelage.training.config import SFTConfig
from tutelage.training.rl_config import RLConfig
from tutelage.types import Split

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Names of artefacts become names of files."""


_SFT_CONFIG: TypeAdapter[SFTConfig] = TypeAdapter(SFTConfig)
ENDPOINT_PREFIX = "endpoint:"
"""Before the name of an endpoint where a recipe names a player or a teacher."""

_RL_CONFIG: TypeAdapter[RLConfig] = TypeAdapter(RLConfig)


class Section(BaseModel):
    """A part of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(Section):
    """Something chosen by name, with its own options beside it: ``{name: uniform, low: 0, high: 30}``."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class TasksSection(Section):
    """A stretch of a panel. Further keys override options of `env`, e.g. ``size: real``."""

    model_config = ConfigDict(extra="allow", frozen=True)

    split: Split
    start: int = Field(default=0, ge=0)
    """Index of the first task in the panel."""
    count: int | None = Field(default=None, ge=1)
    """None: the usual number of the environment, or all games of a folder."""

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class NewStudentSection(Section):
    """An untrained tiny student, made at the start of the run: ``{name: new, hidden: 32}``. See `new_student`.

    Its vocabulary is the environment's own, or that of the texts of some training tasks.
    """

    name: Literal["new"]
    tokens: Literal["words", "bpe"] = "words"
    """``words``: a token per word and role. ``bpe``: a byte-level BPE with chat turns, as pretrained models have."""
    hidden: int = Field(default=128, ge=1)
    layers: int = Field(default=4, ge=1)
    heads: int = Field(default=4, ge=1)
    seed: int = 0
    vocabulary_tasks: int = Field(default=300, ge=1)
    """Training tasks, from the first on, whose texts the words come from."""
    warm_up_tokens: int = Field(default=0, ge=0)
    """Tokens of random play that it is warmed up on before anything else. 0: it starts untrained."""


class StudentSection(Section):
    """The model that is trained, and how it acts in rollouts."""

    start: str | NewStudentSection = "auto"
    """Model folder, or ``builtin:`` and a checkpoint of the package, or ``{name: new}``. ``auto``: the checkpoint that
    comes for the environment, else a new student."""
    temperature: float = Field(default=0.4, ge=0.0)
    """0 is greedy."""
    max_action_tokens: int = Field(default=24, ge=1)
    max_context: int = Field(default=2048, ge=16)
    dtype: Literal["float32", "bfloat16", "native", "auto"] = "float32"
    """In which it computes when it acts. ``native``: bfloat16 where the hardware computes in it, else float32. ``auto``: as
    its weights are stored."""
    instructions: str = "auto"
    """What it is told before the first observation: ``none``, ``auto`` (the environment's own text for a chat model), or a
    text."""
    enable_thinking: bool | None = None
    """Told to a chat template that asks for it, e.g. Qwen3's. None: as the template does by itself."""
    action_format: str | None = None
    """How it writes actions: ``think_action``, ``functions``, ``tool_calls`` or ``json``. None: as the environment reads."""
    context: Named = Named(name="full")
    """How much of the transcript it sees, when acting and in training samples alike."""


class RolloutSection(Section):
    """Who acts, on which tasks, under which switch rule."""

    switch: Named
    tasks: TasksSection
    student: str | None = None
    """A model of this recipe, or ``start``. None: the expert acts from step 0."""
    expert: Named | None = None
    """None: the recipe's."""
    temperature: float | None = Field(default=None, ge=0.0)
    """None: as in `student`."""
    samples: int = Field(default=1, ge=1)
    """Episodes per task."""
    concurrency: int = Field(default=64, ge=1)
    """Episodes live at once; a student acts in all of them in one batch."""
    retries: int = Field(default=2, ge=0)
    """How often an episode is tried again after a failure of the machinery."""


class DataSection(Section):
    """Part of a model's data mix: kept trajectories of one rollout, in a seeded order."""

    source: str
    count: int | None = Field(default=None, ge=1)
    """Trajectories, after all filters. None: all. Too few kept is an error; nothing is ever repeated."""
    expert_steps: int | str | None = None
    """Budget instead of a count: a number of expert steps, or the name of the rollout whose kept expert steps to match."""
    mask: str | None = None
    """None: as in the model."""
    privileged: Named | None = None
    """Show the model these episodes with more in the context, e.g. ``{name: plan}``, so that it can teach itself later."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_budget(self) -> DataSection:
        if self.count is not None and self.expert_steps is not None:
            raise ValueError("give count or expert_steps, not both")
        return self


class TeacherSection(Section):
    """Who guides a model on its own episodes, at which steps, and how."""

    source: Literal["privileged", "model"] = "privileged"
    """The same model with more in its context, or another one."""
    context: Named | None = None
    """What the teacher is told and the student is not, e.g. ``{name: plan, source: shortest}``."""
    model: str | None = None
    """Another model of this recipe, a folder, or ``builtin:...``; for the source ``model``."""
    refresh: Literal["fixed", "current", "every_n", "ema"] = "fixed"
    """A privileged teacher's weights: those of the start; the student's own at each moment; a copy taken anew."""
    every_n: int = Field(default=10, ge=1)
    """Rounds between two copies, for ``every_n``."""
    tau: float = Field(default=0.9, ge=0.0, lt=1.0)
    """What a copy keeps of itself each round, for ``ema``."""
    step_weights: Named = Named(name="graphopd")
    """Which steps are taught: a name of `STEP_WEIGHTS`, with settings that differ, e.g. ``{name: graphopd, alpha: 0.2}``."""
    divergence: Named = Named(name="full_kl")
    """How far teacher and student are apart at a token."""
    loss: Named = Named(name="k1_pg")
    """How the teacher's opinion becomes a loss: a name of `DISTILL_LOSSES`."""
    too_long: Literal["error", "cut"] = "error"
    """Where the teacher's context does not hold an episode: stop, or leave its oldest steps out and count them."""
    prove: TasksSection | None = None
    """Tasks on which the privileged model must play better than the plain one before it teaches. None: not measured."""

    @model_validator(mode="after")
    def _fits_source(self) -> TeacherSection:
        if self.source == "model" and self.model is None:
            raise ValueError("source 'model' needs a model to be named")
        if self.source == "privileged" and (self.context is None or self.model is not None):
            raise ValueError("source 'privileged' needs a context, and no model")
        if self.prove is not None and self.context is None:
            raise ValueError("prove compares a model with and without privileged context; there is no context here")
        return self


class RLSection(Section):
    """How a model learns from its own episodes. Its other settings are in the recipe's `rl`."""

    tasks: TasksSection
    validation: TasksSection | None = None
    """Tasks of the learning curve. They are neither trained on nor the panel of the evaluation."""
    validation_temperature: float = Field(default=0.4, ge=0.0)
    """Of the curve's second line; the first is greedy."""
    teacher: TeacherSection | None = None
    """None: reward alone (GRPO)."""


class ModelSection(Section):
    """A student after training on a data mix, or after reinforcement learning."""

    start: str
    """Another model of this recipe, ``start`` (the student's), a folder, or ``builtin:...``."""
    data: list[DataSection] = Field(default=[])
    rl: RLSection | None = None
    """Reinforcement learning instead of a data mix."""
    mask: str = "expert_steps"
    """Whose steps learn: ``expert_steps``, ``student_steps`` or ``all_steps``."""
    layout: Literal["whole", "per_step"] = "whole"
    """One sample per trajectory, or one per trained step (needed where the context is shortened)."""
    train: dict[str, Any] = Field(default_factory=dict)
    """Keys of the recipe's `train` (with a data mix) or `rl` (without) that differ for this model."""
    augment: Named | None = None
    """None: as in the recipe. ``{name: none}``: no augmentation for this model."""

    @model_validator(mode="after")
    def _data_or_rl(self) -> ModelSection:
        if bool(self.data) == (self.rl is not None):
            raise ValueError("give data (rollouts to imitate) or rl (reinforcement learning), one of them")
        return self


class EvaluateSection(Section):
    """The fixed panel on which models are measured."""

    tasks: TasksSection
    models: list[str] = Field(default_factory=list)
    """In the order of the table. ``expert`` and ``start`` may stand among them. Empty: every model of the recipe."""
    baseline: str | None = None
    """The others are compared with it, task by task. None: no comparison."""
    temperature: float = Field(default=0.0, ge=0.0)
    samples: int = Field(default=1, ge=1)
    concurrency: int = Field(default=128, ge=1)


class AuditSection(Section):
    """Is credit per step right? The episodes of the evaluation, acted again without each of their steps."""

    arms: list[str] = Field(min_length=1)
    """Whose episodes: models of the evaluation."""
    signals: list[str] | None = None
    """Names of `SIGNALS`. None: the usual ones."""


class ReportSection(Section):
    """The page at the end."""

    title: str = ""


class Recipe(Section):
    """A whole run."""

    name: str = Field(pattern=NAME_PATTERN)
    description: str = ""
    seed: int = 0
    workers: int = Field(default=2, ge=1)
    """Stages that run side by side, each with one torch thread. 1: all in this process."""
    env: Named
    expert: Named | None = None
    student: StudentSection = StudentSection()
    endpoints: dict[str, EndpointConfig] = Field(default_factory=dict)
    """Models behind servers, by name. Elsewhere in the recipe: ``endpoint:NAME``."""
    limits: Limits = Limits()
    """Where an episode ends if the environment does not end it."""
    rollouts: dict[str, RolloutSection] = Field(default_factory=dict)
    select: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Filters by name, with their options. The same for every rollout, or arms could not be compared."""
    train: SFTConfig = SFTConfig()
    """Settings of training for all models. Its seed is mixed with the recipe's."""
    rl: RLConfig = RLConfig()
    """Settings of reinforcement learning for all models that learn by it. Its seed is mixed with the recipe's."""
    augment: Named | None = None
    """Change of a sample's token ids at each use, e.g. ``{name: object_renaming}``. None: as they are."""
    models: dict[str, ModelSection] = Field(default_factory=dict)
    evaluate: EvaluateSection | None = None
    audit: AuditSection | None = None
    """None: no replay audit."""
    report: ReportSection = ReportSection()

    @property
    def start(self) -> str | NewStudentSection:
        """What the student starts from, ``auto`` resolved."""
        if self.student.start != "auto":
            return self.student.start
        return find_environment(self.env.name, "env").student or NewStudentSection(name="new")

    @property
    def evaluated(self) -> list[str]:
        """Names of the arms of the evaluation, in order."""
        if self.evaluate is None:
            return []
        return self.evaluate.models or list(self.models)

    def train_of(self, model: str) -> SFTConfig:
        """Settings of training for one model: the recipe's, with the model's own in their place."""
        return _SFT_CONFIG.validate_python({**asdict(self.train), **self.models[model].train})

    def rl_of(self, model: str) -> RLConfig:
        """Settings of reinforcement learning for one model: the recipe's, with the model's own in their place."""
        return _RL_CONFIG.validate_python({**asdict(self.rl), **self.models[model].train})

    def endpoint(self, name: str) -> EndpointConfig:
        """The endpoint of that name, which it carries."""
        return replace(self.endpoints[name], name=name)

    def augment_of(self, model: str) -> Named | None:
        """The augmentation of one model. None: none."""
        chosen = self.models[model].augment or self.augment
        return None if chosen is None or chosen.name == "none" else chosen

    def to_yaml(self) -> str:
        """The resolved recipe, every default written out."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)


def load_recipe(recipe: str | Path, *, set: Iterable[str] | Mapping[str, Any] = ()) -> Recipe:
    """Read and check a recipe.

    recipe: a YAML file, or the name of a packaged recipe such as ``household_oec``.
    set: overrides, as ``["train.lr=1e-3", "models.corrected.mask=all_steps"]`` or as a mapping of dotted keys to values.
    `null` removes an entry, e.g. ``models.imitation_double=null``.
    """
    path = find_recipe(recipe)
    data = read_yaml(path)
    overrides = set.items() if isinstance(set, Mapping) else [parse_override(text) for text in set]
    for key, value in overrides:
        apply_override(data, key, value)
    return check_recipe(data, where=str(path))


def check_recipe(data: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """Plain data -> Recipe. where: the file, for messages."""
    cleaned = _without_removed(data)
    check_keys(Recipe, cleaned, where, prefix="")
    for name, model in (cleaned.get("models") or {}).items():
        if isinstance(model, dict) and isinstance(model.get("train"), dict):
            check_keys(
                RLConfig if model.get("rl") else SFTConfig, model["train"], where, prefix=f"models.{name}.train."
            )
    key = ""
    try:
        recipe = Recipe.model_validate(cleaned)
        for name in recipe.models:
            key = f"models.{name}.train."
            settings_of = recipe.rl_of if recipe.models[name].rl else recipe.train_of
            settings_of(name)
    except ValidationError as error:
        raise ConfigError(_describe(error, where, key)) from None
    from tutelage.recipe_checks import check_references

    check_references(recipe, where)
    return recipe


def _without_removed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of rollouts, select and models that are null or false are taken out; a filter that is true has no options."""
    cleaned = dict(data)
    for section in ("rollouts", "select", "models"):
        entries = cleaned.get(section)
        if isinstance(entries, dict):
            cleaned[section] = {
                name: entry for name, entry in entries.items() if entry is not None and entry is not False
            }
    if isinstance(cleaned.get("select"), dict):
        cleaned["select"] = {name: {} if options is True else options for name, options in cleaned["select"].items()}
    return {key: value for key, value in cleaned.items() if not (key == "evaluate" and value is False)}


def _describe(error: ValidationError, where: str, prefix: str = "") -> str:
    lines = []
    for item in error.errors():
        key = prefix + ".".join(str(part) for part in item["loc"])
        if item["type"] == "missing":
            lines.append(f"{where}: key '{key}' is missing.")
        else:
            message = item["msg"].removeprefix("Value error, ")
            got = "" if isinstance(item["input"], dict | list) else f" {item['input']!r}"
            lines.append(f"{where}: {key or 'recipe'}{':' if got else ''}{got}: {message[:1].lower()}{message[1:]}.")
    return "\n".join(lines)
