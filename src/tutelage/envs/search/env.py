"""Multi-hop question answering as an environment: one question, searches, one answer.

In: a `Task` whose settings hold a question and name what is searched. Settings, all plain JSON:

  question, golden_answers, data_source   the question; the answers are for the score alone
  corpus                                  {size, split, seed, world} of a generated corpus, or
  passages, root                          a JSONL file below root
  passages_hash                           what either must hash to, so that a changed file or generator is noticed
  retriever                               bm25 (default), dense or http
  url, retriever_options                  of the http retriever (`HttpRetriever`); model and more of the dense one
  top_k                                   passages that a search shows; 3 where absent
  max_steps                               steps before the episode is truncated; 4 where absent
  reward                                  em (exact match, default) or f1
  evidence                                titles of the passages on the way to the answer, for `progress`; never shown
  cache_dir                               where indexes are kept; a folder in the user's cache where absent
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tutelage.envs.action_formats import TagFormat
from tutelage.envs.base import StepResult
from tutelage.envs.lifetime import Lifetime
from tutelage.envs.search.answers import SCORES
from tutelage.envs.search.results import plain, write_results
from tutelage.envs.search.retrievers import Retriever
from tutelage.envs.search.sources import answers_inline, retriever_of
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, Observation, ParsedCall, Task, stable_hash

DEFAULT_MAX_STEPS: Final = 4
DEFAULT_TOP_K: Final = 3

ACTION_FORMAT: Final = TagFormat(
    tags={"search": "query", "answer": "text"},
    help=(
        "No action was found in that reply. End with exactly one action: <search>a query</search> to see passages, or "
        "<answer>the answer</answer> to finish."
    ),
    descriptions={
        "search": "Show the passages that fit a query best.",
        "answer": "End the task with the answer: the bare name, date or number.",
    },
)

ANSWERED: Final = "The answer was taken."
"""The observation after an answer; whether it is right is not said."""

_ADVICE: Final = """\
The answer to one search often holds the name that you must search for next. You have few turns, usually 4, and the last \
one must be the answer. Answer with the bare name, date or number, as short as it \
can be: no sentence."""

INSTRUCTIONS: Final = f"""\
You answer a question by looking things up. In every turn, think first, then give exactly one action as the last thing you \
write:

<search>a query</search>   shows the passages that fit the query best, between <information> and </information>
<answer>the answer</answer>   ends the task with your answer

{_ADVICE}

Example
Question: Who is the spouse of the author of Emma?
You: I need the author first. <search>Emma author</search>
<information>
Doc 1: Emma
Emma is a novel written by Jane Roe.
</information>
You: Jane Roe wrote it. Now her spouse. <search>Jane Roe spouse</search>
<information>
Doc 1: Jane Roe
Jane Roe is a writer. She is married to John Low.
</information>
You: <answer>John Low</answer>"""
"""What a language model is told before the first observation."""

_RULES: Final = f"""\
You answer a question by looking things up. In every turn, think first, then do exactly one of these:

search(query)   shows the passages that fit the query best, between <information> and </information>
answer(text)   ends the task with your answer

{_ADVICE}"""


def instructions_of(task: Task, own_format: bool) -> str:
    """`own_format`: actions are written in tags. False: nothing is said of how an action is written."""
    return INSTRUCTIONS if own_format else _RULES


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of an episode, for `SearchEnv.restore`."""

    life: tuple[int, bool]
    answer: str | None
    shown: tuple[str, ...]


class SearchEnv:
    """One episode of one question. The seed of `reset` changes nothing: question and passages are the task's."""

    action_format = ACTION_FORMAT

    def __init__(self, task: Task) -> None:
        """Reads nothing yet. Raises ConfigError where the settings do not say what is asked or searched."""
        settings = task.settings
        self.task = task
        self.max_steps = int(settings.get("max_steps", DEFAULT_MAX_STEPS))
        self.top_k = int(settings.get("top_k", DEFAULT_TOP_K))
        reward = settings.get("reward", "em")
        if reward not in SCORES:
            raise ConfigError.unknown(f"task {task.task_id}: reward", str(reward), SCORES)
        if not settings.get("question") or not settings.get("golden_answers"):
            raise ConfigError(f"task {task.task_id}: no 'question' and 'golden_answers' in {sorted(settings)}.")
        self._score = SCORES[reward]
        self._golden = tuple(settings["golden_answers"])
        self._evidence = frozenset(settings.get("evidence", ()))
        self.inline = answers_inline(settings)
        self._retriever: Retriever | None = None
        self.answer: str | None = None
        """What was answered. None: nothing yet."""
        self._shown: tuple[str, ...] = ()
        """Titles of the passages shown so far, sorted."""
        self.life = Lifetime(task, self.max_steps)

    def reset(self, seed: int) -> Observation:
        """Raises what `retriever_of` raises."""
        self.life.begin()
        # Here, not in the constructor: a first index takes seconds, a server may be slow.
        self._retriever = retriever_of(self.task.settings)
        return Observation.of(f"Question: {plain(self.task.settings['question'])}")

    def step(self, action: Action) -> StepResult:
        self.life.check_step()
        call = self.action_format.apply(action).call
        text = self.action_format.help if call is None else self._do(call)
        terminated = self.answer is not None
        truncated = self.life.count_step(terminated)
        return StepResult(
            observation=Observation.of(text), reward=self.reward(), terminated=terminated, truncated=truncated
        )

    def reward(self) -> float:
        """Score of the answer, 0.0 as long as there is none."""
        return 0.0 if self.answer is None else self._score(self.answer, self._golden)

    def admissible(self) -> tuple[str, ...] | None:
        """Queries and answers are open-ended."""
        return None

    def state_hash(self) -> str:
        """Of what was seen and answered, in whatever order."""
        return f"{stable_hash(self.task.task_id, self._shown, self.answer):016x}"

    def progress(self) -> float | None:
        """Share of the evidence that was shown, the right answer counting as one more piece; 1 once it is given.

        None: the task names no evidence.
        """
        if self.reward() == 1.0:
            return 1.0
        if not self._evidence:
            return None
        return len(self._evidence.intersection(self._shown)) / (len(self._evidence) + 1)

    def snapshot(self) -> Moment:
        return Moment(self.life.moment(), self.answer, self._shown)

    def restore(self, snapshot: object) -> None:
        if not isinstance(snapshot, Moment):
            raise TypeError(f"restore got a {type(snapshot).__name__}, expected what snapshot() gave")
        self.life.go_to(snapshot.life)
        self.answer, self._shown = snapshot.answer, snapshot.shown

    def close(self) -> None:
        """End the episode, waits for a server included; again is harmless. Reward and state_hash stay readable."""
        self.life.close()
        if self._retriever is not None:
            self._retriever.close()

    def _do(self, call: ParsedCall) -> str:
        if call.name == "answer":
            self.answer = str(call.arguments["text"])
            return ANSWERED
        assert self._retriever is not None
        try:
            (found,) = self._retriever.search([str(call.arguments["query"])], self.top_k)
        except EnvError as error:
            raise EnvError(str(error), task_id=self.task.task_id, step=self.life.num_steps) from error
        self._shown = tuple(sorted({*self._shown, *(passage.title for passage in found)}))
        return write_results(found)
