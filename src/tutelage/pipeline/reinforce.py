"""Stage `train` of a model that learns from its own episodes: a model folder and tasks -> a model folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutelage.errors import TeacherError
from tutelage.pipeline import parts
from tutelage.pipeline.endpoints import Endpoints
from tutelage.pipeline.stage import Stage, Tell
from tutelage.pipeline.student_text import student_text
from tutelage.policies.base import Scorer
from tutelage.recipe import ENDPOINT_PREFIX, Recipe, RLSection, TeacherSection
from tutelage.run_dir import RunDir
from tutelage.supervision.step_credit import step_weights
from tutelage.tasks.base import manifest_hash
from tutelage.types import Actor

if TYPE_CHECKING:
    from tutelage.policies.local import LocalPolicy
    from tutelage.training.rl_config import RLConfig
    from tutelage.training.rl_round import Play
    from tutelage.training.teacher_guide import TeacherGuide


def reinforce_stage(recipe: Recipe, name: str, run: RunDir) -> Stage:
    """Improve a model by its own episodes. Resumes with the round that was cut off."""
    model = recipe.models[name]
    section = model.rl
    assert section is not None
    config = recipe.rl_of(name)
    # Arms of one recipe meet the same tasks with the same draws, so they differ by what is taught alone.
    config = replace(config, seed=parts.seed_of(recipe, "rl", str(config.seed)), num_threads=config.num_threads or 1)
    tasks = parts.task_set(recipe, section.tasks)
    teacher = section.teacher

    def act(tell: Tell) -> dict[str, Any]:
        with Endpoints(recipe, run) as endpoints:
            return learn(tell, endpoints)

    def learn(tell: Tell, endpoints: Endpoints) -> dict[str, Any]:
        from tutelage.training.rl import train_rl
        from tutelage.training.rl_update import DistillTerm

        start = parts.start_folder(recipe, model.start, run)
        play = _play(recipe, name, start)
        proof = _prove(recipe, teacher, start, config, tell) if teacher is not None else {}
        guide = _guide(recipe, teacher, start, run, config, play, endpoints) if teacher is not None else None
        result = train_rl(
            start,
            tasks,
            config,
            run.model_dir(name),
            play=play,
            guide=guide,
            distill=DistillTerm.of(teacher.loss.name, **teacher.loss.options) if teacher is not None else None,
            evaluate=_curve(recipe, section),
            on_round=lambda one: tell(
                one.round_index + 1, one.num_rounds, f"success {100 * one.values['rollout/success']:.0f} %"
            ),
        )
        student_text(recipe, start).write(run.model_dir(name))
        told = {key: value for key, value in result.to_json().items() if key not in ("curve", "seconds", "num_rounds")}
        return {**told, "updates": told.pop("num_updates"), "training_seconds": result.seconds, **proof}

    needs = parts.start_needs(recipe, model.start)
    settings = {
        "rl": {key: value for key, value in asdict(config).items() if key not in ("num_threads", "keep_trajectories")},
        "section": parts.plain(section),
        "manifest": manifest_hash(tasks),
        "env": parts.plain(recipe.env),
        "student": parts.plain(recipe.student),
        "limits": asdict(recipe.limits),
        "layout": model.layout,
        "start": parts.start_settings(recipe, model.start, run),
    }
    if teacher is not None and teacher.model is not None:
        needs = (*needs, *parts.start_needs(recipe, teacher.model))
        settings["teacher"] = parts.start_settings(recipe, teacher.model, run)
    return Stage(
        kind="train",
        name=name,
        needs=tuple(dict.fromkeys(needs)),
        settings=settings,
        outputs=(run.model_dir(name),),
        scratch=tuple(run.model_dir(name).with_name(f".{name}.{part}") for part in ("training", "new", "old")),
        resumes=True,
        act=act,
    )


def _play(recipe: Recipe, name: str, start: Path) -> Play:
    from tutelage.pipeline.student_text import student_format, student_renderer
    from tutelage.training.rl_round import Play

    section = recipe.student
    return Play(
        limits=parts.limits(recipe, {Actor.STUDENT}),
        context_rule=parts.context_rule(recipe),
        layout=recipe.models[name].layout,
        max_action_tokens=section.max_action_tokens,
        max_context=section.max_context,
        renderer=student_renderer(recipe, start),
        action_format=student_format(recipe),
    )


def _guide(
    recipe: Recipe,
    teacher: TeacherSection,
    start: Path,
    run: RunDir,
    config: RLConfig,
    play: Play,
    endpoints: Endpoints,
) -> TeacherGuide:
    from tutelage.pipeline.student_text import student_renderer
    from tutelage.training.teacher_guide import GuideConfig, TeacherGuide

    divergence = teacher.divergence.options
    return TeacherGuide(
        GuideConfig(
            step_weights=step_weights(teacher.step_weights.name, **teacher.step_weights.options),
            divergence=teacher.divergence.name,
            direction=divergence.get("direction", "reverse"),
            k=divergence.get("k", 64),
            too_long=teacher.too_long,
            refresh=teacher.refresh,
            every_n=teacher.every_n,
            tau=teacher.tau,
            self_score_tolerance=0.05 if config.precision == "bfloat16" else 1e-3,
            seed=config.seed,
        ),
        student_renderer(recipe, start),
        teacher=_teacher(recipe, teacher.model, run, endpoints),
        context=None if teacher.context is None else parts.privileged_context(recipe, teacher.context),
        play=play,
        temperature=config.temperature,
        context_identity=None if teacher.context is None else parts.plain(teacher.context),
        micro_batch_tokens=config.micro_batch_tokens,
        row_layout=config.row_layout,
        dtype=config.precision,
    )


def _teacher(recipe: Recipe, model: str | None, run: RunDir, endpoints: Endpoints) -> Path | Scorer | None:
    if model is None:
        return None
    if model.startswith(ENDPOINT_PREFIX):
        scorer: Scorer = endpoints.scorer(model.removeprefix(ENDPOINT_PREFIX))
        return scorer
    return parts.start_folder(recipe, model, run)


def _prove(recipe: Recipe, teacher: TeacherSection, start: Path, config: RLConfig, tell: Tell) -> dict[str, Any]:
    """Play the tasks of `prove` with the plain and the privileged model.

    Raises:
        TeacherError: the privileged model solves no more of them, so it has nothing to teach.
    """
    if teacher.prove is None or teacher.context is None:
        return {}
    from tutelage.evaluation.privilege import compare_privileged

    policy = parts.policy_of(recipe, start, name="student", temperature=recipe.student.temperature, seed=config.seed)
    tasks = parts.task_set(recipe, teacher.prove)
    found = compare_privileged(
        policy,
        parts.privileged_context(recipe, teacher.context),
        tasks,
        limits=parts.limits(recipe, {Actor.STUDENT}),
        seed=config.seed,
        concurrency=config.concurrency,
    )
    tell(0, config.num_rounds, str(found))
    if not found.is_better:
        raise TeacherError(
            f"the privileged model is no better policy than the plain one: {found}. Train it on episodes with this "
            "context first (data: {source: ..., privileged: ...}), take another context, or leave `prove` out to use it "
            "all the same.",
            name=teacher.context.name,
        )
    plain, told = found.plain.overall, found.privileged.overall
    return {
        "proof": str(found),
        "plain_solved": plain.num_solved,
        "privileged_solved": told.num_solved,
        "proof_tasks": plain.num_tasks,
    }


def _curve(recipe: Recipe, section: RLSection) -> Callable[[LocalPolicy], Mapping[str, float]] | None:
    """Measures a policy on the validation tasks, greedy and sampled."""
    if section.validation is None:
        return None
    tasks = parts.task_set(recipe, section.validation)
    seed = parts.seed_of(recipe, "validation")
    temperatures = {"greedy": 0.0, "sampled": section.validation_temperature}

    def measure(policy: LocalPolicy) -> dict[str, float]:
        from tutelage.evaluation.run import evaluate

        values = {}
        for name, temperature in temperatures.items():
            result, _ = evaluate(
                policy.sampling(temperature=temperature, seed=seed),
                tasks,
                name=name,
                limits=parts.limits(recipe, {Actor.STUDENT}),
                seed=seed,
                concurrency=128,
            )
            values[name] = result.overall.success.estimate
        return values

    return measure
