"""A language model as the judge: asked strictly, again at most twice with the error shown, then unscored.

Anything with a `chat` will do: `policies.endpoint.EndpointClient`, or a script in a test. It retries its own connections;
a call that fails all the same is `transport`, and is not asked again here.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tutelage.errors import MENDABLE, ConfigError
from tutelage.evaluation.judge.parse import Parsed, Unscored, parse_category, parse_line
from tutelage.evaluation.judge.prompt import HINTS, LAST_STEPS, SYSTEM, AnswerForm, make_messages, response_format
from tutelage.evaluation.judge.taxonomy import MEANINGS
from tutelage.types import FailureCategory, Judgement, Trajectory, UnscoredReason, stable_hash

MORE_TRIES: Final = 2
"""After an answer that cannot be used."""

_HOPELESS: Final = ("auth", "quota", "not_found")
"""Reasons of an `EndpointError` that the next trajectory would meet too."""

_FINAL: Final = (UnscoredReason.REFUSED, UnscoredReason.TRANSPORT)
"""Reasons that another try would not change."""


class Answered(Protocol):
    """What a server answered."""

    @property
    def text(self) -> str: ...

    @property
    def finish_reason(self) -> str | None: ...


class Chat(Protocol):
    """A chat model; what it raises is a failed call."""

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        response_format: Mapping[str, Any] | None = None,
        draw: str = "",
    ) -> Answered:
        """`draw` tells apart requests that are equal otherwise; it is left out but for further votes and attempts."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One vote: what was read in the end, and every answer on the way."""

    result: Parsed | Unscored
    raw_answers: tuple[str, ...]
    model: str = ""


def ask_strictly(
    chat: Chat,
    messages: Sequence[Mapping[str, Any]],
    parse: Callable[[str, str | None], Parsed | Unscored],
    *,
    more_tries: int = MORE_TRIES,
    schema: Mapping[str, Any] | None = None,
    draw: str = "",
) -> Asked:
    """Ask until `parse(text, finish_reason)` reads a value, `more_tries` times again with the error shown.

    schema: a response format that is sent along, and left out once a server says that it does not accept the request.
    draw: of another vote on an equal question. Raises what the user can mend: a key or a model that the server does not
    know, a budget that is spent.
    """
    options: dict[str, Any] = {"draw": draw} if draw else {}
    talk = [dict(message) for message in messages]
    raw: list[str] = []
    model = ""
    while True:
        try:
            answer = chat.chat(talk, response_format=None if schema is None else dict(schema), **options)
        except MENDABLE:
            raise
        except Exception as error:  # Whatever a client raises, the call failed; which one it was stands in the detail.
            reason = getattr(error, "reason", None)
            if reason in _HOPELESS:
                raise
            if reason == "bad_request" and schema is not None:
                schema = None
                continue
            failed = Unscored(reason=UnscoredReason.TRANSPORT, detail=f"{type(error).__name__}: {error}")
            return Asked(result=failed, raw_answers=tuple(raw), model=model)
        raw.append(answer.text)
        model = str(getattr(answer, "model", "") or model)
        result = parse(answer.text, answer.finish_reason)
        if isinstance(result, Parsed) or result.reason in _FINAL or len(raw) > more_tries:
            return Asked(result=result, raw_answers=tuple(raw), model=model)
        talk += [
            {"role": "assistant", "content": answer.text},
            {
                "role": "user",
                "content": f"This answer could not be used: {result.detail}. Answer again, in the form asked for.",
            },
        ]


