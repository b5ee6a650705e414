from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tutelage.envs.registry import make_env
from tutelage.envs.shop.env import catalogue_of, task_hash
from tutelage.envs.shop.goals import Goal
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import check_disjoint, manifest_hash
from tutelage.tasks.registry import load_tasks, make_task_set
from tutelage.tasks.shop import ShopTasks
from tutelage.types import Split, Task

FILES = Path(__file__).parents[1] / "fixtures" / "shop"


def targets(tasks: list[Task]) -> list[str]:
    return [task.settings["goal"]["item_id"] for task in tasks]


def test_a_task_says_everything_about_its_shop_and_goal() -> None:
    task = ShopTasks(num_products=50).load("test", start=3, count=1)[0]
    goal = Goal.from_json(task.settings["goal"])
    assert task == Task(
        task_id="shop-n50-s0-title-test-000003",
        env="shop",
        goal=goal.instruction,
        split=Split.TEST,
        kind=catalogue_of(task.settings)[goal.item_id].category,
        settings={
            "catalogue_seed": 0,
            "num_products": 50,
            "goal": goal.to_json(),
            "content_hash": task_hash(catalogue_of(task.settings), goal),
            "max_steps": 15,
        },
    )
    assert json.loads(json.dumps(task.settings)) == task.settings


def test_splits_are_disjoint_by_target_and_by_content() -> None:
    tasks = ShopTasks()
    panels = {split: tasks.load(split, 0, 10_000) for split in Split}
    assert {split: len(panel) for split, panel in panels.items()} == {
        Split.TRAIN: 4429, Split.VALIDATION: 1109, Split.TEST: 1867,
    }  # fmt: skip
    products = {split: set(targets(panel)) for split, panel in panels.items()}
    assert {split: len(found) for split, found in products.items()} == {
        Split.TRAIN: 600, Split.VALIDATION: 150, Split.TEST: 250,
    }  # fmt: skip
    assert not products[Split.TRAIN] & products[Split.TEST]
    assert not products[Split.TRAIN] & products[Split.VALIDATION]
    assert not products[Split.VALIDATION] & products[Split.TEST]
    check_disjoint(*panels.values())
    assert len({task.settings["content_hash"] for panel in panels.values() for task in panel}) == 4429 + 1109 + 1867
    # Goals go round the targets, so the first 600 ask for 600 different products.
    assert len(set(targets(panels[Split.TRAIN][:600]))) == 600
    assert max(Counter(targets(panels[Split.TRAIN])).values()) == 8
    assert tasks.report() == "1000 products; goals: 4429 train, 1109 validation, 1867 test"


def test_panels_are_made_once_from_one_seed() -> None:
    assert manifest_hash(ShopTasks().load("test", 0, 40)) == (
        "1df5485949c015f92c83c66b826d9171378edc22e1bb07955e08e06469409d38"
    )
    assert ShopTasks().load("train", 3, 4) == ShopTasks().load("train", 0, 8)[3:7]
    assert len(ShopTasks().load("train")) == 120
    other = ShopTasks(seed=1).load("test", 0, 40)
    assert {task.goal for task in other}.isdisjoint(task.goal for task in ShopTasks().load("test", 0, 40))


def test_options_go_into_the_settings_only_where_they_differ() -> None:
    made = ShopTasks(
        num_products=50, page_size=4, strict_search=False, show_chosen=True, show_attributes=True, max_steps=30
    )
    settings = made.load("train", 0, 1)[0].settings
    assert {name: settings[name] for name in settings if name not in ("goal", "content_hash")} == {
        "catalogue_seed": 0, "num_products": 50, "page_size": 4, "strict_search": False, "show_chosen": True,
        "show_attributes": True, "max_steps": 30,
    }  # fmt: skip


def test_goals_may_ask_for_what_only_the_features_tell() -> None:
    for task in ShopTasks(num_products=100, goals="any").load("train", 0, 50):
        item = catalogue_of(task.settings)[task.settings["goal"]["item_id"]]
        assert any(attribute not in item.title for attribute in task.settings["goal"]["attributes"])
    assert task.task_id == "shop-n100-s0-any-train-000049"


