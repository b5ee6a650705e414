"""Stage `rollout`: tasks -> trajectories. Stage `select`: trajectories -> verdicts and a ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tutelage.pipeline import parts
from tutelage.pipeline.endpoints import Endpoints, expert_identity
from tutelage.pipeline.stage import Stage, Tell, stage_id
from tutelage.recipe import Recipe
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.summary import latest_attempts
from tutelage.run_dir import RunDir, write_json
from tutelage.store import RecordStore, read_records
from tutelage.tasks.base import manifest_hash
from tutelage.types import Actor, Trajectory


def rollout_stage(recipe: Recipe, name: str, run: RunDir) -> Stage:
    """Play the tasks of a rollout. Resumes: episodes in the store are not played again."""
    section = recipe.rollouts[name]
    tasks = parts.task_set(recipe, section.tasks)
    seed = parts.seed_of(recipe, "rollout", name)
    expert = section.expert or recipe.expert
    temperature = recipe.student.temperature if section.temperature is None else section.temperature

    def act(tell: Tell) -> dict[str, Any]:
        with Endpoints(recipe, run) as endpoints:
            return play(tell, endpoints)

    def play(tell: Tell, endpoints: Endpoints) -> dict[str, Any]:
        policies = {}
        if expert is not None:
            policies[Actor.EXPERT] = parts.expert_policy(recipe, expert, endpoints)
        if section.student is not None:
            policies[Actor.STUDENT] = parts.student(
                recipe, section.student, run, endpoints, temperature=temperature, seed=seed
            )
        store: RecordStore = RecordStore(run.trajectories_path(name), "trajectory")
        summary = run_rollouts(
            make_jobs(tasks, seed=seed, samples_per_task=section.samples),
            policies=policies,
            rule=parts.switch_rule(section.switch),
            limits=parts.limits(recipe, policies),
            store=store,
            concurrency=section.concurrency,
            retries=section.retries,
            on_progress=lambda done, total: tell(done, total, "episodes"),
        )
        return {**collection_summary(summary.trajectories), "attempts": len(store)}

    return Stage(
        kind="rollout",
        name=name,
        needs=parts.start_needs(recipe, section.student) if section.student else (),
        settings={
            "rollout": {**parts.plain(section), "concurrency": None, "temperature": temperature},
            "env": parts.plain(recipe.env),
            "expert": expert_identity(recipe, expert) if expert else None,
            "student": parts.plain(recipe.student) if section.student else None,
            "start": parts.start_settings(recipe, section.student, run) if section.student else None,
            "limits": asdict(recipe.limits),
            "seed": seed,
            "manifest": manifest_hash(tasks),
        },
        outputs=(run.trajectories_path(name),),
        resumes=True,
        act=act,
    )


def collection_summary(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Counts of a collection, before any filter; of each episode the latest attempt."""
    switches = [t.switch_index for t in trajectories if t.switch_index is not None]
    return {
        "trajectories": len(trajectories),
        "stop_reasons": dict(sorted(Counter(t.stop_reason.value for t in trajectories).items())),
        "solved": sum(t.reward is not None and t.reward >= 1.0 for t in trajectories),
        "switched": len(switches),
        "k_zero": sum(index == 0 for index in switches),
        "mean_switch": sum(switches) / len(switches) if switches else None,
        "student_steps": sum(t.num_student_steps for t in trajectories),
        "expert_steps": sum(t.num_expert_steps for t in trajectories),
        "episode_seconds": round(sum(t.seconds for t in trajectories), 3),
    }


def played(run: RunDir, rollout: str) -> list[Trajectory]:
    """The trajectories of a rollout, of each episode the latest attempt, sorted by task."""
    return latest_attempts(read_records(run.trajectories_path(rollout), "trajectory"))


def select_stage(recipe: Recipe, name: str, run: RunDir) -> Stage:
    """Judge the trajectories of a rollout."""
    filters = parts.filters(recipe, recipe.rollouts[name])

    def act(tell: Tell) -> dict[str, Any]:
        from tutelage.selection.ledger import select

        trajectories = played(run, name)
        selection = select(trajectories, filters)
        store: RecordStore = RecordStore(run.verdicts_path(name), "verdict")
        for number, verdict in enumerate(selection.verdicts, start=1):
            store.append(verdict)
            tell(number, len(selection.verdicts), "verdicts")
        account = selection.ledger
        ledger = {
            "drawn": account.num_in,
            "kept": account.num_kept,
            "dropped": dict(account.dropped),
            "filters": list(account.filters),
            "k_zero": account.k_zero,
            "repetition_drops": dict(account.repetition_drops),
            "buckets": [asdict(one) for one in account.buckets],
        }
        write_json(run.ledger_path(name), ledger)
        kept = selection.kept
        return {
            "drawn": account.num_in,
            "kept": account.num_kept,
            "dropped": dict(account.dropped),
            "kept_student_steps": sum(t.num_student_steps for t in kept),
            "kept_expert_steps": sum(t.num_expert_steps for t in kept),
        }

    return Stage(
        kind="select",
        name=name,
        needs=(stage_id("rollout", name),),
        settings={"filters": [{"name": one.name, **asdict(one)} for one in filters]},
        outputs=(run.verdicts_path(name), run.ledger_path(name)),
        resumes=False,
        act=act,
    )


def kept_trajectories(run: RunDir, rollout: str) -> list[Trajectory]:
    """The trajectories of a rollout that every filter kept, sorted by task."""
    kept = {verdict.trajectory_id for verdict in read_records(run.verdicts_path(rollout), "verdict") if verdict.keep}
    return [one for one in played(run, rollout) if one.trajectory_id in kept]
