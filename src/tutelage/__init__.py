"""tutelage: train multi-turn LM agents with an expert in the loop.

    import tutelage as t

    recipe = t.load_recipe("household_oec", set=["seed=1"])
    run = t.run(recipe, out="runs/first")
    print(run.table())

Names are imported when they are first used, so that `import tutelage` costs nothing and needs no torch.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PLACES = {
    # whole runs
    "load_recipe": "recipe",
    "Recipe": "recipe",
    "run": "pipeline.run",
    "Run": "pipeline.run",
    # the stages one by one
    "load_tasks": "tasks.registry",
    "make_env": "envs.registry",
    "make_expert": "policies.registry",
    "check_env": "evaluation.env_check",
    "make_rule": "rollout.switch",
    "LocalPolicy": "policies.local",
    "taught_policy": "policies.student_file",
    "EndpointConfig": "policies.endpoint",
    "EndpointPolicy": "policies.endpoint",
    "load_renderer": "rendering.load",
    "student_from_package": "training.gguf_student",
    "run_episode": "rollout.episode",
    "make_jobs": "rollout.runner",
    "run_rollouts": "rollout.runner",
    "make_filter": "selection.filters",
    "select": "selection.ledger",
    "STEP_MASKS": "supervision.step_masks",
    "build_all_samples": "supervision.samples",
    "SFTConfig": "training.config",
    "train_sft": "training.sft",
    "footprints_of": "supervision.footprints",
    "weigh_steps": "supervision.step_credit",
    "RLConfig": "training.rl_config",
    "train_rl": "training.rl",
    "export": "formats.export",
    "evaluate": "evaluation.run",
    "compare": "evaluation.run",
    "write_report": "reports.html",
    # records
    "Actor": "types",
    "Task": "types",
    "Trajectory": "types",
    "TrainingSample": "types",
    "RecordStore": "store",
    "TutelageError": "errors",
}

__all__ = [
    "Actor",
    "EndpointConfig",
    "EndpointPolicy",
    "LocalPolicy",
    "RLConfig",
    "Recipe",
    "RecordStore",
    "Run",
    "SFTConfig",
    "STEP_MASKS",
    "Task",
    "TrainingSample",
    "Trajectory",
    "TutelageError",
    "build_all_samples",
    "check_env",
    "compare",
    "evaluate",
    "export",
    "footprints_of",
    "load_recipe",
    "load_renderer",
    "load_tasks",
    "make_env",
    "make_expert",
    "make_filter",
    "make_jobs",
    "make_rule",
    "run",
    "run_episode",
    "run_rollouts",
    "select",
    "student_from_package",
    "taught_policy",
    "train_rl",
    "train_sft",
    "weigh_steps",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'tutelage' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"tutelage.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


if TYPE_CHECKING:
    from tutelage.envs.registry import make_env
    from tutelage.errors import TutelageError
    from tutelage.evaluation.env_check import check_env
    from tutelage.evaluation.run import compare, evaluate
    from tutelage.formats.export import export
    from tutelage.pipeline.run import Run, run
    from tutelage.policies.endpoint import EndpointConfig, EndpointPolicy
    from tutelage.policies.local import LocalPolicy
    from tutelage.policies.registry import make_expert
    from tutelage.policies.student_file import taught_policy
    from tutelage.recipe import Recipe, load_recipe
    from tutelage.rendering.load import load_renderer
    from tutelage.reports.html import write_report
    from tutelage.rollout.episode import run_episode
    from tutelage.rollout.runner import make_jobs, run_rollouts
    from tutelage.rollout.switch import make_rule
    from tutelage.selection.filters import make_filter
    from tutelage.selection.ledger import select
    from tutelage.store import RecordStore
    from tutelage.supervision.footprints import footprints_of
    from tutelage.supervision.samples import build_all_samples
    from tutelage.supervision.step_credit import weigh_steps
    from tutelage.supervision.step_masks import STEP_MASKS
    from tutelage.tasks.registry import load_tasks
    from tutelage.training.config import SFTConfig
    from tutelage.training.gguf_student import student_from_package
    from tutelage.training.rl import train_rl
    from tutelage.training.rl_config import RLConfig
    from tutelage.training.sft import train_sft
    from tutelage.types import Actor, Task, TrainingSample, Trajectory