@dataclass(frozen=True, kw_only=True)
class EndpointJudge:
    """Asks a model for the category.

    votes: odd; the category with most votes counts, at a tie it is `other`. With more unscored votes than others, or as
    many, the whole is unscored.
    """

    chat: Chat
    model: str
    """For the record, before a server has named itself."""
    form: AnswerForm = "json"
    temperature: float | None = 0.0
    """As the client is set; for the record."""
    votes: int = 1
    structured: bool = True
    """Send the schema along with the form ``json``. False: for a server that does not take it."""
    repair: bool = False
    """Mend missing brackets; see `parse_category`."""
    last_steps: int = LAST_STEPS
    max_chars: int | None = 60_000
    """Of the record shown."""
    concurrency: int = 8

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise ConfigError(
                f"judge: votes is {self.votes}, expected an odd number, so that two categories cannot tie"
            )
        if self.form not in ("json", "line"):
            raise ConfigError.unknown("judge: answer form", self.form, ("json", "line"))

    @property
    def name(self) -> str:
        """The last part stands for the wording of the question. Example: ``endpoint/gpt-x/json/t0/v1/3f9a2c``"""
        heat = "server" if self.temperature is None else f"{self.temperature:g}"
        wording = stable_hash(SYSTEM, MEANINGS, HINTS, self._schema(), self.last_steps, self.max_chars) % 16**6
        form = f"{self.form}+repair" if self.repair else self.form
        return f"endpoint/{self.model}/{form}/t{heat}/v{self.votes}/{wording:06x}"

    def messages(self, trajectory: Trajectory) -> list[dict[str, str]]:
        """What is asked about a trajectory."""
        return make_messages(trajectory, form=self.form, last_steps=self.last_steps, max_chars=self.max_chars)

    def prompt_hash(self, trajectory: Trajectory) -> str:
        """First 16 hex digits of the SHA-256 of the messages and the schema."""
        asked = json.dumps([self.messages(trajectory), self._schema()], sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()[:16]

    def judge(self, trajectory: Trajectory, *, source: str = "", attempt: int = 0) -> Judgement:
        messages = self.messages(trajectory)
        asked = [
            ask_strictly(self.chat, messages, self._parse, schema=self._schema(), draw=_draw(vote, attempt))
            for vote in range(self.votes)
        ]
        result = count_votes([one.result for one in asked])
        return Judgement(
            trajectory_id=trajectory.trajectory_id,
            source=source,
            judge=self.name,
            attempt=attempt,
            category=result.value if isinstance(result, Parsed) else None,
            reason=None if isinstance(result, Parsed) else result.reason,
            detail="" if isinstance(result, Parsed) else result.detail,
            explanation=result.explanation if isinstance(result, Parsed) else "",
            unparsed=isinstance(result, Unscored) and result.reason not in _FINAL,
            repaired=isinstance(result, Parsed) and result.repaired,
            model=next((one.model for one in asked if one.model), self.model),
            prompt_hash=self.prompt_hash(trajectory),
            temperature=self.temperature,
            votes=tuple(_vote(one.result) for one in asked),
            raw_answers=tuple(answer for one in asked for answer in one.raw_answers),
        )

    def _schema(self) -> dict[str, Any] | None:
        return response_format() if self.form == "json" and self.structured else None

    def _parse(self, text: str, finish_reason: str | None) -> Parsed | Unscored:
        if self.form == "line":
            return parse_line(text, finish_reason=finish_reason)
        return parse_category(text, finish_reason=finish_reason, repair=self.repair)


def count_votes(results: Sequence[Parsed | Unscored]) -> Parsed | Unscored:
    """The category with most votes.

    Example: a a b -> a; a b c -> other; a b unscored -> other; a unscored unscored -> unscored
    """
    said = [one for one in results if isinstance(one, Parsed)]
    failed = [one for one in results if isinstance(one, Unscored)]
    if len(failed) >= len(said):
        most = Counter(one.reason for one in failed).most_common(1)[0][0]
        return next(one for one in failed if one.reason is most)
    counts = Counter(one.value for one in said).most_common()
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return Parsed(value=FailureCategory.OTHER, explanation=f"the votes are tied: {', '.join(map(_vote, results))}")
    return next(one for one in said if one.value == counts[0][0])


def _draw(vote: int, attempt: int) -> str:
    """Empty for the first question of all."""
    return f"vote {vote}, attempt {attempt}" if vote or attempt else ""


def _vote(result: Parsed | Unscored) -> str:
    return str(result.value) if isinstance(result, Parsed) else f"unscored:{result.reason.value}"
