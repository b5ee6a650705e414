"""The Python API: ten lines for a whole run, and the same stages one by one."""

from __future__ import annotations

from pathlib import Path

import tutelage as t


def test_ten_lines(tmp_path: Path) -> None:
    recipe = t.load_recipe("smoke/household_oec", set=["seed=1", "student.start=builtin:household_tiny"])
    run = t.run(recipe, out=tmp_path / "run")
    print(run.table())
    print(run.report_path)
    assert set(run.states().values()) == {"done"}
    assert run.report_path.is_file()
    assert repr(run) == f"Run('{tmp_path / 'run'}', 17 of 17 stages done)"
    assert t.Run(tmp_path / "run").table() == run.table()


def test_stage_by_stage(tmp_path: Path) -> None:
    from tutelage.rendering.load import load_renderer
    from tutelage.selection.filters import HasExpertSteps, Solved
    from tutelage.students import student_path
    from tutelage.supervision.step_masks import expert_steps
    from tutelage.types import Actor

    start = student_path("builtin:household_tiny")
    tasks = t.load_tasks("household", "train", count=6, size="small", max_steps=20)
    policies = {t.Actor.STUDENT: t.LocalPolicy(start, temperature=1.0), t.Actor.EXPERT: t.make_expert("household")}
    rule = t.make_rule("uniform", low=0, high=4)
    played = t.run_rollouts(t.make_jobs(tasks, seed=0), policies=policies, rule=rule)
    kept = t.select(played.trajectories, [Solved(), HasExpertSteps()]).kept
    renderer = load_renderer(start)
    samples = [sample for one in kept for sample in t.build_samples(one, expert_steps(one), renderer)]
    trained = t.train_sft(start, samples, t.SFTConfig(budget=2, budget_unit="updates"), tmp_path / "model")
    panel = t.load_tasks("household", "test", count=6, max_steps=20)
    before, _ = t.evaluate(t.LocalPolicy(start, temperature=0.0), panel, name="before")
    after, _ = t.evaluate(t.LocalPolicy(trained.model_dir, temperature=0.0), panel, name="after")
    comparison = t.compare(before, after)

    assert len(kept) == len(samples) > 0
    assert trained.num_updates == 2
    assert (comparison.name_a, comparison.name_b, comparison.num_pairs) == ("before", "after", 6)
    assert Actor is t.Actor
