"""Search footprints by the table: the worked example of the specification, and each row by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.envs.registry import make_env
from tutelage.envs.search.passages import Passage
from tutelage.envs.search.results import NO_RESULTS, write_results
from tutelage.policies.experts.search import SearchExpert
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import ExpertOnly
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.footprints.search import entities_of, search_footprints
from tutelage.tasks.registry import load_tasks
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, Effect, Footprint, ParseOutcome, Trajectory


def record(texts: list[str], replies: list[str]) -> Trajectory:
    return make_trajectory("s" * len(texts), texts, ["Question: ?", *replies], env="search")


def shown(text: str, title: str = "alpha") -> str:
    return write_results([Passage(title, text)])


def keys(footprints: tuple[Footprint, ...]) -> list[tuple[set[str], set[str]]]:
    return [(set(one.reads), set(one.writes)) for one in footprints]


def test_example_4() -> None:
    trajectory = record(
        [
            "Who directed it? <search>directed film alpha</search>",
            "Now her birthplace. <search>jane doe birthplace</search>",
            "And the year. <search>alpha release year</search>",
            "That is it. <answer>springfield</answer>",
        ],
        [shown("it was made by Jane Doe", "-"), shown("born in Springfield", "-"), shown("out in 1999", "-"), "taken"],
    )
    footprints = search_footprints(trajectory)
    assert keys(footprints) == [
        (
            set(),
            {
                "query_token:directed",
                "query_token:film",
                "query_token:alpha",
                "retrieved_passages",
                "reasoning_state",
                "passage_entity:jane doe",
            },
        ),
        (
            {"reasoning_state", "retrieved_passages", "passage_entity:jane doe"},
            {
                "query_token:jane",
                "query_token:doe",
                "query_token:birthplace",
                "retrieved_passages",
                "reasoning_state",
                "passage_entity:springfield",
            },
        ),
        (
            {"reasoning_state", "retrieved_passages", "query_token:alpha"},
            {
                "query_token:alpha",
                "query_token:release",
                "query_token:year",
                "retrieved_passages",
                "reasoning_state",
                "passage_entity:1999",
            },
        ),
        (
            {"reasoning_state", "retrieved_passages", "passage_entity:springfield"},
            {"reasoning_state", "answer_candidate"},
        ),
    ]
    assert [one.effect for one in footprints] == [Effect.CHANGED] * 4
    assert build_graph(footprints).edges == ((0, 1, 3), (0, 2, 1), (1, 2, 2), (1, 3, 1), (2, 3, 2))
    assert len(build_graph(footprints, writer="any").edges) == 6
    first = build_graph(footprints, writer="first").edges
    assert [(source, target) for source, target, _ in first] == [(0, 1), (0, 2), (0, 3), (1, 3)]
    without = build_graph(footprints, ignore_keys=["reasoning_state", "retrieved_passages"])
    assert without.edges == ((0, 1, 1), (0, 2, 1), (1, 3, 1))
    assert without.density == 0.5


def test_without_a_thought_there_is_no_reasoning_state() -> None:
    trajectory = record(
        ["<search>film alpha</search>", "<think> </think><search>beta</search>", "<answer>beta film</answer>"],
        [shown("by Ann Lee"), NO_RESULTS, "taken"],
    )
    assert keys(search_footprints(trajectory)) == [
        (
            set(),
            {
                "query_token:film",
                "query_token:alpha",
                "retrieved_passages",
                "passage_entity:alpha",
                "passage_entity:ann lee",
            },
        ),
        # An empty result writes its words alone.
        (set(), {"query_token:beta"}),
        ({"retrieved_passages", "query_token:beta", "query_token:film"}, {"answer_candidate"}),
    ]


def test_an_empty_result_after_a_thought_and_a_search_for_nothing() -> None:
    trajectory = record(
        ["Hm. <search>what is the</search>", "<search>of the</search>", "<search>xx</search>"],
        [NO_RESULTS, NO_RESULTS, "?"],
    )
    footprints = search_footprints(trajectory)
    assert keys(footprints) == [
        (set(), {"reasoning_state"}),
        ({"reasoning_state"}, set()),
        ({"reasoning_state"}, {"query_token:xx"}),
    ]
    assert [one.effect for one in footprints] == [Effect.CHANGED, Effect.NO_EFFECT, Effect.CHANGED]


def test_a_malformed_reply_reads_and_writes_nothing() -> None:
    trajectory = make_trajectory(
        "ss",
        ["Hm. <search>alpha</search>", Action(text="I think so", parse=ParseOutcome.MALFORMED)],
        ["Question: ?", shown("text"), "help"],
        env="search",
    )
    _, second = search_footprints(trajectory)
    assert (second.reads, second.writes, second.effect) == (frozenset(), frozenset(), Effect.MALFORMED)
    # A plain command of another record that holds no tag is malformed as well.
    (other,) = search_footprints(make_trajectory("s", ["look"], env="search"))
    assert other.effect is Effect.MALFORMED


def test_an_action_whose_text_has_other_tags_is_read_by_its_command() -> None:
    action = Action(text="<action>search alpha</action>", command="<search>alpha</search>")
    (footprint,) = search_footprints(make_trajectory("s", [action], ["?", shown("text")], env="search"))
    assert "query_token:alpha" in footprint.writes
    assert "reasoning_state" in footprint.writes


@pytest.mark.parametrize(
    ("title", "text", "entities"),
    [
        ("Emma (novel)", "It was written by Jane Austen in 1815.", {"emma novel", "emma", "jane austen", "1815"}),
        ("x", "The Duke of Wellington and Ludwig van Beethoven.", {"x", "duke of wellington", "ludwig van beethoven"}),
        ("x", "In World War I. It began on 28 July 1914.", {"x", "world war i", "28", "july", "1914"}),
        ("x", "J. R. Smith, St. Maurice's Abbey", {"x", "j r smith", "st maurice s abbey"}),
        ("x", "He is of the Al-Shabab. She and Ann", {"x", "al shabab", "ann"}),
        ("x", "Ann of", {"x", "ann"}),
        ("", "no names here", set()),
    ],
)
def test_entities(title: str, text: str, entities: set[str]) -> None:
    assert entities_of(Passage(title, text)) == entities


def test_an_entity_is_mentioned_by_all_of_its_words_in_order() -> None:
    replies = [shown("by Ann Lee"), shown("x"), shown("x"), "taken"]
    texts = [
        "<search>q</search>",
        "<search>lee ann</search>",
        "<search>Did ANN-LEE write?</search>",
        "<answer>Annlee</answer>",
    ]
    footprints = search_footprints(record(texts, replies))
    assert [{key for key in one.reads if key.startswith("passage_entity")} for one in footprints] == [
        set(),
        set(),
        {"passage_entity:ann lee"},
        set(),
    ]


def test_the_graph_of_an_expert_episode_is_its_chain() -> None:
    for task in load_tasks("search", "train", 0, 12):
        trajectory = run_episode(task, make_env(task), {Actor.EXPERT: SearchExpert()}, ExpertOnly(), seed=0)
        assert trajectory.final_observation is not None
        graph = build_graph(footprints_of(trajectory))
        last = len(trajectory.steps) - 1
        # Each search took its name from the one before, the answer from the last.
        assert {(step, step + 1) for step in range(last)} <= {(source, target) for source, target, _ in graph.edges}


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), min_size=1, max_size=4))
def test_no_text_makes_it_raise(pairs: list[tuple[str, str]]) -> None:
    texts = [f"{said}<search>{said}</search>" for said, _ in pairs]
    replies = [shown(reply, title=reply[::-1]) for _, reply in pairs]
    assert len(search_footprints(record(texts, replies))) == len(pairs)
