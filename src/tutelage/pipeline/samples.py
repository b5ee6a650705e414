"""Stage `build`: kept trajectories of a model's data mix -> training samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from tutelage.errors import ConfigError
from tutelage.pipeline import parts
from tutelage.pipeline.rollouts import kept_trajectories
from tutelage.pipeline.stage import Stage, Tell, stage_id
from tutelage.recipe import DataSection, Recipe
from tutelage.run_dir import RunDir, write_json
from tutelage.selection.budget import match_budget
from tutelage.types import Trajectory


def build_stage(recipe: Recipe, name: str, run: RunDir) -> Stage:
    """Make the training samples of a model."""
    model = recipe.models[name]

    def act(tell: Tell) -> dict[str, Any]:
        from tutelage.pipeline.student_text import student_renderer
        from tutelage.store import RecordStore
        from tutelage.supervision.samples import SampleLedger, build_samples
        from tutelage.supervision.step_masks import STEP_MASKS

        chosen = [(part, choose(recipe, name, part, run)) for part in model.data]
        renderer = student_renderer(recipe, parts.start_folder(recipe, model.start, run))
        rule = parts.context_rule(recipe)
        store: RecordStore = RecordStore(run.samples_path(name), "training_sample")
        ledger = SampleLedger()
        sources: dict[str, dict[str, Any]] = {}
        total = sum(len(trajectories) for _, trajectories in chosen)
        for part, trajectories in chosen:
            mask = part.mask or model.mask
            shown, untold = parts.with_context(recipe, part, trajectories)
            for trajectory in shown:
                samples = build_samples(
                    trajectory, STEP_MASKS[mask](trajectory), renderer, rule, model.layout, ledger=ledger
                )
                for sample in samples:
                    store.append(sample)
                tell(ledger.num_trajectories, total, "trajectories")
            # Told and untold versions of the same episodes are the same episodes.
            sources[part.source] = sources.get(part.source, {}) | {
                "mask": mask,
                "trajectories": len(trajectories),
                **({"privileged": part.privileged.name, "untold": untold} if part.privileged else {}),
                "student_steps": sum(t.num_student_steps for t in trajectories),
                "expert_steps": sum(t.num_expert_steps for t in trajectories),
            }
        summary = {**ledger.to_json(), "sources": sources}
        write_json(run.sample_ledger_path(name), summary)
        if not ledger.num_samples:
            raise ConfigError(
                f"models.{name}: no sample has a trained token; the trajectories were refused for: {dict(ledger.refused)}. "
                f"The mask '{model.mask}' does not fit who acted in {', '.join(sources)}."
            )
        return summary

    rollouts = dict.fromkeys(
        one for part in model.data for one in (part.source, part.expert_steps) if isinstance(one, str)
    )
    return Stage(
        kind="build",
        name=name,
        needs=(*(stage_id("select", one) for one in rollouts), *parts.start_needs(recipe, model.start)),
        settings={
            "data": [parts.plain(part) for part in model.data],
            "mask": model.mask,
            "layout": model.layout,
            "context": parts.plain(recipe.student.context),
            "text": [recipe.student.instructions, recipe.student.action_format, recipe.student.enable_thinking],
            "start": parts.start_settings(recipe, model.start, run),
            "seed": recipe.seed,
        },
        outputs=(run.samples_path(name), run.sample_ledger_path(name)),
        resumes=False,
        act=act,
    )


def choose(recipe: Recipe, model: str, part: DataSection, run: RunDir) -> list[Trajectory]:
    """The kept trajectories that a part of a mix takes, in an order drawn from the seed and the source.

    Two models that take from one source take the same first ones.
    """
    kept = kept_trajectories(run, part.source)
    where = f"models.{model}: data from '{part.source}'"
    if not kept:
        raise ConfigError(f"{where}: every trajectory was dropped. See {run.ledger_path(part.source)} for the reasons.")
    order = np.random.default_rng(parts.seed_of(recipe, "data", part.source)).permutation(len(kept))
    shuffled = [kept[index] for index in order]
    if part.expert_steps is not None:
        budget = part.expert_steps
        if isinstance(budget, str):
            budget = sum(t.num_expert_steps for t in kept_trajectories(run, budget))
        try:
            return match_budget(shuffled, "expert_steps", budget, seed=None)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
    if part.count is None:
        return shuffled
    if part.count > len(kept):
        raise ConfigError(
            f"{where}: count {part.count}, but only {len(kept)} trajectories were kept. Raise the count of "
            f"rollouts.{part.source}.tasks, or take fewer; nothing is ever repeated. Reasons of the drops: {run.ledger_path(part.source)}"
        )
    return shuffled[: part.count]