def test_goals_of_people_from_the_originals_files() -> None:
    tasks = ShopTasks(source="files", root=FILES)
    panels = {split: tasks.load(split) for split in (Split.TRAIN, Split.TEST)}
    assert sorted(targets(panels[Split.TRAIN]) + targets(panels[Split.TEST])) == [
        "B0TEST0001", "B0TEST0002", "B0TEST0004",
    ]  # fmt: skip
    by_target = {task.settings["goal"]["item_id"]: task for panel in panels.values() for task in panel}
    jacket = by_target["B0TEST0001"]
    # The next four multiples of ten above the price end at 990: too dear for a bound.
    assert jacket.goal == "i need a quilted rain jacket for women in red, size x-large"
    assert jacket.settings["goal"] == {
        "item_id": "B0TEST0001",
        "instruction": jacket.goal,
        "attributes": ["machine wash"],
        "options": ["red", "x-large"],
        "price_upper": 1000000.0,
    }
    assert by_target["B0TEST0004"].settings["goal"]["options"] == ["white"]
    kettle = by_target["B0TEST0002"]
    assert kettle.goal.startswith("looking for a steel tea kettle that is easy to clean, and price lower than ")
    assert 40.0 <= kettle.settings["goal"]["price_upper"] <= 60.0
    assert kettle.task_id == f"shop-files-s0-human-{kettle.split.value}-000000"
    assert make_env(kettle).reset(0).text.split(" [SEP] ")[2] == kettle.goal
    with pytest.raises(FormatError, match="no goal of split 'validation'; there are 2 of train, 1 of test"):
        tasks.load("validation")


def test_synthetic_goals_from_the_originals_files_ask_for_every_choice_of_options() -> None:
    tasks = ShopTasks(source="files", root=FILES, goals="synthetic", max_steps=20)
    found = [task for split in (Split.TRAIN, Split.VALIDATION) for task in tasks.load(split)]
    assert Counter(targets(found)) == {"B0TEST0001": 4, "B0TEST0003": 1}
    assert {task.goal for task in found if task.settings["goal"]["item_id"] == "B0TEST0001"} == {
        f"Find me machine wash, quilted women's jackets with color: {color}, and size: {size}"
        for color in ("navy | white", "red")
        for size in ("small", "x-large")
    }
    candle = next(task for task in found if task.settings["goal"]["item_id"] == "B0TEST0003")
    assert candle.goal.startswith("Find me long lasting candles with scent name: pine, and price lower than 1")


def test_the_root_of_files_may_differ_between_machines(tmp_path: Path) -> None:
    elsewhere = tmp_path / "copy"
    elsewhere.mkdir()
    for path in FILES.iterdir():
        os.link(path, elsewhere / path.name) if path.stat().st_dev == elsewhere.stat().st_dev else (
            elsewhere / path.name
        ).write_bytes(path.read_bytes())
    here, there = (ShopTasks(source="files", root=root).load("train") for root in (FILES, elsewhere))
    assert manifest_hash(here) == manifest_hash(there)
    assert [task.settings["content_hash"] for task in here] == [task.settings["content_hash"] for task in there]


def test_wrong_options_say_what_to_do() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'files'"):
        ShopTasks(source="file")
    with pytest.raises(ConfigError, match=r"source 'files' with root None"):
        ShopTasks(source="files")
    with pytest.raises(ConfigError, match=r"goals of source 'generated': unknown 'human'"):
        ShopTasks(goals="human")
    with pytest.raises(ConfigError, match="page_size is 0"):
        ShopTasks(page_size=0)
    with pytest.raises(ConfigError, match="num_products is 0"):
        ShopTasks(num_products=0)
    with pytest.raises(ConfigError, match="num_products is 200000"):
        ShopTasks(num_products=200_000).load("train")
    with pytest.raises(ConfigError, match="start -1"):
        ShopTasks(num_products=20).load("train", start=-1)
    with pytest.raises(ConfigError, match="option"):
        make_task_set("shop", pages=3)
    assert load_tasks("shop", "train", 0, 1, num_products=20)[0].env == "shop"
