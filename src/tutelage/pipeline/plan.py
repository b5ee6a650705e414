"""Which stages a recipe needs, in an order in which each can be done."""

from __future__ import annotations

import graphlib

from tutelage.pipeline.audit import audit_stage
from tutelage.pipeline.evaluation import compare_stage, evaluate_stage, report_stage
from tutelage.pipeline.reinforce import reinforce_stage
from tutelage.pipeline.rollouts import rollout_stage, select_stage
from tutelage.pipeline.samples import build_stage
from tutelage.pipeline.stage import Stage
from tutelage.pipeline.training import new_stage, train_stage
from tutelage.recipe import Recipe
from tutelage.run_dir import RunDir

PRIORITY = ("new", "train", "build", "select", "rollout", "evaluate", "audit", "compare", "report")
"""Of the stages that could be done next, the first of these kinds is: others wait for it the longest."""


def plan(recipe: Recipe, run: RunDir) -> dict[str, Stage]:
    """All stages by id, each after the stages it needs."""
    stages = [rollout_stage(recipe, name, run) for name in recipe.rollouts]
    if not isinstance(recipe.start, str):
        stages.append(new_stage(recipe, run))
    stages += [select_stage(recipe, name, run) for name in recipe.rollouts]
    for name in recipe.models:
        if recipe.models[name].rl is not None:
            stages.append(reinforce_stage(recipe, name, run))
        else:
            stages += [build_stage(recipe, name, run), train_stage(recipe, name, run)]
    stages += [evaluate_stage(recipe, arm, run) for arm in recipe.evaluated]
    stages += [audit_stage(recipe, arm, run) for arm in (recipe.audit.arms if recipe.audit is not None else ())]
    if recipe.evaluate is not None and recipe.evaluate.baseline is not None:
        stages.append(compare_stage(recipe, run))
    stages.append(report_stage(recipe, run))
    by_id = {stage.id: stage for stage in stages}
    sorter = graphlib.TopologicalSorter({stage.id: stage.needs for stage in stages})
    sorter.prepare()
    order: list[str] = []
    ready: list[str] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        # Position in the recipe breaks ties, so that the order never depends on the hash of a name.
        ready.sort(key=lambda one: (PRIORITY.index(by_id[one].kind), list(by_id).index(one)))
        following = ready.pop(0)
        order.append(following)
        sorter.done(following)
    return {one: by_id[one] for one in order}
