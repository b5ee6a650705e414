"""Ways to fail in the household and in the shop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import tutelage as t
from judge_cases.base import Case, Play, Script, expert_until, prose, repeat, tasks, texts
from tutelage.envs.registry import make_env
from tutelage.envs.shop.reading import read_page
from tutelage.policies.base import PartialTrajectory
from tutelage.types import Action, Task
from tutelage.types import FailureCategory as C

_FLAT = ("countertop", "diningtable", "sofa", "shelf", "dresser", "sidetable", "desk", "bed", "armchair", "coffeetable")


def household_cases() -> Iterator[Case]:
    games = tasks("household", 30)
    expert = t.make_expert("household")
    for number, game in enumerate(games[:2]):
        spots = places_in(opening_of(game))
        yield Case(f"household-look-{number}", C.INFINITE_LOOP, game, repeat("look"))
        yield Case(f"household-to-and-fro-{number}", C.INFINITE_LOOP, game, repeat(*(f"go to {p}" for p in spots[:2])))
        yield Case(f"household-round-{number}", C.INFINITE_LOOP, game, repeat(*(f"go to {p}" for p in spots[:6])))
        yield Case(
            f"household-examines-{number}",
            C.ENDLESS_FILE_READING,
            game,
            repeat("look", *(f"examine {p}" for p in spots), "inventory"),
        )
        invented = [f"{verb} {p}" for verb in ("grab", "walk to", "inspect", "use the") for p in spots[:7]]
        yield Case(f"household-invented-verbs-{number}", C.TOOL_ERROR, game, repeat(*invented))
        yield Case(f"household-prose-{number}", C.TOOL_ERROR, game, prose)
    simple = [one for one in games if one.kind.startswith("pick_and_place")]
    for number, game in enumerate(simple[:2]):
        yield Case(f"household-wrong-place-{number}", C.IDENTIFIED_INCORRECT_FILE, game, _elsewhere())
    for number, game in enumerate(simple[2:4]):
        yield Case(f"household-wrong-object-{number}", C.IDENTIFIED_INCORRECT_FILE, game, _another_object)
    treated = [one for one in games if re.match(r"pick_(clean|heat|cool)", one.kind)]
    for number, game in enumerate(treated[:3]):
        play = expert_until(
            expert, lambda action: re.match(r"clean|heat|cool", action.command or "") is not None, _bring
        )
        yield Case(f"household-untreated-{number}", C.MISSED_EDGE_CASE, game, play)
    for number, game in enumerate([one for one in games if one.kind.startswith("pick_two")][:2]):
        yield Case(f"household-one-of-two-{number}", C.MISSED_EDGE_CASE, game, _one_of_two)
    for number, game in enumerate(t.load_tasks("household", "validation", start=40, count=2, max_steps=4)):
        yield Case(f"household-too-few-steps-{number}", C.OTHER, game, expert_until(expert, lambda _: False, _bring))


def opening_of(game: Task) -> str:
    env = make_env(game)
    try:
        return env.reset(game.seed).text
    finally:
        env.close()


def places_in(opening: str) -> list[str]:
    return re.findall(r"an? (\w+ \d+)", opening.split("you see")[1])


def _walk(so_far: PartialTrajectory) -> Script:
    """Go and see place after place in changing order, touching nothing more."""
    spots = places_in(texts(so_far)[0])
    for number in count():
        yield Action.of(f"go to {spots[(number * number + number // 3) % len(spots)]}")


def _to(so_far: PartialTrajectory, thing: str, place: str) -> Script:
    so_far = yield Action.of(f"go to {place}")
    if "is closed" in so_far.observation.text:
        so_far = yield Action.of(f"open {place}")
    so_far = yield Action.of(f"move {thing} to {place}")
    yield from _walk(so_far)


def _elsewhere() -> Play:
    """The right object to a place that nobody asked for."""

    def after(so_far: PartialTrajectory, action: Action) -> Script:
        match = re.match(r"move (\w+ \d+) to (\w+)", action.command or "")
        assert match is not None
        others = [p for p in places_in(texts(so_far)[0]) if p.split()[0] != match[2] and p.split()[0] in _FLAT]
        yield from _to(so_far, match[1], others[0])

    return expert_until(t.make_expert("household"), lambda a: (a.command or "").startswith("move "), after)


def _another_object(so_far: PartialTrajectory) -> Script:
    """Something that the goal does not name to the place that it names."""
    goal = so_far.task.goal
    for spot in places_in(so_far.observation.text):
        so_far = yield Action.of(f"go to {spot}")
        if "is closed" in so_far.observation.text:
            so_far = yield Action.of(f"open {spot}")
        seen = so_far.observation.text.partition("you see")[2]
        things = [one for one in re.findall(r"an? (\w+ \d+)", seen) if one.split()[0] not in goal]
        things = [one for one in things if not one.startswith("desklamp")]
        if things:
            so_far = yield Action.of(f"take {things[0]} from {spot}")
            target = goal.split()[-1]
            place = next(p for p in places_in(texts(so_far)[0]) if p.split()[0] == target)
            yield from _to(so_far, things[0], place)


def _bring(so_far: PartialTrajectory, action: Action) -> Script:
    """To its place without having been heated, cooled or cleaned."""
    match = re.match(r"\w+ (\w+ \d+) with", action.command or "")
    assert match is not None
    target = so_far.task.goal.split()[-1]
    place = next(p for p in places_in(texts(so_far)[0]) if p.split()[0] == target)
    yield from _to(so_far, match[1], place)


def _one_of_two(so_far: PartialTrajectory) -> Script:
    expert = t.make_expert("household")
    while not so_far.observation.text.startswith("You move the"):
        so_far = yield expert.act(so_far)
    yield from _walk(so_far)


# Shop


def shop_cases() -> Iterator[Case]:
    wishes = tasks("shop", 40)
    optioned = [one for one in wishes if " with " in one.goal]
    expert = t.make_expert("shop")
    for number, wish in enumerate(wishes[:2]):
        kind = kind_of(wish)
        yield Case(
            f"shop-search-and-back-{number}",
            C.INFINITE_LOOP,
            wish,
            repeat(f"search[{kind}]", "click[back to search]"),
        )
        yield Case(f"shop-browses-{number}", C.ENDLESS_FILE_READING, wish, _browse)
        yield Case(f"shop-search-everywhere-{number}", C.TOOL_ERROR, wish, _search_where_none_is)
        yield Case(f"shop-prose-{number}", C.TOOL_ERROR, wish, prose)
        yield Case(
            f"shop-wrong-kind-{number}",
            C.IDENTIFIED_INCORRECT_FILE,
            wish,
            _buy_first(*(kind_of(one) for one in wishes if kind_of(one) != kind)),
        )
    for number, wish in enumerate(optioned[:3]):
        play = expert_until(expert, _chooses, _buy_now)
        yield Case(f"shop-options-left-out-{number}", C.MISSED_EDGE_CASE, wish, play)
    for number, wish in enumerate(optioned[3:5]):
        yield Case(
            f"shop-other-option-{number}", C.MISSED_EDGE_CASE, wish, expert_until(expert, _chooses, _other_value)
        )
    coloured = [one for one in wishes if "color: " in one.goal]
    for number, wish in enumerate(coloured[:2]):
        colour = re.search(r"color: ([^,]+)", wish.goal)
        assert colour is not None
        yield Case(
            f"shop-takes-colour-for-thing-{number}",
            C.MISUNDERSTOOD_PROBLEM_STATEMENT,
            wish,
            _buy_first(
                f"{colour[1]} paint", f"{colour[1]} colour", colour[1], "paint", "dye", "nail polish", "lipstick"
            ),
        )
    for number, wish in enumerate(wishes[2:4]):
        yield Case(
            f"shop-leafs-results-{number}", C.CONTEXT_OVERFLOW_FROM_LISTING, wish, _leaf(kind_of(wish)), max_chars=2500
        )
    for number, wish in enumerate(t.load_tasks("shop", "validation", start=50, count=1, max_steps=2)):
        yield Case(f"shop-too-few-steps-{number}", C.OTHER, wish, expert_until(expert, lambda _: False, _buy_now))


def kind_of(wish: Task) -> str:
    return re.split(r" with |, and ", wish.goal)[0].split()[-1]


def _chooses(action: Action) -> bool:
    """Not a search, a button or a product: a value."""
    label = (action.command or "")[6:-1]
    return (action.command or "").startswith("click[") and not re.fullmatch(
        r"b\d+|< prev|next >|features|back to search", label
    )


def _buy_now(so_far: PartialTrajectory, action: Action) -> Script:
    yield Action.of("click[buy now]")


def _other_value(so_far: PartialTrajectory, action: Action) -> Script:
    """Other values than those asked for, then the purchase."""
    for _, values in read_page(so_far.observation.text).options:
        others = [value for value in values if value not in so_far.task.goal]
        if others:
            so_far = yield Action.of(f"click[{others[0]}]")
    yield Action.of("click[buy now]")


def _buy_first(*queries: str) -> Play:
    """Buy the first product of the first query that brings any."""

    def play(so_far: PartialTrajectory) -> Script:
        for query in queries:
            so_far = yield Action.of(f"search[{query}]")
            listed = read_page(so_far.observation.text).listed
            if listed:
                yield Action.of(f"click[{listed[0].item_id}]")
                yield Action.of("click[buy now]")
            yield Action.of("click[back to search]")

    return play


def _browse(so_far: PartialTrajectory) -> Script:
    """Open product after product and its pages, and decide nothing."""
    so_far = yield Action.of(f"search[{kind_of(so_far.task)}]")
    for listed in read_page(so_far.observation.text).listed:
        yield Action.of(f"click[{listed.item_id}]")
        yield Action.of("click[features]")
        yield Action.of("click[< prev]")
        yield Action.of("click[< prev]")


def _search_where_none_is(so_far: PartialTrajectory) -> Script:
    """Search again on the results page, which has no search bar, in other and other words."""
    words = so_far.task.goal.split()
    for number in range(200):
        yield Action.of(f"search[{' '.join(words[number % 3 : number % 7 + 4])} {number}]")


def _leaf(kind: str) -> Play:
    def play(so_far: PartialTrajectory) -> Script:
        yield Action.of(f"search[{kind}]")
        while True:
            yield Action.of("click[next >]")

    return play
