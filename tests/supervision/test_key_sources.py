"""Which earlier steps wrote what a step read, under each writer rule, by hand."""

import pytest

from tutelage.errors import ConfigError
from tutelage.supervision.dependency_graph import build_graph, key_sources
from tutelage.types import Effect, Footprint


def footprint(index, reads="", writes=""):
    effect = Effect.CHANGED if writes else Effect.READ_ONLY
    return Footprint(
        trajectory_id="t", step_index=index, reads=frozenset(reads.split()), writes=frozenset(writes.split()), effect=effect
    )  # fmt: skip


# Step 1 reads what it writes: its own write is no source. `z` is read and never written.
STEPS = [footprint(0, writes="a b"), footprint(1, "a", "a"), footprint(2, "z"), footprint(3, "a b", "a")]


@pytest.mark.parametrize(
    ("writer", "sources"),
    [
        ("last", [{}, {"a": [0]}, {}, {"a": [1], "b": [0]}]),
        ("first", [{}, {"a": [0]}, {}, {"a": [0], "b": [0]}]),
        ("any", [{}, {"a": [0]}, {}, {"a": [0, 1], "b": [0]}]),
    ],
)
def test_sources_under_each_writer_rule(writer, sources):
    assert key_sources(STEPS, writer=writer) == sources


def test_edges_count_the_keys_that_the_sources_name():
    assert build_graph(STEPS, writer="first").edges == ((0, 1, 1), (0, 3, 2))
    assert build_graph(STEPS, writer="any").edges == ((0, 1, 1), (0, 3, 2), (1, 3, 1))


def test_ignored_keys_have_no_source():
    assert key_sources(STEPS, ignore_keys=["a"]) == [{}, {}, {}, {"b": [0]}]


def test_an_unknown_rule_is_refused():
    with pytest.raises(ConfigError, match="Did you mean 'last'"):
        key_sources(STEPS, writer="lst")
