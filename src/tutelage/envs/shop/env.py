"""The shop as an environment: one task, one episode, which a purchase ends.

In: a `Task` whose settings name a catalogue and hold a goal. Out: the shop's pages, and the score of what was bought.
Settings, all plain JSON:

  num_products, catalogue_seed         a generated catalogue (see `generator.generate_catalogue`)
  root, num_products, price_seed       the original's files below `root` (see `files.read_catalogue`)
  goal                                 item_id, instruction, attributes, options (list or map), price_upper
  content_hash                         what catalogue and goal must hash to, so that a changed file or generator is noticed
  max_steps                            steps before the episode is truncated; 15 where absent
  page_size, strict_search, show_chosen, show_attributes    see `pages.Site`; its defaults where absent
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tutelage.envs.base import StepResult
from tutelage.envs.lifetime import Lifetime
from tutelage.envs.shop.catalogue import Catalogue
from tutelage.envs.shop.files import read_catalogue
from tutelage.envs.shop.generator import generate_catalogue
from tutelage.envs.shop.goals import Goal, target_of
from tutelage.envs.shop.pages import Place, Site
from tutelage.envs.shop.score import Score, score_purchase
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, Observation, Task

DEFAULT_MAX_STEPS: Final = 15

SITE_SETTINGS: Final = ("page_size", "strict_search", "show_chosen", "show_attributes")
"""Settings that go to `Site` as they are."""

FORMAT_HELP: Final = (
    "No command was found in that reply. Give one command: search[words] on the search page, or click[label] with "
    "something that the page shows, such as click[buy now]."
)
"""The observation after a malformed action."""

INSTRUCTIONS: Final = """\
You are shopping in a web shop. The instruction on each page says what to buy. Each reply is one command:

search[words]   look for products; only on the search page
click[label]    click on something that the page shows: a product id, an option value, or a button

A search lists products with id, title and price; < Prev and Next > turn its pages. A product's page shows its option
groups with their values, its price, and the buttons Description, Features and Reviews. Click one value of each option \
that the instruction asks for; a page does not mark what you chose. Then click Buy Now, which ends the task. Your score is the \
share of what was asked for (attributes, options, price) that the purchase meets.

Example: for "buy a soft rug with color: blue, and price lower than 40.00 dollars"
search[soft rug]
click[b00042]
click[blue]
click[buy now]
"""
"""What a language model is told before the first observation."""


def instructions_of(task: Task, own_format: bool) -> str:
    """`own_format`: the reply is the command. False: nothing is said of how a command is written."""
    if own_format:
        return INSTRUCTIONS
    return INSTRUCTIONS.replace("Each reply is one command:", "In every turn you give one command:").rstrip("\n")


def catalogue_of(settings: Mapping[str, Any]) -> Catalogue:
    """The catalogue that the settings of a task name. All episodes of a process share it.

    Raises ConfigError where the settings name none, FormatError where its files are broken.
    """
    if "catalogue_seed" in settings:
        return _generated(settings.get("num_products", 1000), settings["catalogue_seed"])
    if "root" in settings:
        return _read(str(settings["root"]), settings.get("num_products"), settings.get("price_seed", 0))
    raise ConfigError(
        f"shop task settings: neither 'catalogue_seed' nor 'root' in {sorted(settings)}.\n"
        "  A generated catalogue needs 'num_products' and 'catalogue_seed', the original's files need 'root'."
    )


@lru_cache(maxsize=4)
def _generated(num_products: int, seed: int) -> Catalogue:
    return generate_catalogue(num_products, seed)


@lru_cache(maxsize=4)
def _read(root: str, num_products: int | None, price_seed: int) -> Catalogue:
    return read_catalogue(Path(root), num_products, price_seed)


def task_hash(catalogue: Catalogue, goal: Goal) -> str:
    """SHA-256 over a catalogue and a goal, 64 hex digits."""
    return hashlib.sha256(json.dumps([catalogue.content_hash, goal.to_json()], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of an episode, for `ShopEnv.restore`."""

    place: Place
    life: tuple[int, bool]


class ShopEnv:
    """One episode of one shopping task. The seed of `reset` changes nothing: the task alone decides the world."""

    inline = True

    def __init__(self, task: Task) -> None:
        """Raises ConfigError, FormatError (see `catalogue_of`), MissingExtra, or EnvError if catalogue or goal are not
        those that the task was made of."""
        settings = task.settings
        catalogue = catalogue_of(settings)
        self.goal = Goal.from_json(settings.get("goal", {}))
        self.target = target_of(self.goal, catalogue)
        expected = settings.get("content_hash")
        if expected is not None and (found := task_hash(catalogue, self.goal)) != expected:
            raise EnvError(
                f"catalogue and goal have content hash {found[:12]}, the task was made of {expected[:12]}.\n"
                "  The files or the generator have changed since. Load the tasks again and start a new run.",
                task_id=task.task_id,
            )
        self.task = task
        self.max_steps = int(settings.get("max_steps", DEFAULT_MAX_STEPS))
        self.site = Site(
            catalogue, self.goal.instruction, **{name: settings[name] for name in SITE_SETTINGS if name in settings}
        )
        self.place = Place()
        self.life = Lifetime(task, self.max_steps)

    def reset(self, seed: int) -> Observation:
        self.life.begin()
        return Observation.of(self.site.text(self.place))

    def step(self, action: Action) -> StepResult:
        self.life.check_step()
        if action.command is not None:
            self.place = self.site.after(self.place, action.command)
        reward = self.reward()
        terminated = self.place.page == "done"
        truncated = self.life.count_step(terminated)
        text = FORMAT_HELP if action.command is None else self.site.text(self.place, reward)
        return StepResult(observation=Observation.of(text), reward=reward, terminated=terminated, truncated=truncated)

    def reward(self) -> float:
        """The score of what was bought, in [0, 1]; 0 while nothing is."""
        return self._score().value if self.place.page == "done" else 0.0

    def admissible(self) -> tuple[str, ...]:
        """Sorted; `search[...]` stands for any search. The site lists them in the order of the page, as the original does."""
        return tuple(sorted(set(self.site.admissible(self.place))))

    def state_hash(self) -> str:
        place = self.place
        state = [place.page, place.query, place.number, place.item_id, place.chosen]
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()

    def snapshot(self) -> Moment:
        return Moment(self.place, self.life.moment())

    def restore(self, snapshot: object) -> None:
        if not isinstance(snapshot, Moment):
            raise TypeError(f"restore got a {type(snapshot).__name__}, expected what snapshot() gave")
        self.life.go_to(snapshot.life)
        self.place = snapshot.place

    def progress(self) -> float:
        """What the present product and options would score, short of the purchase: one part in n + 1 is left for it,
        where n is the number of things wanted. Example: 3 wanted, all met, not bought: 3/4.
        """
        if not self.place.item_id:
            return 0.0
        score = self._score()
        bought = self.place.page == "done"
        return score.r_type * (score.fraction * score.num_wanted + bought) / (score.num_wanted + 1)

    def close(self) -> None:
        """End the episode; again is harmless. What is still readable (reward, state_hash) stays so."""
        self.life.close()

    def _score(self) -> Score:
        item = self.site.catalogue[self.place.item_id]
        return score_purchase(self.goal, self.target, item, [value for _, value in self.place.chosen])
