"""The endpoints of a recipe: by name to configs, and to policies and scorers while a stage is at work.

A recipe refers to ``endpoints: {NAME: {...}}`` as ``endpoint:NAME`` for a player or a teacher, and as
``{name: endpoint, endpoint: NAME}`` for an expert.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tutelage.errors import ConfigError
from tutelage.pipeline.student_text import env_format, student_format, student_renderer
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.ledger import EndpointUsage, usage_by_endpoint
from tutelage.recipe import Named, Recipe, TeacherSection
from tutelage.recipe_file import build_named, check_options
from tutelage.rendering.context import CONTEXT_RULES, ContextRule
from tutelage.run_dir import RunDir
from tutelage.supervision.divergence import DIVERGENCES
from tutelage.training.rl_config import DISTILL_LOSS_OPTIONS

EXPERT_NAME: Final = "endpoint"
"""Name of an expert behind an endpoint in recipes."""

SAMPLED_LOSSES: Final = ("k1_pg", "k1_direct", "k3")
"""Losses for which log-probabilities of the sampled ids are enough."""

FOLDER: Final = "endpoints"
"""In a run directory: the ledgers."""


def check_endpoint_expert(recipe: Recipe, named: Named, where: str, key: str = "expert") -> None:
    """Raise ConfigError unless ``{name: endpoint, endpoint: NAME, ...}`` names an endpoint and knows its options."""
    check_options(where, key, named.options, _expert_options)
    name = named.options.get("endpoint")
    if not isinstance(name, str):
        raise ConfigError(f"{where}: {key} is an endpoint, but does not say which. Write endpoint: NAME beside it.")
    config = endpoint_config(recipe, name, where, f"{key}.endpoint")
    _check_player(recipe, config, where, key)
    _context_of(named, where, key)


def check_endpoint_player(recipe: Recipe, name: str, where: str, key: str) -> None:
    """Raise ConfigError unless the endpoint is there and can act."""
    _check_player(recipe, endpoint_config(recipe, name, where, key), where, key)


def check_endpoint_teacher(
    recipe: Recipe, name: str, teacher: TeacherSection, temperature: float, where: str, key: str
) -> None:
    """Raise ConfigError unless the endpoint is there, scores prompts, and gives what the divergence needs."""
    from tutelage.policies.endpoint.scorer import SCORING_SERVERS, TOPK_SERVERS

    config = endpoint_config(recipe, name, where, key)
    if config.server not in SCORING_SERVERS or config.tokenizer is None:
        raise ConfigError(
            f"{where}: {key}: endpoint '{name}' has server '{config.server}' and tokenizer {config.tokenizer!r}; a teacher "
            f"needs a server that gives log-probabilities of prompts ({', '.join(SCORING_SERVERS)}) and the folder of its "
            "tokenizer."
        )
    gives = ("sampled", "topk") if config.server in TOPK_SERVERS else ("sampled",)
    can = [one for one, needs in DIVERGENCES.items() if needs.teacher in gives]
    for what, chosen, known, possible in (
        ("divergence", teacher.divergence.name, tuple(DIVERGENCES), can),
        ("loss", teacher.loss.name, tuple(DISTILL_LOSS_OPTIONS), SAMPLED_LOSSES),
    ):
        if chosen in known and chosen not in possible:
            raise ConfigError(
                f"{where}: {key}.{what}: endpoint '{name}' gives log-probabilities of {' and '.join(gives)} ids only, which "
                f"are not enough for '{chosen}'. Choose one of: {', '.join(possible)}."
            )
    if temperature != 1.0:
        raise ConfigError(
            f"{where}: {key}: endpoint '{name}' scores at temperature 1, the rollouts have {temperature:g}. Set "
            "rl.temperature: 1.0, so that both are of the same distribution."
        )


def endpoint_config(recipe: Recipe, name: str, where: str = "recipe", key: str = "endpoint") -> EndpointConfig:
    """The section of that name, its name filled in. Raises ConfigError where there is none."""
    if name not in recipe.endpoints:
        if not recipe.endpoints:
            raise ConfigError(f"{where}: {key}: no endpoint '{name}'; this recipe has no section endpoints.")
        raise ConfigError.unknown(f"{where}: {key}, endpoint", name, recipe.endpoints)
    return recipe.endpoint(name)


class Endpoints:
    """The clients of a run in this process. Use as a context manager: at its end no thread and no connection is left."""

    def __init__(self, recipe: Recipe, run: RunDir) -> None:
        self.recipe = recipe
        self.folder = run.root / FOLDER
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> Endpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def client(self, name: str) -> Any:
        """One client for all who use an endpoint, so that its limits hold for all together."""
        from tutelage.policies.endpoint.client import EndpointClient

        if name not in self._clients:
            self._clients[name] = EndpointClient(endpoint_config(self.recipe, name), folder=self.folder)
        return self._clients[name]

    def player(self, name: str, *, context_rule: ContextRule, temperature: float, seed: int) -> Any:
        """An endpoint as a student: it reads and writes as the recipe's student does. Ids that its server gives are kept."""
        from tutelage.policies.endpoint.policy import EndpointPolicy
        from tutelage.policies.endpoint.tokenizer import tokenizer_folder

        config = endpoint_config(self.recipe, name)
        return EndpointPolicy(
            config,
            renderer=None if config.tokenizer is None else student_renderer(self.recipe, tokenizer_folder(config)),
            action_format=None if config.style == "native" else student_format(self.recipe),
            env_format=env_format(self.recipe),
            name=f"endpoint:{name}",
            client=self.client(name),
            context_rule=context_rule,
            temperature=temperature,
            seed=seed,
        )

    def expert(self, named: Named, *, seed: int) -> Any:
        """An endpoint as the expert. Its ids are of its own vocabulary, so the student's renderer encodes its texts."""
        from tutelage.policies.endpoint.policy import EndpointPolicy

        name = named.options["endpoint"]
        return EndpointPolicy(
            endpoint_config(self.recipe, name),
            name=f"endpoint:{name}",
            client=self.client(name),
            context_rule=_context_of(named, "recipe", "expert"),
            announce=named.options.get("announce"),
            keep_token_ids=False,
            env_format=env_format(self.recipe),
            seed=seed,
        )

    def scorer(self, name: str) -> Any:
        """An endpoint as a teacher, after it has found its own log-probabilities again where it can be asked."""
        from tutelage.policies.endpoint.scorer import TOPK_SERVERS, EndpointScorer

        config = endpoint_config(self.recipe, name)
        scorer = EndpointScorer(config, client=self.client(name), name=f"endpoint:{name}")
        if config.server in TOPK_SERVERS:
            scorer.self_score()
        return scorer


