"""Search tasks: questions on a generated corpus without files, or questions of files on passages of a file or a server.

Generated panels have no end: every 60 questions (size small) there is another world, and the hop counts take turns. No
entity stands in two splits. Question files belong to the split that their name tells; data sets take turns, so that a
small panel holds all of them.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from tutelage.envs.search.answers import SCORES
from tutelage.envs.search.corpus import QUESTIONS, SIZES, question_of, world_of
from tutelage.envs.search.env import DEFAULT_MAX_STEPS, DEFAULT_TOP_K
from tutelage.envs.search.questions import SUFFIXES, Question, read_questions
from tutelage.envs.search.retrievers import RETRIEVERS
from tutelage.envs.search.sources import passages_hash
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import split_named
from tutelage.types import Split, Task, stable_hash

DEFAULT_COUNT: Final = 120
"""Tasks in a generated panel if no number is given."""

HOPS: Final = {2: "two_hops", 3: "three_hops"}
"""Number of hops -> task kind."""

SPLIT_NAMES: Final = {
    "train": Split.TRAIN,
    "validation": Split.VALIDATION,
    "valid": Split.VALIDATION,
    "dev": Split.VALIDATION,
    "test": Split.TEST,
}
"""Word in the path of a question file -> its split. Files without any count as test."""


class SearchTasks:
    """Questions with what is searched for them.

    size, seed, hops: of the generated corpus and its questions; `size` is ``small`` or ``large``, `hops` of 2 and 3.
    questions: a file, or a folder of files, as `read_questions` reads them; in place of generated ones.
    passages: JSONL file that is searched for them (`read_passages`); not with the retriever ``http``.
    data_sets: keep only questions of these; None: all.
    retriever, url, retriever_options, top_k, max_steps, reward, cache_dir: into the settings of every task; see
      `SearchEnv`.

    Task ids: ``sr-small-train-000123`` for generated questions (``sr-small@7-...`` with a seed other than 0),
    ``sr-2wiki_dev-000017`` for row 17 of a file.
    """

    def __init__(
        self,
        size: str = "small",
        seed: int = 0,
        hops: Sequence[int] = (2, 3),
        questions: str | Path | None = None,
        passages: str | Path | None = None,
        data_sets: Sequence[str] | None = None,
        retriever: str = "bm25",
        url: str | None = None,
        retriever_options: Mapping[str, Any] | None = None,
        top_k: int = DEFAULT_TOP_K,
        max_steps: int = DEFAULT_MAX_STEPS,
        reward: str = "em",
        cache_dir: str | Path | None = None,
    ) -> None:
        if size not in SIZES:
            raise ConfigError.unknown("search tasks: size", size, SIZES)
        if reward not in SCORES:
            raise ConfigError.unknown("search tasks: reward", reward, SCORES)
        if retriever not in RETRIEVERS:
            raise ConfigError.unknown("search tasks: retriever", retriever, RETRIEVERS)
        if not hops or not set(hops) <= set(HOPS):
            raise ConfigError(f"search tasks: hops is {list(hops)}, expected some of {list(HOPS)}.")
        if max_steps < 1 or top_k < 1:
            raise ConfigError(f"search tasks: max_steps {max_steps} and top_k {top_k}, expected at least 1.")
        if (retriever == "http") != (url is not None):
            raise ConfigError(
                f"search tasks: retriever '{retriever}' with url {url!r}. Give a url with 'http', and only then."
            )
        if (questions is not None and retriever != "http") != (passages is not None):
            raise ConfigError(
                f"search tasks: questions {questions!s} and passages {passages!s} with retriever '{retriever}'.\n"
                "  Questions of files need the passages that are searched, unless a server holds them; generated ones bring "
                "their own."
            )
        self.size = size
        self.seed = seed
        self.hops = tuple(hops)
        self.questions = None if questions is None else Path(questions)
        self.passages = None if passages is None else Path(passages)
        self.data_sets = None if data_sets is None else tuple(data_sets)
        self._shared: dict[str, Any] = {
            "max_steps": max_steps,
            "top_k": top_k,
            "reward": reward,
            "retriever": retriever,
        }
        if url is not None:
            self._shared["url"] = url
        if retriever_options:
            self._shared["retriever_options"] = dict(retriever_options)
        if cache_dir is not None:
            self._shared["cache_dir"] = str(cache_dir)

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """Tasks start, start + 1, ... of a split.

        count: None takes 120 generated questions, or all that files have left. Files may have fewer than asked for.
        Raises FormatError if the files hold no question of the split.
        """
        split = split_named(split)
        if start < 0 or (count is not None and count < 1):
            raise ConfigError(
                f"search tasks: start {start} and count {count}, expected start >= 0 and count >= 1 or none."
            )
        if self.questions is None:
            return [self._generated(split, index) for index in range(start, start + (count or DEFAULT_COUNT))]
        rows = self._of_files[split]
        if not rows:
            there = ", ".join(f"{len(found)} of {name.value}" for name, found in self._of_files.items() if found)
            raise FormatError(f"{self.questions}: no question of split '{split.value}'; there are {there or 'none'}.")
        chosen = rows[start : None if count is None else start + count]
        return [self._of_file(split, task_id, question) for task_id, question in chosen]

    def report(self) -> str:
        """What was found and what was left out, in one line."""
        if self.questions is None:
            return f"generated questions of size '{self.size}'"
        kept = ", ".join(f"{len(rows)} {split.value}" for split, rows in self._of_files.items())
        left_out = ", ".join(f"{number} {reason}" for reason, number in sorted(self.skipped.items()))
        return f"{kept}; left out: {left_out or 'none'}"

    @property
    def skipped(self) -> Counter[str]:
        """Questions of the files that are in no split, counted by reason."""
        return Counter() if self.questions is None else self._read[1]

    # Generated

    def _generated(self, split: Split, index: int) -> Task:
        number, position = divmod(index, QUESTIONS[self.size])
        world = world_of(self.size, split, self.seed, number)
        hops = self.hops[position % len(self.hops)]
        chain = world.chains(hops)[position // len(self.hops)]
        rng = random.Random(stable_hash("search phrases", self.size, split, self.seed, index))
        question = question_of(chain, rng)
        settings: dict[str, Any] = {
            "question": question,
            "golden_answers": [chain.answer],
            "data_source": "generated",
            "corpus": {"size": self.size, "split": split.value, "seed": self.seed, "world": number},
            "passages_hash": world.content_hash,
            "evidence": list(chain.path),
            "content_hash": _hash(world.content_hash, question, chain.answer),
        }
        label = self.size if self.seed == 0 else f"{self.size}@{self.seed}"
        task_id = f"sr-{label}-{split.value}-{index:06d}"
        return self._task(task_id, split, HOPS[hops], question, settings)

    # Of files

    def _of_file(self, split: Split, task_id: str, question: Question) -> Task:
        settings: dict[str, Any] = {
            "question": question.question,
            "golden_answers": list(question.golden_answers),
            "data_source": question.data_source,
            "question_id": question.id,
        }
        searched = ""
        if self.passages is not None:
            searched = self._passages_hash
            settings |= {
                "root": str(self.passages.parent),
                "passages": self.passages.name,
                "passages_hash": searched,
            }
        settings["content_hash"] = _hash(searched, question.content_hash)
        return self._task(task_id, split, question.data_source, question.question, settings)

    def _task(self, task_id: str, split: Split, kind: str, goal: str, settings: dict[str, Any]) -> Task:
        return Task(task_id=task_id, env="search", goal=goal, split=split, kind=kind, settings=settings | self._shared)

    @cached_property
    def _passages_hash(self) -> str:
        assert self.passages is not None
        return passages_hash(self.passages)

    @property
    def _of_files(self) -> dict[Split, list[tuple[str, Question]]]:
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[dict[Split, list[tuple[str, Question]]], Counter[str]]:
        """Split -> (task id, question), data sets in turns; and what was left out."""
        by_source: dict[Split, dict[str, list[tuple[str, Question]]]] = {split: {} for split in Split}
        skipped: Counter[str] = Counter()
        seen: set[str] = set()
        # Test first: of a question that stands in two splits, evaluation keeps it and training loses it.
        for split, label, path in sorted(self._files(), key=lambda file: (-list(Split).index(file[0]), file[1])):
            for row, question in enumerate(read_questions(path)):
                if self.data_sets is not None and question.data_source not in self.data_sets:
                    skipped["of other data sets"] += 1
                elif question.content_hash in seen:
                    skipped["seen before"] += 1
                else:
                    seen.add(question.content_hash)
                    rows = by_source[split].setdefault(question.data_source, [])
                    rows.append((f"sr-{label}-{row:06d}", question))
        return {split: _in_turns(sources.values()) for split, sources in by_source.items()}, skipped

    def _files(self) -> list[tuple[Split, str, Path]]:
        """(split, label for ids, file)"""
        root = self.questions
        assert root is not None
        if not root.is_dir():
            return [(_split_in(root.name), _label(root.name), root)]
        paths = sorted(path for path in root.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file())
        searched = None if self.passages is None else self.passages.absolute()
        names = [(path.relative_to(root).as_posix(), path) for path in paths if path.absolute() != searched]
        if not names:
            raise FormatError(f"{root}: no question file below it; they end in {', '.join(SUFFIXES)}.")
        return [(_split_in(name), _label(name), path) for name, path in names]


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _label(name: str) -> str:
    """Example: ``nq/train.jsonl`` -> ``nq.train``"""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return re.sub(r"[^\w.@-]", "_", name.replace("/", "."))


def _split_in(name: str) -> Split:
    """The split that a path tells, its last word counting most. Example: ``2wiki_dev.jsonl`` -> validation"""
    words = [SPLIT_NAMES[word] for word in re.split(r"[^a-z]+", name.lower()) if word in SPLIT_NAMES]
    return words[-1] if words else Split.TEST


def _in_turns(lists: Iterable[list[tuple[str, Question]]]) -> list[tuple[str, Question]]:
    return [row for turn in zip_longest(*lists) for row in turn if row is not None]
