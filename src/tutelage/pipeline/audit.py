"""Stage `audit`: the episodes of an evaluated arm -> does credit per step agree with what happens when a step is taken away?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tutelage.pipeline import parts
from tutelage.pipeline.stage import Stage, Tell, stage_id
from tutelage.recipe import Recipe
from tutelage.rollout.summary import latest_attempts
from tutelage.run_dir import RunDir, write_json
from tutelage.store import read_records


def audit_stage(recipe: Recipe, arm: str, run: RunDir) -> Stage:
    """Replay the episodes of an arm without each of their steps, and compare every signal with what was lost."""
    section = recipe.audit
    assert section is not None
    assert recipe.evaluate is not None
    tasks = parts.task_set(recipe, recipe.evaluate.tasks)

    def act(tell: Tell) -> dict[str, Any]:
        from tutelage.analysis.credit import score_cases
        from tutelage.analysis.credit_audit import run_audit
        from tutelage.analysis.credit_signals import default_signals
        from tutelage.analysis.credit_tables import make_tables
        from tutelage.reports.audit import Audit, write_audit

        trajectories = latest_attempts(read_records(run.evaluation_trajectories_path(arm), "trajectory"))
        result = run_audit(
            trajectories,
            {task.task_id: task for task in tasks},
            signals=section.signals or default_signals(recipe.env.name),
            seed=recipe.seed,
            on_progress=lambda done, total: tell(done, total, "episodes"),
        )
        found = Audit(
            title=f"Replay audit of {arm}",
            command=f"tutelage audit {run.root} {arm}",
            result=result,
            scores=score_cases(result.cases, seed=recipe.seed),
            tables=(),
            settings={"seed": recipe.seed},
        )
        if not found.scores.cases:
            # Too few or too short episodes: a run goes on, and the page says that there was nothing to compare.
            write_json(run.audit_dir(arm) / "audit.json", {"counts": found.counts, "tables": []})
            return {"kept": 0, "trajectories": len(trajectories), "best": None, "rho": None}
        tables = make_tables(found.scores)
        write_audit(run.audit_dir(arm), replace(found, tables=tables))
        best = max(tables[0].rows, key=lambda row: row.measures["rho"].estimate)
        return {
            "kept": len(found.scores.cases),
            "trajectories": len(trajectories),
            "best": best.signal,
            "rho": best.measures["rho"].estimate,
            "env_steps": result.num_env_steps,
        }

    return Stage(
        kind="audit",
        name=arm,
        needs=(stage_id("evaluate", arm),),
        settings={"signals": section.signals, "seed": recipe.seed},
        outputs=(run.audit_dir(arm),),
        resumes=False,
        act=act,
    )