def expert_identity(recipe: Recipe, named: Named) -> dict[str, Any]:
    """What decides an expert's answers: its section, and for an endpoint the endpoint's."""
    plain = named.model_dump(mode="json")
    if named.name != EXPERT_NAME:
        return plain
    return {**plain, "config": endpoint_config(recipe, named.options["endpoint"]).identity}


def run_usage(root: str | Path) -> dict[str, EndpointUsage]:
    """The account of each endpoint of a run directory."""
    return usage_by_endpoint(Path(root) / FOLDER)


def _expert_options(*, endpoint: str, context: Any = None, announce: str | None = None) -> None:
    """The options of an expert behind an endpoint, by its signature."""


def _context_of(named: Named, where: str, key: str) -> ContextRule:
    section = Named.model_validate(named.options.get("context") or {"name": "full"})
    rule: ContextRule = build_named(where, f"{key}.context", section.name, section.options, CONTEXT_RULES)
    return rule


def _check_player(recipe: Recipe, config: EndpointConfig, where: str, key: str) -> None:
    from tutelage.policies.endpoint.policy import format_of

    if config.action_format is not None:
        format_of(config, env_format(recipe))
    if config.api == "completions" and config.tokenizer is None:
        raise ConfigError(
            f"{where}: {key}: endpoint '{config.name}' acts by api 'completions', which needs the folder of its tokenizer: "
            "tokenizer: models/NAME."
        )
