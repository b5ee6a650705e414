"""How the environment shows passages, and how they are read back out of what it showed.

A result block holds two lines per passage. Whatever looks like the start of a tag in a passage is written ``&lt;``, so
that no passage can close the block, act for the agent, or hold a special token of a chat template.

Example:
  <information>
  Doc 1: Emma
  Emma is a novel by Jane Austen.
  </information>
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tutelage.envs.search.passages import Passage

NO_RESULTS: Final = "No passage was found."
"""The observation after a search that brought nothing."""

# A reader of tags never takes `<` before a space, a digit or `=` for one.
_TAG_START: Final = re.compile(r"<(?=[^\s\d=])")
_BLOCK: Final = re.compile(r"<information>\n(.*?)\n</information>", re.DOTALL)
_DOC: Final = re.compile(r"^Doc \d+:(?: (.*))?\n(.*)$", re.MULTILINE)


def write_results(passages: Iterable[Passage]) -> str:
    """The observation that shows these passages, in order; `NO_RESULTS` if there are none."""
    docs = [
        f"Doc {number}: {plain(passage.title)}\n{plain(passage.text)}"
        for number, passage in enumerate(passages, start=1)
    ]
    return "<information>\n{}\n</information>".format("\n".join(docs)) if docs else NO_RESULTS


def read_results(observation: str) -> tuple[Passage, ...]:
    """The passages that an observation shows, as they were before they were escaped. None in any other text."""
    return tuple(
        Passage((title or "").replace("&lt;", "<"), text.replace("&lt;", "<"))
        for block in _BLOCK.findall(observation)
        for title, text in _DOC.findall(block)
    )


def plain(text: str) -> str:
    """One line with single spaces, in which nothing starts a tag. Example: ``a </answer>`` -> ``a &lt;/answer>``"""
    return _TAG_START.sub("&lt;", " ".join(text.split()))
