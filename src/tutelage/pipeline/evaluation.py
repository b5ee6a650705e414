"""Stages `evaluate` (a model on the panel), `compare` (the arms with the baseline) and `report` (the page)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tutelage.pipeline import parts
from tutelage.pipeline.endpoints import Endpoints, expert_identity
from tutelage.pipeline.stage import Stage, Tell, stage_id
from tutelage.policies.base import Policy
from tutelage.recipe import Recipe
from tutelage.recipe_checks import EXPERT
from tutelage.run_dir import RunDir, read_json, write_json
from tutelage.tasks.base import manifest_hash
from tutelage.types import Actor


def evaluate_stage(recipe: Recipe, arm: str, run: RunDir) -> Stage:
    """Measure an arm on the panel. Resumes: episodes in the store are not played again."""
    section = recipe.evaluate
    assert section is not None
    tasks = parts.task_set(recipe, section.tasks)
    seed = parts.seed_of(recipe, "evaluate")

    def act(tell: Tell) -> dict[str, Any]:
        with Endpoints(recipe, run) as endpoints:
            return play(tell, parts.arm_policy(recipe, arm, run, endpoints))

    def play(tell: Tell, policy: Policy) -> dict[str, Any]:
        from tutelage.evaluation.run import evaluate
        from tutelage.store import RecordStore

        role = Actor.EXPERT if arm == EXPERT else Actor.STUDENT
        store: RecordStore = RecordStore(run.evaluation_trajectories_path(arm), "trajectory")
        result, _ = evaluate(
            policy,
            tasks,
            role=role,
            name=arm,
            limits=parts.limits(recipe, {role}),
            samples_per_task=section.samples,
            seed=seed,
            concurrency=section.concurrency,
            store=store,
            on_progress=lambda done, total: tell(done, total, "episodes"),
        )
        write_json(run.result_path(arm), result.to_json())
        return {
            "tasks": result.num_tasks,
            "solved": result.overall.num_solved,
            "stop_reasons": dict(result.stop_reasons),
        }

    return Stage(
        kind="evaluate",
        name=arm,
        needs=parts.start_needs(recipe, arm),
        settings={
            "evaluate": {"temperature": section.temperature, "samples": section.samples},
            "env": parts.plain(recipe.env),
            "tasks": parts.plain(section.tasks),
            "manifest": manifest_hash(tasks),
            "student": parts.plain(recipe.student) if arm != EXPERT else None,
            "expert": expert_identity(recipe, recipe.expert) if arm == EXPERT and recipe.expert else None,
            "start": parts.start_settings(recipe, arm, run) if arm != EXPERT else None,
            "limits": asdict(recipe.limits),
            "seed": seed,
        },
        outputs=(run.evaluation_dir(arm),),
        resumes=True,
        act=act,
    )


def compare_stage(recipe: Recipe, run: RunDir) -> Stage:
    """Every arm against the baseline, on the same tasks."""
    assert recipe.evaluate is not None
    baseline = recipe.evaluate.baseline
    assert baseline is not None
    others = [arm for arm in recipe.evaluated if arm != baseline]

    def act(tell: Tell) -> dict[str, Any]:
        from tutelage.evaluation.run import EvaluationResult, compare

        results = {arm: EvaluationResult.from_json(read_json(run.result_path(arm))) for arm in recipe.evaluated}
        comparisons = [compare(results[baseline], results[arm], seed=recipe.seed) for arm in others]
        tell(len(others), len(others), "comparisons")
        data = {"baseline": baseline, "comparisons": [asdict(one) for one in comparisons]}
        write_json(run.comparison_path, data)
        return {}

    return Stage(
        kind="compare",
        name="",
        needs=tuple(stage_id("evaluate", arm) for arm in recipe.evaluated),
        settings={"baseline": baseline, "seed": recipe.seed, "arms": recipe.evaluated},
        outputs=(run.comparison_path,),
        resumes=False,
        act=act,
    )


def report_stage(recipe: Recipe, run: RunDir) -> Stage:
    """The page with everything in it. It needs all that the recipe makes."""
    needs = [stage_id("select", name) for name in recipe.rollouts]
    needs += [stage_id("train", name) for name in recipe.models]
    needs += [stage_id("evaluate", arm) for arm in recipe.evaluated]
    needs += [stage_id("audit", arm) for arm in (recipe.audit.arms if recipe.audit is not None else ())]
    if recipe.evaluate is not None and recipe.evaluate.baseline is not None:
        needs.append(stage_id("compare"))

    def act(tell: Tell) -> dict[str, Any]:
        from tutelage.reports.html import write_report

        write_report(run.root)
        tell(1, 1, "page")
        return {}

    return Stage(
        kind="report",
        name="",
        needs=tuple(needs),
        settings={"report": parts.plain(recipe.report), "name": recipe.name},
        outputs=(run.report_path,),
        resumes=False,
        act=act,
    )
