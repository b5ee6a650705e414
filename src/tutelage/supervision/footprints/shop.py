"""Footprints of shop episodes from their texts alone.

In: a stored trajectory. Out: keys read and written per step. The command says what a step reads; it writes only what the
next page confirms.

  query_token:W             W, no stop word, was searched for
  selected_product:ID       the product's page was opened
  selected_attr:NAME=VALUE  the option was chosen; a later choice in the same group takes its place
  purchase_action           the product was bought

Example:
  search[red mug]    reads -                                        writes query_token:red, query_token:mug
  click[b1]          reads query_token:red, query_token:mug         writes selected_product:b1
  click[red]         reads selected_product:b1                      writes selected_attr:color=red
  click[buy now]     reads selected_product:b1, selected_attr:...   writes purchase_action
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tutelage.envs.search.bm25 import STOP_WORDS
from tutelage.envs.shop.pages import BACK, BUY, NEXT, PREV, TABS, parse_command
from tutelage.envs.shop.reading import Visit, read_page, replies_of
from tutelage.envs.shop.words import words_of
from tutelage.types import Effect, Footprint, Trajectory

_MOVES: Final = frozenset(label.lower() for label in (BACK, PREV, NEXT, *TABS))
"""Clicks that show something and write nothing."""


def shop_footprints(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """One footprint per step of a shop trajectory. No text makes it raise.

    The effect is `CHANGED` if something was written, `READ_ONLY` for a page turned, `NO_EFFECT` if the next page confirms
    nothing (also for an option that was chosen already), `MALFORMED` without a command. The page after the last step is the
    final observation; a missing one confirms nothing.
    """
    steps, final = trajectory.steps, trajectory.final_observation
    visit = Visit(page=read_page(steps[0].observation.text if steps else ""))
    known: set[str] = set()
    footprints = []
    for index, (command, reply) in enumerate(replies_of(steps, final.text if final else "")):
        reads, writes = ([], []) if command is None else _keys(visit, known, command)
        confirmed = visit.step(command, reply)
        effect = Effect.MALFORMED if command is None else Effect.READ_ONLY if confirmed else Effect.NO_EFFECT
        written = frozenset(writes) if confirmed else frozenset()
        known |= written
        footprints.append(
            Footprint(
                trajectory_id=trajectory.trajectory_id,
                step_index=index,
                reads=frozenset(reads),
                writes=written,
                effect=Effect.CHANGED if written else effect,
            )
        )
    return tuple(footprints)


def _keys(visit: Visit, known: Iterable[str], command: str) -> tuple[list[str], list[str]]:
    """What a command on the present page reads, and what it would write."""
    verb, argument = parse_command(command)
    product = [f"selected_product:{visit.item_id}"] if visit.item_id else []
    if verb == "search":
        tokens = _tokens(argument)
        return [key for key in tokens if key in known] + product, tokens
    # On the page of a product that is the product, on a results page what was searched for.
    here = product or _tokens(visit.query)
    if verb != "click" or argument in _MOVES:
        return here, []
    if argument == BUY.lower():
        live = [f"selected_attr:{name.lower()}={value}" for name, value in visit.chosen.items()]
        return product + live, ["purchase_action"]
    if not product:
        return here, [f"selected_product:{argument}"]
    group = visit.page.group_of(argument)
    return product, [] if group is None else [f"selected_attr:{group.lower()}={argument}"]


def _tokens(query: str) -> list[str]:
    return [f"query_token:{word}" for word in dict.fromkeys(words_of(query)) if word not in STOP_WORDS]
