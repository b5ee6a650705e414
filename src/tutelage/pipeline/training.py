"""Stage `train`: training samples -> a model folder. Stage `new`: a new student, untrained or warmed up."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from typing import Any

from tutelage.pipeline import parts
from tutelage.pipeline.stage import Stage, Tell, stage_id
from tutelage.pipeline.student_text import student_text
from tutelage.recipe import Recipe
from tutelage.recipe_checks import START
from tutelage.run_dir import RunDir


def train_stage(recipe: Recipe, name: str, run: RunDir) -> Stage:
    """Train a model. Resumes from its last checkpoint, with the same result as an unbroken training."""
    model = recipe.models[name]
    config = recipe.train_of(name)
    config = replace(config, seed=parts.seed_of(recipe, "train", str(config.seed)), num_threads=config.num_threads or 1)
    augment = recipe.augment_of(name)

    def act(tell: Tell) -> dict[str, Any]:
        from tutelage.store import read_records
        from tutelage.training.sft import train_sft

        start = parts.start_folder(recipe, model.start, run)
        result = train_sft(
            start,
            read_records(run.samples_path(name), "training_sample"),
            config,
            run.model_dir(name),
            augmentation=parts.augmentation(augment, start),
            on_update=lambda update: tell(update.update_index + 1, update.num_updates, f"loss {update.loss:.3f}"),
        )
        student_text(recipe, start).write(run.model_dir(name))
        return {
            "updates": result.num_updates,
            "trained_tokens": result.trained_tokens,
            "total_tokens": result.total_tokens,
            "final_loss": result.final_loss,
            "training_seconds": round(result.seconds, 3),
        }

    return Stage(
        kind="train",
        name=name,
        needs=(stage_id("build", name), *parts.start_needs(recipe, model.start)),
        settings={
            "train": {key: value for key, value in asdict(config).items() if key != "checkpoint_every"},
            "augment": parts.plain(augment) if augment else None,
            "start": parts.start_settings(recipe, model.start, run),
        },
        outputs=(run.model_dir(name),),
        scratch=tuple(run.model_dir(name).with_name(f".{name}.{part}") for part in ("training", "new", "old")),
        resumes=True,
        act=act,
    )


def new_stage(recipe: Recipe, run: RunDir) -> Stage:
    """Make the student that everything starts from."""
    section = recipe.start
    assert not isinstance(section, str)
    env = recipe.env
    untrained = run.model_dir(START).with_name(f".{START}.untrained")

    def act(tell: Tell) -> dict[str, Any]:
        from transformers.utils.logging import disable_progress_bar

        from tutelage.training.pretrain import PretrainConfig, pretrain
        from tutelage.training.student_model import new_student
        from tutelage.training.word_vocab import vocabulary_of

        disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers' own, in the middle of ours
        vocabulary = vocabulary_of(env.name, tokens=section.tokens, num_tasks=section.vocabulary_tasks, **env.options)
        shape = section.model_dump(exclude={"name", "tokens", "vocabulary_tasks", "warm_up_tokens"})
        if not section.warm_up_tokens:
            new_student(run.model_dir(START), vocabulary=vocabulary, **shape)
            return {}
        new_student(untrained, vocabulary=vocabulary, **shape)
        config = PretrainConfig(
            num_tokens=section.warm_up_tokens, env=env.name, env_options=env.options, seed=section.seed
        )
        result = pretrain(
            untrained,
            run.model_dir(START),
            config,
            on_update=lambda one: tell(
                int(one["num_tokens"]), max(section.warm_up_tokens, int(one["num_tokens"])), f"loss {one['loss']:.3f}"
            ),
        )
        shutil.rmtree(untrained)
        return {"warm_up_tokens": result.num_tokens, "warm_up_loss": result.loss, "seconds": round(result.seconds, 3)}

    return Stage(
        kind="new",
        name=START,
        needs=(),
        settings={**parts.plain(section), "env": parts.plain(env)},
        outputs=(run.model_dir(START),),
        scratch=(untrained,),
        resumes=False,
        act=act,
    )
