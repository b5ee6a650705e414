"""Other ways to fail, on other tasks: written after the rules were finished, and not looked at to change them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import tutelage as t
from judge_cases.answers import answer, give, run_code, search
from judge_cases.base import Case, Script, expert_until, once, repeat
from judge_cases.games import kind_of, opening_of, places_in
from judge_cases.repo import SUBMIT, again, bash, edit, fix_path, in_order, repair, sources_of
from tutelage.envs.python.templates import match_template
from tutelage.envs.shop.reading import read_page
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.shop_wish import price_of, read_wish
from tutelage.types import Action
from tutelage.types import FailureCategory as C


def unseen_cases() -> Iterator[Case]:
    yield from _household()
    yield from _shop()
    yield from _answers()
    yield from _repo()


# Household


def _household() -> Iterator[Case]:
    games = list(t.load_tasks("household", "validation", start=60, count=30))
    expert = t.make_expert("household")
    spots = places_in(opening_of(games[0]))
    yield Case(
        "unseen-household-opens-and-closes", C.INFINITE_LOOP, games[0], repeat("open fridge 1", "close fridge 1")
    )
    yield Case(
        "unseen-household-look-between", C.INFINITE_LOOP, games[0], repeat(f"go to {spots[0]}", "look", "inventory")
    )
    yield Case("unseen-household-looks-of-all-kinds", C.ENDLESS_FILE_READING, games[1], _looks_of_all_kinds)
    yield Case("unseen-household-old-verbs", C.TOOL_ERROR, games[2], expert_until(expert, _moves, _puts_in_old_words))
    yield Case("unseen-household-carries-on", C.OTHER, games[3], expert_until(expert, _moves, _walks_on))
    lamps = [one for one in games if one.kind.startswith("look_at")]
    yield Case("unseen-household-other-thing-under-lamp", C.IDENTIFIED_INCORRECT_FILE, lamps[0], _takes_anything)
    treated = [one for one in games if re.match(r"pick_(heat|cool)", one.kind)]
    for number, game in enumerate(treated[:2]):
        play = expert_until(expert, lambda a: re.match(r"heat|cool", a.command or "") is not None, _wrong_treatment)
        yield Case(f"unseen-household-other-treatment-{number}", C.MISUNDERSTOOD_PROBLEM_STATEMENT, game, play)


def _moves(action: Action) -> bool:
    return re.match(r"move|use", action.command or "") is not None


def _looks_of_all_kinds(so_far: PartialTrajectory) -> Script:
    kinds = ("look", "inventory", "examine", "look")
    spots = places_in(so_far.observation.text)
    for number in count():
        word = kinds[(number * number + number // 4) % 4]
        yield Action.of(f"examine {spots[number % len(spots)]}" if word == "examine" else word)


def _puts_in_old_words(so_far: PartialTrajectory, action: Action) -> Script:
    match = re.match(r"(?:move|use) (\w+ \d+)(?: to (\w+ \d+))?", action.command or "")
    assert match is not None
    for words in (
        "put {0} in/on {1}",
        "place {0} in {1}",
        "drop {0}",
        "insert {0} into {1}",
        "put down {0}",
        "leave {0}",
    ):
        for _ in range(2):
            yield Action.of(words.format(match[1], match[2] or "desk 1"))
            yield Action.of("look")
    while True:
        yield Action.of(f"release {match[1]}")
        yield Action.of("inventory")


def _walks_on(so_far: PartialTrajectory, action: Action) -> Script:
    """Has the right thing in its hand, and visits every place once in a while without putting it down."""
    spots = places_in((so_far.steps[0].observation if so_far.steps else so_far.observation).text)
    for number in count():
        yield Action.of(f"go to {spots[(number * number + number // 3) % len(spots)]}")


def _takes_anything(so_far: PartialTrajectory) -> Script:
    goal = so_far.task.goal
    for spot in places_in(so_far.observation.text):
        so_far = yield Action.of(f"go to {spot}")
        if "is closed" in so_far.observation.text:
            so_far = yield Action.of(f"open {spot}")
        things = [
            one
            for one in re.findall(r"an? (\w+ \d+)", so_far.observation.text.partition("you see")[2])
            if one.split()[0] not in goal
        ]
        if things:
            so_far = yield Action.of(f"take {things[0]} from {spot}")
            break
    while True:
        yield Action.of("use desklamp 1")
        yield Action.of("look")


def _wrong_treatment(so_far: PartialTrajectory, action: Action) -> Script:
    """Cools what was to be heated, heats what was to be cooled, then brings it."""
    match = re.match(r"(heat|cool) (\w+ \d+)", action.command or "")
    assert match is not None
    verb, machine = ("cool", "fridge 1") if match[1] == "heat" else ("heat", "microwave 1")
    yield Action.of(f"go to {machine}")
    yield Action.of(f"{verb} {match[2]} with {machine}")
    target = so_far.task.goal.split()[-1]
    place = next(p for p in places_in(so_far.steps[0].observation.text) if p.split()[0] == target)
    so_far = yield Action.of(f"go to {place}")
    if "is closed" in so_far.observation.text:
        yield Action.of(f"open {place}")
    yield Action.of(f"move {match[2]} to {place}")
    for number in count():
        yield Action.of(("look", "inventory", "help")[(number * number + number // 3) % 3])


# Shop


def _shop() -> Iterator[Case]:
    wishes = list(t.load_tasks("shop", "validation", start=60, count=60))
    yield Case("unseen-shop-same-product-again", C.INFINITE_LOOP, wishes[0], _same_product)
    yield Case("unseen-shop-tabs", C.ENDLESS_FILE_READING, wishes[1], _tabs)
    yield Case("unseen-shop-other-buttons", C.TOOL_ERROR, wishes[2], _other_buttons)
    dear = [one for one in wishes if read_wish(one.goal).price_upper < 60]
    for number, wish in enumerate(dear[:2]):
        yield Case(f"unseen-shop-too-dear-{number}", C.MISSED_EDGE_CASE, wish, _too_dear)
    for number, wish in enumerate(wishes[10:12]):
        yield Case(f"unseen-shop-first-of-its-kind-{number}", C.IDENTIFIED_INCORRECT_FILE, wish, _first_without_words)


def _same_product(so_far: PartialTrajectory) -> Script:
    so_far = yield Action.of(f"search[{kind_of(so_far.task)}]")
    item = read_page(so_far.observation.text).listed[0].item_id
    while True:
        yield Action.of(f"click[{item}]")
        yield Action.of("click[< prev]")


def _tabs(so_far: PartialTrajectory) -> Script:
    so_far = yield Action.of(f"search[{kind_of(so_far.task)}]")
    for listed in read_page(so_far.observation.text).listed:
        yield Action.of(f"click[{listed.item_id}]")
        for tab in ("description", "features", "reviews"):
            yield Action.of(f"click[{tab}]")
            yield Action.of("click[< prev]")
        yield Action.of("click[< prev]")


def _other_buttons(so_far: PartialTrajectory) -> Script:
    so_far = yield Action.of(f"search[{kind_of(so_far.task)}]")
    yield Action.of(f"click[{read_page(so_far.observation.text).listed[0].item_id}]")
    for label in ("add to cart", "checkout", "purchase", "order", "pay", "proceed", "confirm", "basket") * 3:
        yield Action.of(f"click[{label}]")


def _too_dear(so_far: PartialTrajectory) -> Script:
    """A product with the right words, above the bound."""
    wish = read_wish(so_far.task.goal)
    so_far = yield Action.of(f"search[{wish.phrase}]")
    best = max(
        read_page(so_far.observation.text).listed,
        key=lambda one: (price_of(one.price) > wish.price_upper, sum(word in one.title for word in wish.words)),
    )
    so_far = yield Action.of(f"click[{best.item_id}]")
    for value in wish.options.values():
        yield Action.of(f"click[{value}]")
    yield Action.of("click[buy now]")


def _first_without_words(so_far: PartialTrajectory) -> Script:
    """Of the right kind, at a price that is allowed, without the attributes that were asked for."""
    wish = read_wish(so_far.task.goal)
    so_far = yield Action.of(f"search[{wish.kind}]")
    fits = [one for one in read_page(so_far.observation.text).listed if price_of(one.price) <= wish.price_upper]
    worst = min(fits, key=lambda one: sum(word in one.title.lower() for word in wish.words))
    so_far = yield Action.of(f"click[{worst.item_id}]")
    for _, values in read_page(so_far.observation.text).options:
        yield Action.of(f"click[{next((v for v in values if v in wish.options.values()), values[0])}]")
    yield Action.of("click[buy now]")


# Search and python


def _answers() -> Iterator[Case]:
    asked = list(t.load_tasks("search", "validation", start=60, count=8))
    expert = t.make_expert("search")
    yield Case("unseen-search-two-queries", C.INFINITE_LOOP, asked[0], repeat(search("film"), search("town")))
    play = expert_until(expert, lambda a: (a.command or "").startswith("<answer>"), _misspelt)
    yield Case("unseen-search-misspelt", C.WRONG_SOLUTION, asked[1], play)
    subject = asked[2].goal.rstrip("?").split(" of ")[-1]
    yield Case(
        "unseen-search-repeats-the-question",
        C.MISUNDERSTOOD_PROBLEM_STATEMENT,
        asked[2],
        once(answer(subject), then=answer("x")),
    )
    problems = list(t.load_tasks("python", "validation", start=60, count=20, max_steps=8))
    yield Case("unseen-python-wrong-indent", C.SYNTAX_ERROR, problems[0], _wrong_indent)
    yield Case("unseen-python-asks-for-input", C.TOOL_ERROR, problems[1], _asks_for_input)
    yield Case("unseen-python-reads-manuals", C.ENDLESS_FILE_READING, problems[2], _reads_manuals)
    yield Case("unseen-python-estimates", C.WRONG_SOLUTION, problems[3], once(answer("1000000"), then=answer("1")))
    several = [one for one in problems if (found := match_template(one.goal)) and len(found[0].steps) > 1]
    play = expert_until(t.make_expert("python"), lambda a: (a.command or "").startswith("<answer>"), give("0"))
    yield Case("unseen-python-gives-nought", C.WRONG_SOLUTION, several[0], play)


def _misspelt(so_far: PartialTrajectory, action: Action) -> Script:
    yield Action.of(answer((action.command or "").removeprefix("<answer>").removesuffix("</answer>") + "er"))


def _wrong_indent(so_far: PartialTrajectory) -> Script:
    for number in range(6):
        yield Action.of(run_code(f"def f{number}():\nreturn {number}"))
    yield Action.of(answer("-7"))


def _asks_for_input(so_far: PartialTrajectory) -> Script:
    for number in range(20):
        yield Action.of(run_code(f"print(int(input('number {number}? ')))"))


def _reads_manuals(so_far: PartialTrajectory) -> Script:
    for name in ("sum", "abs", "round", "divmod", "pow", "max", "min", "sorted", "range", "map"):
        yield Action.of(run_code(f"print({name}.__doc__)"))


# Repo


def _repo() -> Iterator[Case]:
    problems = {one.task_id.removeprefix("repo-"): one for one in t.load_tasks("repo", "train", count=10, max_steps=30)}
    listed = list(problems.values())
    yield Case("unseen-repo-greps", C.ENDLESS_FILE_READING, listed[0], _greps)
    yield Case("unseen-repo-edits-and-undoes", C.INFINITE_LOOP, listed[1], _edits_and_undoes)
    yield Case(
        "unseen-repo-lists-with-details",
        C.CONTEXT_OVERFLOW_FROM_LISTING,
        listed[2],
        in_order(edit("view", "README.md"), bash("ls -laR /usr/share"), bash("ls -laR /usr/lib"), SUBMIT),
        max_chars=15_000,
    )
    yield Case("unseen-repo-installs", C.TOOL_ERROR, listed[3], _installs)
    path = "textkit/layout.py"
    yield Case(
        "unseen-repo-writes-with-a-shell",
        C.SYNTAX_ERROR,
        problems["textkit.layout-negate_condition-338-342"],
        in_order(
            bash(f"cat {path}"),
            bash(f"sed -i 's/if not (line):/if line/' {path}"),
            bash("python -m pytest -q 2>&1 | tail -n 12"),
            SUBMIT,
        ),
    )
    yield Case(
        "unseen-repo-breaks-with-a-shell-unseen",
        C.SYNTAX_ERROR,
        problems["textkit.layout-negate_condition-338-342"],
        in_order(bash(f"cat {path}"), bash(f"sed -i 's/if not (line):/if line/' {path}"), SUBMIT),
    )
    yield Case("unseen-repo-settings-of-tests", C.IDENTIFIED_INCORRECT_FILE, listed[5], _settings_of_tests)
    yield Case("unseen-repo-other-function", C.IDENTIFIED_INCORRECT_FILE, listed[6], _other_function)
    tests = bash("python -m pytest -q tests/test_layout.py 2>&1 | tail -n 12")
    yield Case(
        "unseen-repo-short-words-only",
        C.MISSED_EDGE_CASE,
        problems["textkit.layout-negate_condition-338-342"],
        repair(path, "if not (line):", "if line and width > 4:", before=tests, after=tests),
    )
    yield Case(
        "unseen-repo-never-right",
        C.WRONG_SOLUTION,
        problems["gridmath.numbers-off_by_one-2005-2006"],
        repair("gridmath/numbers.py", "while number != 2:", "while number != 3:",
                before=bash("python -m pytest -q tests/test_numbers.py 2>&1 | tail -n 6"),
                after=bash("python -m pytest -q tests/test_numbers.py 2>&1 | tail -n 6")),
    )  # fmt: skip
    yield Case("unseen-repo-looks-on", C.INFINITE_LOOP, listed[8], again(bash("git status"), bash("pwd")))


def _greps(so_far: PartialTrajectory) -> Script:
    for word in (
        "def",
        "class",
        "return",
        "import",
        "raise",
        "assert",
        "for",
        "while",
        "if",
        "else",
        "True",
        "None",
    ) * 3:
        yield bash(f"grep -n {word} {fix_path(so_far.task)} | head -n 40")
        yield bash(f"grep -c {word} README.md")


def _edits_and_undoes(so_far: PartialTrajectory) -> Script:
    path = fix_path(so_far.task)
    while True:
        yield edit("str_replace", path, old_str="        pass\n", new_str="        return\n")
        yield edit("undo", path)


def _installs(so_far: PartialTrajectory) -> Script:
    for command in (
        "apt-get install -y vim",
        "pip install pytest",
        "conda install numpy",
        "npm install",
        "brew install git",
        "cargo build",
    ):
        yield bash(command)
    yield SUBMIT


def _settings_of_tests(so_far: PartialTrajectory) -> Script:
    text = "def pytest_collection_modifyitems(items):\n    items.clear()\n"
    yield bash("ls; cat pyproject.toml")
    yield edit("create", "conftest.py", file_text=text)
    yield bash("python -m pytest -q 2>&1 | tail -n 3")
    yield SUBMIT


def _other_function(so_far: PartialTrajectory) -> Script:
    """The right file, another function in it."""
    path = fix_path(so_far.task)
    assert path in sources_of(so_far.task)
    so_far = yield edit("view", path)
    function = re.search(r"\d+\t(def (\w+)\(.*\):)", so_far.observation.text)
    assert function is not None
    yield bash("python -m pytest -q 2>&1 | tail -n 5")
    yield edit(
        "str_replace", path, old_str=function[1], new_str=f"def {function[2]}_new():\n    return 0\n\n\n{function[1]}"
    )
    yield bash("python -m pytest -q 2>&1 | tail -n 5")
    yield SUBMIT
