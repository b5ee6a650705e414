"""Recipes: overrides, misspelt keys, names that do not fit, and what the errors say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError
from tutelage.recipe import check_recipe, load_recipe
from tutelage.recipe_file import parse_override, recipe_names

MINIMAL = """
name: small
env: {name: household, size: small}
expert: {name: household, search: list}
rollouts:
  shown: {switch: {name: expert_only}, tasks: {split: train, count: 4}}
  mixed: {student: imitation, switch: {name: uniform, low: 0, high: 3}, tasks: {split: train, start: 4, count: 4}}
models:
  imitation: {start: start, data: [shown]}
  corrected: {start: imitation, data: [shown, {source: mixed, count: 2}], train: {learning_rate: 1e-3}}
evaluate: {tasks: {split: test, count: 3}, baseline: imitation}
"""


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(MINIMAL)
    return path


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_recipe(path, set=overrides)
    return str(caught.value)


def test_defaults_are_written_out(recipe_file: Path) -> None:
    recipe = load_recipe(recipe_file)
    assert recipe.evaluated == ["imitation", "corrected"]
    assert recipe.train.budget_unit == "epochs"
    assert recipe.train_of("imitation").learning_rate == 2e-3
    assert recipe.train_of("corrected").learning_rate == 1e-3
    assert recipe.models["imitation"].data[0].source == "shown"
    assert "micro_batch_tokens: 4096" in recipe.to_yaml()


def test_the_resolved_recipe_loads_as_the_same_recipe(recipe_file: Path, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file, set=["train.betas=[0.8, 0.9]", "evaluate.temperature=0.5"])
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(recipe.to_yaml())
    assert load_recipe(resolved) == recipe


def test_set_reads_values_as_yaml(recipe_file: Path) -> None:
    recipe = load_recipe(
        recipe_file,
        set=[
            "seed=7",
            "train.learning_rate=3e-4",
            "rollouts.mixed.switch={name: at_step, k: 2}",
            "models.corrected.data.1.count=1",
            "models.corrected.mask=all_steps",
            "evaluate.models=[corrected, imitation]",
        ],
    )
    assert recipe.seed == 7
    assert recipe.train.learning_rate == 3e-4
    assert recipe.rollouts["mixed"].switch.name == "at_step"
    assert recipe.rollouts["mixed"].switch.options == {"k": 2}
    assert recipe.models["corrected"].data[1].count == 1
    assert recipe.models["corrected"].mask == "all_steps"
    assert recipe.evaluated == ["corrected", "imitation"]


def test_set_takes_a_mapping(recipe_file: Path) -> None:
    assert load_recipe(recipe_file, set={"seed": 3, "evaluate.samples": 2}).evaluate.samples == 2  # type: ignore[union-attr]


def test_set_null_removes_an_entry(recipe_file: Path) -> None:
    recipe = load_recipe(recipe_file, set=["models.corrected=null", "rollouts.mixed=null"])
    assert list(recipe.models) == ["imitation"]
    assert list(recipe.rollouts) == ["shown"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "--set seed: expected KEY=VALUE"),
        ("seed=[", "--set seed=[: the value is not valid YAML"),
        ("models.corrected.data.5.count=1", "is a list of 2; '5' is not one of its positions 0 to 1"),
        ("name.first=x", "--set name.first: 'name' is 'small', a single value; it has no key 'first'."),
    ],
)
def test_a_broken_set_is_explained(recipe_file: Path, override: str, message: str) -> None:
    assert message in refusal(recipe_file, override)


@pytest.mark.parametrize(
    ("override", "key", "suggestion"),
    [
        ("evalute.samples=2", "evalute", "evaluate"),
        ("rollouts.mixed.swich={name: never}", "rollouts.mixed.swich", "rollouts.mixed.switch"),
        ("rollouts.mixed.switch.hihg=3", "rollouts.mixed.switch.hihg", "rollouts.mixed.switch.high"),
        ("models.corrected.data.1.cuont=2", "models.corrected.data.1.cuont", "models.corrected.data.1.count"),
        (
            "models.corrected.train.lerning_rate=1",
            "models.corrected.train.lerning_rate",
            "models.corrected.train.learning_rate",
        ),
        ("train.lerning_rate=1", "train.lerning_rate", "train.learning_rate"),
        ("limits.episode_second=1", "limits.episode_second", "limits.episode_seconds"),
        ("env.siez=real", "env.siez", "env.size"),
        ("evaluate.tasks.siez=real", "evaluate.tasks.siez", "evaluate.tasks.size"),
        ("student.context={name: last_steps, m: 2}", "student.context.m", None),
    ],
)
def test_an_unknown_key_is_named_in_full_with_a_suggestion(
    recipe_file: Path, override: str, key: str, suggestion: str | None
) -> None:
    message = refusal(recipe_file, override)
    assert message.startswith(f"{recipe_file}: unknown key '{key}'.")
    if suggestion is not None:
        assert f"Did you mean '{suggestion}'?" in message
    assert "Known in" in message or "Known at the top" in message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.name=houshold", "env.name: unknown 'houshold'. Did you mean 'household'?"),
        ("env.size=huge", "size"),
        ("rollouts.mixed.switch.name=unifrom", "Did you mean 'uniform'?"),
        ("rollouts.mixed.switch.low=9", "rollouts.mixed.switch: switch rule 'uniform': low, high is (9, 3)"),
        ("rollouts.mixed.student=imitaton", "rollouts.mixed.student: no 'imitaton' in this recipe. Did you mean 'imitation'?"),
        ("rollouts.mixed.student=null", "rollouts.mixed.student is missing: under the rule 'uniform' a student acts."),
        ("expert=null", "under the rule 'expert_only' an expert acts, but the recipe names none in 'expert'."),
        ("rollouts.mixed.tasks.split=tset", "rollouts.mixed.tasks.split: 'tset': input should be 'train', 'validation' or 'test'."),
        ("models.corrected.start=imitaton", "models.corrected.start: no 'imitaton' in this recipe. Did you mean 'imitation'?"),
        ("models.corrected.data.1.source=mixd", "models.corrected.data.1.source: no 'mixd' in this recipe. Did you mean 'mixed'?"),
        ("models.corrected.data=[shown, shown]", "models.corrected.data names a rollout twice (shown, shown)"),
        ("models.corrected.data=[]", "models.corrected: give data (rollouts to imitate) or rl"),
        ("models.corrected.mask=expert_step", "models.corrected.mask: unknown 'expert_step'. Did you mean 'expert_steps'?"),
        ("models.corrected.data.1.expert_steps=3", "give count or expert_steps, not both"),
        ("models.corrected.train.learning_rate=-1", "learning_rate is -1.0, expected more than 0"),
        ("models.start={start: start, data: [shown]}", "'start' is a reserved word"),
        ("models={a/b: {start: start, data: [shown]}}", "models.a/b: use letters, digits"),
        ("select={solvd: {}}", "Did you mean 'solved'?"),
        ("student.context={name: last_observations, n: 2}", "Write layout: per_step"),
        ("evaluate.baseline=imitaton", "evaluate.baseline: no 'imitaton' in this recipe. Did you mean 'imitation'?"),
        ("evaluate.models=[imitation, imitation]", "evaluate.models names an arm twice"),
        ("evaluate.tasks={split: train, start: 5, count: 3}", "rollouts.mixed.tasks and evaluate.tasks share tasks"),
        ("augment.name=renamed", "augment (of imitation): unknown 'renamed'"),
        ("models.imitation.start=corrected", "artefacts wait for each other: "),
        ("workers=0", "workers: 0: input should be greater than or equal to 1."),
        ("seed=many", "seed: 'many': input should be a valid integer"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_explained(recipe_file: Path, override: str, message: str) -> None:
    got = refusal(recipe_file, override)
    assert got.startswith(str(recipe_file))
    assert message in got


def test_two_rollouts_may_show_the_panel_of_another_size(recipe_file: Path) -> None:
    load_recipe(recipe_file, set=["evaluate.tasks={split: train, count: 3, size: real}"])


def test_a_broken_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nenv: {name: household\n")
    assert re.match(rf"{re.escape(str(path))}, line \d: not valid YAML: ", refusal(path))
    path.write_text("- 1\n")
    assert "holds list, expected a mapping of sections" in refusal(path)
    path.write_bytes(b"name: \xff\n")
    assert f"{path}: not UTF-8 text (byte 6)." in refusal(path)
    path.write_text("name: x\nname: y\nenv: {name: household}\n")
    assert "key 'name' stands twice (lines 1 and 2)" in refusal(path)
    path.write_text("name: x\n")
    assert refusal(path) == f"{path}: key 'env' is missing."


def test_an_unknown_recipe_is_suggested() -> None:
    assert "Did you mean 'household_oec'?" in refusal(Path("houshold_oec"))
    assert "no such recipe file" in refusal(Path("somewhere/x.yaml"))


def test_override_text() -> None:
    assert parse_override("a.b=c=d") == ("a.b", "c=d")
    assert parse_override("a={b: [1, 2]}") == ("a", {"b": [1, 2]})
    assert parse_override("a=") == ("a", None)


def test_plain_data_needs_no_file() -> None:
    data: dict[str, Any] = {"name": "x", "env": {"name": "household"}}
    assert check_recipe(data).evaluated == []


def test_packaged_recipes_have_names() -> None:
    assert "household_oec" in recipe_names()
    assert "smoke/household_oec" in recipe_names()
