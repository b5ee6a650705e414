"""The shop's expert: single decisions spelled out, panels played, pages that others left."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tutelage.envs.shop.env import FORMAT_HELP, ShopEnv
from tutelage.envs.shop.pages import SEARCH_TEMPLATE
from tutelage.envs.shop.reading import Page
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.shop import ShopExpert
from tutelage.policies.experts.shop_wish import NO_BOUND, Wish, price_of, read_wish
from tutelage.policies.registry import make_expert
from tutelage.tasks.shop import ShopTasks
from tutelage.types import Action, Actor, Observation, Step, Task

FILES = Path(__file__).parents[2] / "fixtures" / "shop"

WANT = "buy a slim fit jacket with color: red, and size: large, and price lower than 40.00 dollars"
HEAD = f"Instruction: [SEP] {WANT} [SEP] Back to Search"
START = f"WebShop [SEP] Instruction: [SEP] {WANT} [SEP] Search"
QUERY = "search[slim fit jacket red large]"


def results(*products: str, total: int | None = None, number: int = 1) -> str:
    """A results page of ``id title price`` with the price after the last blank."""
    listed = "".join(
        f" [SEP] {one.split()[0]} [SEP] {' '.join(one.split()[1:-1])} [SEP] {one.split()[-1]}" for one in products
    )
    prev = " [SEP] < Prev" if number > 1 else ""
    return f"{HEAD} [SEP] Page {number} (Total results: {total or len(products)}){prev} [SEP] Next >{listed}"


def item(title: str, price: str = "$30.0", options: str = "color [SEP] red [SEP] blue [SEP] size [SEP] large") -> str:
    groups = f" [SEP] {options}" if options else ""
    return (
        f"{HEAD} [SEP] < Prev{groups} [SEP] {title} [SEP] Price: {price} [SEP] Rating: N.A. [SEP] Description [SEP] "
        "Features [SEP] Reviews [SEP] Buy Now"
    )


FITS = "avelin slim fit jacket"


def asked(*texts: str) -> str:
    """What the expert does after [page, command, page, command, page ...]."""
    observation, steps = Observation.of(texts[0]), []
    for command, reply in zip(texts[1::2], texts[2::2], strict=True):
        steps.append(Step(observation=observation, action=Action.of(command), actor=Actor.STUDENT))
        observation = Observation.of(reply)
    so_far = PartialTrajectory(
        trajectory_id="t",
        task=Task(task_id="shop-test", env="shop", goal=""),
        steps=tuple(steps),
        observation=observation,
        seed=0,
    )
    command = ShopExpert().act(so_far).command
    assert command is not None
    return command


A, B = f"B1 {FITS} $30.0", "B2 borska slim fit jacket $35.0"
OPENED = (START, QUERY, results(A, B), "click[b1]")
OFF = "nothing that can be done"
RANGE = f"{HEAD} [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] B3 [SEP] x slim fit jacket [SEP] $35.0 to $42.0 [SEP] B1 [SEP] {FITS} [SEP] $30.0"
"""The dear end of a range counts."""


@pytest.mark.parametrize(
    ("why", "history", "command"),
    [
        ("search the goal's words and option values", [START], QUERY),
        ("open the one whose title fits", [START, QUERY, results("B3 borska casual jacket $9.0", A)], "click[b1]"),
        ("not if it is too dear", [START, QUERY, results("B3 x slim fit jacket $40.5", A)], "click[b1]"),
        ("nor if it may be", [START, QUERY, RANGE], "click[b1]"),
        ("look on where nothing is of the kind", [START, QUERY, results("B3 slim fit shirt $9.0", total=9)], "click[next >]"),
        ("search again where no more is to be seen", [START, QUERY, results("B3 slim fit shirt $9.0")], "click[back to search]"),
        ("with fewer words", [START, QUERY, results("B3 slim fit shirt $9.0"), "click[back to search]", START], "search[slim fit jacket]"),
        ("choose an option", [*OPENED, item(FITS)], "click[red]"),
        ("choose the next", [*OPENED, item(FITS), "click[red]", item(FITS)], "click[large]"),
        ("in any order", [*OPENED, item(FITS), "click[large]", item(FITS)], "click[red]"),
        ("mend a wrong one", [*OPENED, item(FITS), "click[blue]", item(FITS)], "click[red]"),
        ("also one that took its place", [*OPENED, item(FITS), "click[red]", item(FITS), "click[blue]", item(FITS)], "click[red]"),
        ("buy", [*OPENED, item(FITS), "click[red]", item(FITS), "click[large]", item(FITS)], "click[buy now]"),
        ("leave a product without the option", [*OPENED, item(FITS, options="size [SEP] large")], "click[< prev]"),
        ("leave one that costs more than its list said", [*OPENED, item(FITS, price="$41.0")], "click[< prev]"),
        ("and do not open it again", [*OPENED, item(FITS, options=""), "click[< prev]", results(A, B)], "click[b2]"),
        ("look for what the title does not say", [*OPENED, item("avelin slim jacket")], "click[features]"),
        ("come back from a tab", [*OPENED, item("avelin slim jacket"), "click[features]", f"{HEAD} [SEP] < Prev [SEP] fit, soft"], "click[< prev]"),
        ("go on if it was said there", [*OPENED, item("avelin slim jacket"), "click[features]", f"{HEAD} [SEP] < Prev [SEP] fit, soft", "click[< prev]", item("avelin slim jacket")], "click[red]"),
        ("leave if not", [*OPENED, item("avelin slim jacket"), "click[features]", f"{HEAD} [SEP] < Prev [SEP] soft", "click[< prev]", item("avelin slim jacket")], "click[< prev]"),
        ("a tab that a student opened", [*OPENED, item(FITS), "click[reviews]", f"{HEAD} [SEP] < Prev [SEP] No reviews."], "click[< prev]"),
        ("the choice outlives a tab", [*OPENED, item(FITS), "click[red]", item(FITS), "click[reviews]", f"{HEAD} [SEP] < Prev [SEP] x", "click[< prev]", item(FITS)], "click[large]"),
        ("but not leaving the product", [*OPENED, item(FITS), "click[red]", item(FITS), "click[< prev]", results(A, B), "click[b1]", item(FITS)], "click[red]"),
        ("a search of a student that found it", [START, "search[jackets]", results(A)], "click[b1]"),
        ("a search of a student that did not", [START, "search[shoes]", results("B7 avelin soft shoes $9.0", total=50)], "click[back to search]"),
        ("a page of ours that a student turned", [START, QUERY, results(A, total=2), "click[next >]", results("B9 slim fit shirt $3.0", total=2, number=2)], "click[< prev]"),
        ("a malformed reply leaves the page", [*OPENED, item(FITS), OFF, FORMAT_HELP], "click[red]"),
        ("and so does an impossible click", [*OPENED, item(FITS), "click[green]", item(FITS)], "click[red]"),
        ("nothing fits anywhere: the least bad", [START, "search[slim fit jacket]", results("B3 a shirt $50.0", "B4 a slim shirt $9.0"), "click[back to search]", START, QUERY, results("B3 a shirt $50.0", "B4 a slim shirt $9.0")], "click[b4]"),
    ],
)  # fmt: skip
def test_decisions(why: str, history: list[str], command: str) -> None:
    assert asked(*history) == command, why


def test_a_wish_is_read_from_the_instruction() -> None:
    assert read_wish(WANT) == Wish(
        phrase="slim fit jacket",
        words=frozenset({"slim", "fit", "jacket"}),
        options={"color": "red", "size": "large"},
        price_upper=40.0,
        is_free=False,
    )
    assert read_wish("buy an organic tea, and price lower than 20.00 dollars").phrase == "organic tea"
    assert read_wish("buy boots").price_upper == NO_BOUND
    free = read_wish(
        "i'm looking for a red wool jacket with pockets, in size x-large, and price lower than 60.00 dollars."
    )
    assert (free.is_free, free.price_upper, free.options) == (True, 60.0, {})
    assert free.phrase == "red wool jacket with pockets, in size x-large"
    page = Page(kind="item", options=(("color", ("red", "green")), ("size", ("large", "x-large")), ("fit", ("slim",))))
    assert free.choices(page) == {"color": "red", "size": "x-large"}
    assert read_wish("").phrase == ""


def test_prices_are_read_from_tags() -> None:
    assert [price_of(tag) for tag in ("$12.5", "$5.0 to $9.0", "$1,049.99", "")] == [12.5, 9.0, 1049.99, 0.0]


def play(task: Task, num_random: int = 0, seed: int = 0) -> tuple[float, list[str]]:
    """The score, and the commands of the expert after `num_random` ones that buy nothing."""
    env, expert, rng = ShopEnv(task), ShopExpert(), random.Random(seed)
    observation, steps = env.reset(0), []
    while True:
        if len(steps) < num_random:
            command = rng.choice([one for one in env.admissible() if one != "click[buy now]"] + ["click[nothing]"])
            words = rng.sample(task.goal.split(), 3)
            action = Action.of(f"search[{' '.join(words)}]" if command == SEARCH_TEMPLATE else command)
        else:
            action = expert.act(
                PartialTrajectory(trajectory_id="t", task=task, steps=tuple(steps), observation=observation, seed=0)
            )
        result = env.step(action)
        steps.append(Step(observation=observation, action=action, actor=Actor.EXPERT))
        observation = result.observation
        if result.terminated or result.truncated:
            return env.reward(), [step.action.command or "" for step in steps[num_random:]]


def test_it_solves_every_task_of_a_panel() -> None:
    played = [play(task) for task in ShopTasks().load("test", 0, 120)]
    assert [score for score, _ in played] == [1.0] * 120
    # Without a detour: search, open, options, buy.
    assert sum(len(commands) for _, commands in played) / 120 < 5.0


def test_it_solves_tasks_that_need_the_features_page() -> None:
    played = [play(task) for task in ShopTasks(goals="any").load("test", 0, 60)]
    assert [score for score, _ in played] == [1.0] * 60
    assert sum("click[features]" in commands for _, commands in played) > 40


@pytest.mark.parametrize(
    ("num_random", "options"),
    [(1, {}), (4, {}), (8, {"page_size": 4}), (8, {"goals": "any", "strict_search": False, "show_chosen": True})],
)
def test_it_goes_on_from_any_page(num_random: int, options: dict[str, object]) -> None:
    tasks = ShopTasks(max_steps=num_random + 20, **options).load("train", 0, 40)  # type: ignore[arg-type]
    assert [play(task, num_random, seed)[0] for seed, task in enumerate(tasks)] == [1.0] * 40


def test_same_texts_same_command_whoever_asks() -> None:
    task = ShopTasks().load("validation", 5, 1)[0]
    assert play(task, 3, 1) == play(task, 3, 1)


def test_it_buys_what_people_ask_for() -> None:
    tasks = [task for split in ("train", "test") for task in ShopTasks(source="files", root=FILES).load(split)]
    scores = {task.settings["goal"]["item_id"]: play(task) for task in tasks}
    assert scores["B0TEST0001"] == (1.0, [
        "search[quilted rain jacket for women in red, size x-large]", "click[b0test0001]", "click[red]",
        "click[x-large]", "click[buy now]",
    ])  # fmt: skip
    assert scores["B0TEST0002"][0] == 1.0
    # The blanket has no option groups, though a colour was asked for.
    assert scores["B0TEST0004"][0] == 2 / 3


def test_it_buys_what_synthetic_goals_ask_for() -> None:
    tasks = ShopTasks(source="files", root=FILES, goals="synthetic").load("train")
    assert [play(task)[0] for task in tasks] == [1.0] * 4


def test_it_has_a_name() -> None:
    assert isinstance(make_expert("shop"), ShopExpert)
    assert ShopExpert().version == "shop_expert-1"
