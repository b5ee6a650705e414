"""Edges from keys, figures of a graph, and the walk against another implementation."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.dependency_graph import (
    adjacency,
    backward_slice,
    build_graph,
    degree,
    keys_per_edge,
    num_descendants,
    num_isolated,
    out_degree,
)
from tutelage.supervision.walk import stationary
from tutelage.types import DependencyGraph, Effect, Footprint


def footprint(step: int, reads: str, writes: str, trajectory_id: str = "t") -> Footprint:
    return Footprint(
        trajectory_id=trajectory_id,
        step_index=step,
        reads=frozenset(reads.split()),
        writes=frozenset(writes.split()),
        effect=Effect.CHANGED if writes else Effect.NO_EFFECT,
    )


def graph_of(num_steps: int, *edges: tuple[int, int, int]) -> DependencyGraph:
    return DependencyGraph(trajectory_id="t", num_steps=num_steps, edges=tuple(sorted(edges)), writer_rule="last")


@st.composite
def graphs(draw: st.DrawFn, max_steps: int = 9) -> DependencyGraph:
    num_steps = draw(st.integers(1, max_steps))
    pairs = [(i, j) for j in range(num_steps) for i in range(j)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return graph_of(num_steps, *((i, j, draw(st.integers(1, 4))) for i, j in chosen))


keys = st.frozensets(st.sampled_from(["a:1", "a:2", "b:1", "c"]), max_size=4)
footprint_lists = st.lists(st.tuples(keys, keys), min_size=1, max_size=8).map(
    lambda steps: [footprint(t, " ".join(reads), " ".join(writes)) for t, (reads, writes) in enumerate(steps)]
)


# Edges


def test_a_step_never_points_at_itself_and_reads_before_it_writes() -> None:
    steps = [footprint(0, "a", "a"), footprint(1, "a", "a"), footprint(2, "a", "")]
    assert build_graph(steps).edges == ((0, 1, 1), (1, 2, 1))
    assert build_graph(steps, writer="any").edges == ((0, 1, 1), (0, 2, 1), (1, 2, 1))
    assert build_graph(steps, writer="first").edges == ((0, 1, 1), (0, 2, 1))


def test_a_key_that_nobody_wrote_makes_no_edge() -> None:
    assert build_graph([footprint(0, "a", ""), footprint(1, "a", "b"), footprint(2, "c", "")]).edges == ()


def test_keys_are_ignored_whole_or_by_kind() -> None:
    steps = [footprint(0, "", "a:1 a:2 b:1"), footprint(1, "a:1 a:2 b:1", "")]
    assert build_graph(steps).edges == ((0, 1, 3),)
    assert build_graph(steps, ignore_keys=["a:1"]).edges == ((0, 1, 2),)
    assert build_graph(steps, ignore_keys=["a"]).edges == ((0, 1, 1),)
    assert build_graph(steps, ignore_keys=["a", "b:1"]).edges == ()


@settings(max_examples=100, deadline=None)
@given(steps=footprint_lists)
def test_edges_are_those_of_the_definition(steps: list[Footprint]) -> None:
    rules = {"last": lambda writers: writers[-1:], "any": lambda writers: writers, "first": lambda writers: writers[:1]}
    for name, rule in rules.items():
        expected: dict[tuple[int, int], int] = {}
        for j, step in enumerate(steps):
            for key in step.reads:
                for i in rule([i for i in range(j) if key in steps[i].writes]):
                    expected[i, j] = expected.get((i, j), 0) + 1
        found = build_graph(steps, writer=name)
        assert {(i, j): count for i, j, count in found.edges} == expected
        assert found.density == (len(expected) / (len(steps) * (len(steps) - 1) / 2) if len(steps) > 1 else 0.0)


@settings(max_examples=50, deadline=None)
@given(steps=footprint_lists, at=st.integers(0, 7))
def test_a_written_key_that_nobody_reads_changes_nothing(steps: list[Footprint], at: int) -> None:
    at %= len(steps)
    more = list(steps)
    more[at] = footprint(at, " ".join(steps[at].reads), " ".join({*steps[at].writes, "unread:x"}))
    assert build_graph(more) == build_graph(steps)


def test_missing_and_foreign_footprints_are_errors() -> None:
    with pytest.raises(SupervisionError, match="no footprint, expected one per step"):
        build_graph([])
    with pytest.raises(SupervisionError, match=r"trajectory t, step 1: no footprint, the next is of step 2"):
        build_graph([footprint(0, "", ""), footprint(2, "", "")])
    with pytest.raises(SupervisionError, match=r"step 1: the footprint is of trajectory u"):
        build_graph([footprint(0, "", ""), footprint(1, "", "", "u")])
    with pytest.raises(ConfigError, match=r"unknown 'lst'\. Did you mean 'last'"):
        build_graph([footprint(0, "", "")], writer="lst")


# Figures


def test_slice_and_descendants() -> None:
    #  0 -> 1 -> 3 -> 5,  0 -> 2,  4 alone
    graph = graph_of(6, (0, 1, 1), (1, 3, 2), (3, 5, 1), (0, 2, 1))
    assert backward_slice(graph).tolist() == [1, 1, 0, 1, 0, 1]
    assert num_descendants(graph).tolist() == [4, 2, 0, 1, 0, 0]
    assert num_isolated(graph) == 1
    assert keys_per_edge(graph) == 1.25
    assert keys_per_edge(graph_of(2)) is None
    assert backward_slice(graph_of(1)).tolist() == [1]


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_slice_and_descendants_are_those_of_networkx(graph: DependencyGraph) -> None:
    net = nx.DiGraph([(i, j) for i, j, _ in graph.edges])
    net.add_nodes_from(range(graph.num_steps))
    last = graph.num_steps - 1
    assert backward_slice(graph).tolist() == [
        float(t == last or t in nx.ancestors(net, last)) for t in range(graph.num_steps)
    ]
    assert num_descendants(graph).tolist() == [len(nx.descendants(net, t)) for t in range(graph.num_steps)]
    assert num_isolated(graph) == nx.number_of_isolates(net)
    assert degree(graph).tolist() == [net.degree(t) for t in range(graph.num_steps)]


def test_unknown_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match="edge_weight: unknown 'keys'"):
        adjacency(graph_of(2), "keys")
    with pytest.raises(ConfigError, match="edge_weight: unknown 'keys'"):
        out_degree(graph_of(2), "keys")


# Walk


def pagerank(matrix: np.ndarray, damping: float, restart: int | None = None) -> np.ndarray:
    steps = range(len(matrix))
    net = nx.DiGraph()
    net.add_nodes_from(steps)
    net.add_weighted_edges_from((i, j, matrix[i, j]) for i in steps for j in steps if matrix[i, j])
    ranks = nx.pagerank(
        net,
        alpha=damping,
        personalization=None if restart is None else {restart: 1.0},
        dangling=dict.fromkeys(steps, 1.0),
        tol=1e-14,
        max_iter=10_000,
    )
    return np.array([ranks[t] for t in steps])


@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(max_steps=14),
    damping=st.sampled_from([0.0, 0.5, 0.85, 0.95]),
    edge_weight=st.sampled_from(["binary", "num_keys"]),
    restart=st.sampled_from([None, -1]),
)
def test_the_walk_is_networkx_pagerank(
    graph: DependencyGraph, damping: float, edge_weight: str, restart: int | None
) -> None:
    forward = adjacency(graph, edge_weight)
    for walk, matrix in (("forward", forward), ("reverse", forward.T), ("symmetrised", forward + forward.T)):
        ours = stationary(graph, walk=walk, damping=damping, edge_weight=edge_weight, restart=restart)
        theirs = pagerank(matrix, damping, None if restart is None else graph.num_steps - 1)
        assert np.abs(ours - theirs).max() < 1e-9


@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(),
    damping=st.floats(0, 0.99),
    dangling=st.sampled_from(["uniform", "self"]),
    walk=st.sampled_from(["symmetrised", "forward", "reverse"]),
)
def test_the_walk_is_a_distribution_with_a_floor(
    graph: DependencyGraph, damping: float, dangling: str, walk: str
) -> None:
    weights = stationary(graph, walk=walk, damping=damping, dangling=dangling)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights.min() >= (1 - damping) / graph.num_steps - 1e-12


def transposed(graph: DependencyGraph) -> DependencyGraph:
    """The same graph with all arrows and the order of steps turned round, so that edges still point forward."""
    last = graph.num_steps - 1
    return graph_of(graph.num_steps, *((last - j, last - i, count) for i, j, count in graph.edges))


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_turning_all_arrows_round(graph: DependencyGraph) -> None:
    turned = transposed(graph)
    assert np.allclose(stationary(turned)[::-1], stationary(graph), atol=1e-12)
    assert np.allclose(stationary(turned, walk="reverse")[::-1], stationary(graph, walk="forward"), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), data=st.data())
def test_permuting_the_steps_permutes_the_walk(graph: DependencyGraph, data: st.DataObject) -> None:
    """Orders that keep every edge pointing forward; the walk knows nothing of time."""
    net = nx.DiGraph([(i, j) for i, j, _ in graph.edges])
    net.add_nodes_from(range(graph.num_steps))
    preference = data.draw(st.permutations(range(graph.num_steps)))
    order = list(nx.lexicographical_topological_sort(net, key=preference.__getitem__))
    place = {step: t for t, step in enumerate(order)}
    moved = graph_of(graph.num_steps, *((place[i], place[j], count) for i, j, count in graph.edges))
    for walk in ("symmetrised", "forward", "reverse"):
        assert np.allclose(stationary(moved, walk=walk), stationary(graph, walk=walk)[order], atol=1e-12)


def test_near_damping_one_the_walk_is_the_degree() -> None:
    graph = graph_of(4, (0, 1, 1), (0, 2, 1), (1, 2, 1), (2, 3, 1))
    assert np.allclose(stationary(graph, damping=1 - 1e-9), degree(graph) / 8, atol=1e-6)


def test_a_walk_that_returns_to_one_step() -> None:
    graph = graph_of(4, (0, 1, 1), (2, 3, 1))
    assert np.round(stationary(graph, restart=-1), 4).tolist() == [0, 0, 0.4595, 0.5405]
    assert np.round(stationary(graph, restart=0), 4).tolist() == [0.5405, 0.4595, 0, 0]
    assert stationary(graph, restart=3).tolist() == stationary(graph, restart=-1).tolist()
    with pytest.raises(SupervisionError, match=r"restart at step 4, expected one of its 4 steps"):
        stationary(graph, restart=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"walk": "backward"}, "walk: unknown 'backward'"),
        ({"dangling": "none"}, "dangling: unknown 'none'"),
        ({"damping": 1.0}, "damping is 1.0, expected 0 <= damping < 1"),
    ],
)
def test_unknown_options_of_the_walk_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stationary(graph_of(2), **options)  # type: ignore[arg-type]
