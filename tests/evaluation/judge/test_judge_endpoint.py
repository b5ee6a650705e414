"""A model as the judge: strict, patient twice, honest about what it could not get."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tutelage.errors import ConfigError, EndpointError, PolicyError, RunBudgetSpent
from tutelage.evaluation.judge.endpoint import EndpointJudge, ask_strictly, count_votes
from tutelage.evaluation.judge.parse import Parsed, Unscored, parse_score
from tutelage.policies.endpoint.completion import Completion
from tutelage.testing import make_trajectory
from tutelage.types import FailureCategory, Judgement, UnscoredReason

FAILED = make_trajectory("ss", reward=0.0, trajectory_id="t")
GOOD = '{"explanation": "It never stops.", "category": "infinite_loop"}'


@dataclass
class Script:
    """Answers in turn; an exception is raised. Keeps what it was asked."""

    answers: Sequence[str | Exception | tuple[str, str]]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        response_format: Mapping[str, Any] | None = None,
        draw: str = "",
    ) -> Completion:
        self.asked.append({"messages": list(messages), "response_format": response_format, "draw": draw})
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        text, finish = answer if isinstance(answer, tuple) else (answer, "stop")
        return Completion(text=text, finish_reason=finish, prompt_tokens=1, completion_tokens=1, model="m-7")


def judged(*answers: str | Exception | tuple[str, str], **options: Any) -> tuple[Judgement, Script]:
    script = Script(answers)
    return EndpointJudge(chat=script, model="m", **options).judge(FAILED, source="evaluations/a"), script


def test_a_good_answer_with_all_that_is_kept() -> None:
    judge = EndpointJudge(chat=Script([GOOD]), model="m")
    got = judge.judge(FAILED, source="evaluations/a")
    assert got == Judgement(
        trajectory_id="t",
        source="evaluations/a",
        judge=judge.name,
        attempt=0,
        category=FailureCategory.INFINITE_LOOP,
        explanation="It never stops.",
        model="m-7",
        prompt_hash=judge.prompt_hash(FAILED),
        temperature=0.0,
        votes=("infinite_loop",),
        raw_answers=(GOOD,),
    )
    assert judge.name.startswith("endpoint/m/json/t0/v1/")
    assert len(got.prompt_hash) == 16


def test_the_schema_is_sent_along_with_json_only() -> None:
    _, script = judged(GOOD)
    assert script.asked[0]["response_format"]["json_schema"]["strict"] is True
    _, script = judged(GOOD, structured=False)
    assert script.asked[0]["response_format"] is None
    got, script = judged("<description>why</description>\ntool_error", form="line")
    assert (got.category, got.explanation) == (FailureCategory.TOOL_ERROR, "why")
    assert script.asked[0]["response_format"] is None


def test_j1_two_more_tries_with_the_error_shown_then_unscored() -> None:
    got, script = judged('"tool_error"', '{"category": "luck"}', "Sorry.")
    assert (got.category, got.reason, got.unparsed) == (None, UnscoredReason.NO_JSON, True)
    assert got.raw_answers == ('"tool_error"', '{"category": "luck"}', "Sorry.")
    assert got.votes == ("unscored:no_json",)
    assert len(script.asked) == 3
    last = script.asked[2]["messages"]
    assert [one["role"] for one in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert last[2]["content"] == '"tool_error"'
    assert "the JSON value is a string" in last[3]["content"]
    assert "'luck' is no category; expected one of: identified_incorrect_file" in last[5]["content"]


def test_a_second_answer_counts() -> None:
    got, script = judged("I think it loops.", GOOD)
    assert (got.category, got.raw_answers) == (FailureCategory.INFINITE_LOOP, ("I think it loops.", GOOD))
    assert got.unparsed is False
    assert len(script.asked) == 2


def test_j1_a_score_is_asked_for_in_the_same_way_and_is_never_0() -> None:
    script = Script(['{"thought": "cut', '{"score": "4/5"}', '{"score": 11}'])
    asked = ask_strictly(
        script,
        [{"role": "user", "content": "?"}],
        lambda text, end: parse_score(text, low=0, high=10, finish_reason=end),
    )
    assert isinstance(asked.result, Unscored)
    assert asked.result.reason is UnscoredReason.OUT_OF_RANGE
    assert len(asked.raw_answers) == 3


@pytest.mark.parametrize(
    ("answers", "reason", "num_asked"),
    [
        (["", "", ""], "no_json", 3),
        ([("{", "length")] * 3, "truncated", 3),
        ([("no", "refusal")], "refused", 1),
        ([("", "content_filter")], "refused", 1),
        ([OSError("gone")], "transport", 1),
        ([PolicyError("no answer")], "transport", 1),
        ([EndpointError("busy", endpoint="judge", reason="rate_limit")], "transport", 1),
        (["hm", KeyError("x")], "transport", 2),
    ],
)
def test_reasons(answers: list[Any], reason: str, num_asked: int) -> None:
    got, script = judged(*answers)
    assert (got.category, got.reason) == (None, reason)
    assert len(script.asked) == num_asked
    assert got.unparsed is (reason in ("no_json", "truncated"))
    assert got.detail


@pytest.mark.parametrize(
    "error",
    [
        EndpointError("wrong key", endpoint="judge", reason="auth"),
        EndpointError("no such model", endpoint="judge", reason="not_found"),
        RunBudgetSpent("no more"),
        ConfigError("no key"),
    ],
)
def test_what_all_others_would_meet_too_ends_the_judging(error: Exception) -> None:
    with pytest.raises(type(error)):
        judged(error)


def test_a_server_that_takes_no_schema_is_asked_without() -> None:
    refusal = EndpointError("response_format is not supported", endpoint="judge", reason="bad_request", status=400)
    got, script = judged(refusal, GOOD)
    assert got.category is FailureCategory.INFINITE_LOOP
    assert [one["response_format"] is None for one in script.asked] == [False, True]
    got, _ = judged(refusal, EndpointError("bad", endpoint="judge", reason="bad_request"))
    assert got.reason is UnscoredReason.TRANSPORT


def answer(category: str) -> str:
    return json.dumps({"explanation": f"because {category}", "category": category})


def test_votes_are_asked_for_apart_and_the_most_frequent_counts() -> None:
    got, script = judged(answer("tool_error"), answer("other"), answer("tool_error"), votes=3)
    assert got.category is FailureCategory.TOOL_ERROR
    assert got.votes == ("tool_error", "other", "tool_error")
    assert [one["draw"] for one in script.asked] == ["", "vote 1, attempt 0", "vote 2, attempt 0"]


def test_ties_are_other_and_too_few_votes_are_none() -> None:
    def vote(name: str) -> Parsed | Unscored:
        if name == "-":
            return Unscored(reason=UnscoredReason.TRANSPORT, detail="gone")
        return Parsed(value=FailureCategory({"a": "tool_error", "b": "infinite_loop", "c": "syntax_error"}[name]))

    def result(votes: str) -> str:
        got = count_votes([vote(name) for name in votes])
        return str(got.value if isinstance(got, Parsed) else got.reason)

    assert result("aab") == "tool_error"
    assert result("abc") == "other"
    assert result("ab-") == "other"
    assert result("aa-") == "tool_error"
    assert result("a--") == "transport"
    assert result("aabb-") == "other"


@pytest.mark.parametrize("votes", [0, 2, 4])
def test_an_even_number_of_votes_is_refused(votes: int) -> None:
    with pytest.raises(ConfigError, match=f"votes is {votes}, expected an odd number"):
        EndpointJudge(chat=Script([]), model="m", votes=votes)


def test_repair_shows_in_name_and_judgement() -> None:
    got, _ = judged('{"category": "other",}', repair=True)
    assert (got.category, got.repaired) == (FailureCategory.OTHER, True)
    assert "/json+repair/" in got.judge


def test_another_wording_of_the_question_is_another_judge() -> None:
    plain = EndpointJudge(chat=Script([]), model="m")
    assert plain.name != EndpointJudge(chat=Script([]), model="m", last_steps=5).name
    assert plain.prompt_hash(FAILED) == EndpointJudge(chat=Script([]), model="other").prompt_hash(FAILED)
    assert plain.prompt_hash(FAILED) != plain.prompt_hash(make_trajectory("s", reward=0.0))
