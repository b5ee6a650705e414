"""Context rules: which observations stay whole, which become stubs, which steps are left out."""

import pytest

from tutelage.errors import ConfigError
from tutelage.rendering.context import CONTEXT_RULES, Full, LastObservations, LastSteps, elided
from tutelage.types import Message, Observation

LINES = (9, 3, 1, 2, 2)
OBSERVATIONS = [Observation.of("\n".join(f"o{i}" for _ in range(n))) for i, n in enumerate(LINES)]


def texts(view):
    return [None if one is None else one.text.split("\n")[0] for one in view]


def test_full_keeps_everything():
    assert Full().observations(OBSERVATIONS) == OBSERVATIONS
    assert Full().extends_prefix


def test_last_observations_keeps_the_task_and_the_newest():
    view = LastObservations(2).observations(OBSERVATIONS)
    stubs = ["[observation elided: 3 lines]", "[observation elided: 1 lines]"]
    assert texts(view) == ["o0", *stubs, "o3", "o4"]
    assert view[0] == OBSERVATIONS[0]
    assert view[3:] == OBSERVATIONS[3:]


def test_last_one_observation_shows_only_the_newest_and_the_task():
    assert texts(LastObservations(1).observations(OBSERVATIONS[:2])) == ["o0", "o1"]
    assert texts(LastObservations(1).observations(OBSERVATIONS[:3])) == ["o0", "[observation elided: 3 lines]", "o2"]
    assert not LastObservations(1).extends_prefix


def test_last_steps_leaves_steps_out():
    assert texts(LastSteps(1).observations(OBSERVATIONS)) == ["o0", None, None, "o3", "o4"]
    assert texts(LastSteps(2).observations(OBSERVATIONS)) == ["o0", None, "o2", "o3", "o4"]
    assert texts(LastSteps(9).observations(OBSERVATIONS)) == ["o0", "o1", "o2", "o3", "o4"]
    assert not LastSteps(1).extends_prefix


@pytest.mark.parametrize(("text", "lines"), [("", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\n\nb\n", 3)])
def test_a_stub_counts_lines(text, lines):
    assert elided(Observation.of(text)).text == f"[observation elided: {lines} lines]"


def test_a_stub_keeps_the_role_of_the_last_message():
    both = Observation(messages=(Message(role="system", content="s"), Message(role="tool", content="t")))
    assert elided(both).messages == (Message(role="tool", content="[observation elided: 2 lines]"),)


@pytest.mark.parametrize("rule", [LastObservations, LastSteps])
def test_no_observation_at_all_is_refused(rule):
    with pytest.raises(ConfigError, match="n is 0, expected at least 1"):
        rule(0)


def test_rules_have_names():
    assert [CONTEXT_RULES[name] for name in ("full", "last_observations", "last_steps")] == [
        Full, LastObservations, LastSteps,
    ]  # fmt: skip
