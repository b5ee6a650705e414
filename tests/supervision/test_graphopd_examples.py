"""The worked examples of graph credit, every number of their tables to four decimals.

Keys are short here: `loc:s` stands for `location:sinkbasin 1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tutelage.supervision.aptitude import AptitudeConfig, normalise, step_aptitude, with_order
from tutelage.supervision.dependency_graph import build_graph, degree, in_degree, num_isolated, out_degree
from tutelage.supervision.step_credit import ChosenSteps, MaskConfig, choose_steps, step_weights
from tutelage.supervision.walk import stationary
from tutelage.types import DependencyGraph, Effect, Fallback, Footprint, StepAptitude


def footprints(*steps: tuple[str, str]) -> list[Footprint]:
    """One (reads, writes) per step, keys separated by blanks."""
    return [
        Footprint(
            trajectory_id="t",
            step_index=index,
            reads=frozenset(reads.split()),
            writes=frozenset(writes.split()),
            effect=Effect.CHANGED if writes else Effect.READ_ONLY,
        )
        for index, (reads, writes) in enumerate(steps)
    ]


def graph_of(num_steps: int, *edges: tuple[int, int]) -> DependencyGraph:
    return DependencyGraph(
        trajectory_id="t", num_steps=num_steps, edges=tuple((i, j, 1) for i, j in edges), writer_rule="last"
    )


def near(*expected: float) -> object:
    """To four decimals."""
    return pytest.approx(expected, abs=5.001e-5)


def credit(graph: DependencyGraph, divergence: Sequence[float] | None = None, **config: object) -> StepAptitude:
    if divergence is None:
        config.setdefault("alpha", 0.0)
    return step_aptitude(graph, divergence, AptitudeConfig(**config))  # type: ignore[arg-type]


def choose(aptitude: StepAptitude, **mask: object) -> ChosenSteps:
    steps = len(aptitude.l_graph)
    return choose_steps(aptitude, [True] * steps, [1] * steps, MaskConfig(**mask))  # type: ignore[arg-type]


def kept(aptitude: StepAptitude, **mask: object) -> set[int]:
    return {t for t, chosen in enumerate(choose(aptitude, **mask).step_mask) if chosen}


# Example 1: six steps in the household, won

EXAMPLE_1 = footprints(
    ("", "loc:s vis:s"),
    ("loc:s", "loc:c vis:c"),
    ("loc:c vis:c", "hold:b vis:c"),
    ("loc:c", "loc:k door:k"),
    ("loc:k door:k", "door:k vis:k"),
    ("hold:b loc:k door:k", "placed:b hold:b vis:k"),
)
DIVERGENCE_1 = (0.31, 0.22, 0.18, 0.36, 0.24, 0.20)
GRAPH_1 = build_graph(EXAMPLE_1)


def test_example_1_edges_under_the_three_writer_rules() -> None:
    assert GRAPH_1.edges == ((0, 1, 1), (1, 2, 2), (1, 3, 1), (2, 5, 1), (3, 4, 2), (3, 5, 1), (4, 5, 1))
    assert GRAPH_1.density == pytest.approx(0.4667, abs=5e-5)
    of_any = build_graph(EXAMPLE_1, writer="any")
    assert of_any.edges == ((0, 1, 1), (1, 2, 2), (1, 3, 1), (2, 5, 1), (3, 4, 2), (3, 5, 2), (4, 5, 1))
    first = build_graph(EXAMPLE_1, writer="first")
    assert first.edges == ((0, 1, 1), (1, 2, 2), (1, 3, 1), (2, 5, 1), (3, 4, 2), (3, 5, 2))
    assert first.density == pytest.approx(0.4)
    assert (GRAPH_1.writer_rule, of_any.writer_rule, first.writer_rule) == ("last", "any", "first")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (-1.7110, 1.1084, -0.4692, 0.8148, -0.5524, 0.8092)),
        ({"normalise": "z_sample"}, (-1.5619, 1.0118, -0.4283, 0.7438, -0.5042, 0.7387)),
        ({"normalise": "z_log"}, (-1.8872, 0.9888, -0.2933, 0.7868, -0.3780, 0.7828)),
        ({"normalise": "log_ratio"}, (-0.6516, 0.2702, -0.1407, 0.2054, -0.1679, 0.2041)),
        ({"normalise": "rank"}, (-1.4639, 1.4639, -0.2928, 0.8783, -0.8783, 0.2928)),
        ({"normalise": "raw"}, (0.0869, 0.2184, 0.1448, 0.2047, 0.1409, 0.2044)),
        ({"damping": 0.95}, (-1.7633, 0.9735, -0.4541, 0.8680, -0.4875, 0.8634)),
        ({"edge_weight": "num_keys"}, (-1.9165, 1.2298, 0.0143, 0.8889, -0.1305, -0.0860)),
        ({"structure": "degree"}, (-1.7889, 0.8944, -0.4472, 0.8944, -0.4472, 0.8944)),
        ({"walk": "forward"}, (-0.9621, -0.2565, -0.3095, -0.3095, -0.3320, 2.1695)),
        ({"walk": "reverse"}, (1.4784, 1.2042, -0.8149, -0.0354, -0.8149, -1.0174)),
    ],
)
def test_example_1_structural_credit(config: dict[str, object], expected: tuple[float, ...]) -> None:
    assert credit(GRAPH_1, **config).l_graph == near(*expected)


def test_example_1_walks() -> None:
    assert credit(GRAPH_1).stationary == near(0.0869, 0.2184, 0.1448, 0.2047, 0.1409, 0.2044)
    assert stationary(GRAPH_1, walk="forward").tolist() == near(0.0772, 0.1428, 0.1379, 0.1379, 0.1358, 0.3684)
    assert stationary(GRAPH_1, walk="reverse").tolist() == near(0.3089, 0.2825, 0.0882, 0.1633, 0.0882, 0.0688)


def test_example_1_degrees() -> None:
    assert degree(GRAPH_1).tolist() == [1, 3, 2, 3, 2, 3]
    assert in_degree(GRAPH_1).tolist() == [0, 1, 1, 1, 1, 3]
    assert out_degree(GRAPH_1).tolist() == [1, 2, 1, 2, 1, 0]
    assert degree(GRAPH_1, "num_keys").tolist() == [1, 4, 3, 4, 3, 3]


def test_example_1_mix_and_mask() -> None:
    aptitude = credit(GRAPH_1, DIVERGENCE_1)
    assert aptitude.divergence == DIVERGENCE_1
    assert aptitude.l_model == near(0.9207, -0.4998, -1.1312, 1.7099, -0.1841, -0.8155)
    assert aptitude.aptitude == near(-0.3951, 0.3043, -0.8002, 1.2624, -0.3683, -0.0031)
    assert choose(aptitude) == ChosenSteps(
        step_mask=(False, True, False, True, False, False),
        step_weights=(0.0, 1.0, 0.0, 1.0, 0.0, 0.0),
        num_eligible=6,
        fallbacks=frozenset(),
    )


def test_example_1_soft_weights() -> None:
    aptitude = credit(GRAPH_1, DIVERGENCE_1)
    sigmoid = choose(aptitude, rule="all", weights="sigmoid")
    assert sigmoid.step_weights == near(0.8116, 1.1604, 0.6251, 1.5717, 0.8246, 1.0066)
    assert sigmoid.step_mask == (True,) * 6
    softmax = choose(aptitude, rule="all", weights="softmax")
    assert softmax.step_weights == near(0.5248, 1.0562, 0.3500, 2.7532, 0.5391, 0.7767)
    assert step_weights("soft_pruning") == (AptitudeConfig(), MaskConfig(rule="all", weights="sigmoid"))


def test_example_1_soft_loss() -> None:
    """The constant value of a token is its step's divergence; Z = sum of weight x tokens, or of tokens."""
    weights = np.array(choose(credit(GRAPH_1, DIVERGENCE_1), rule="all", weights="sigmoid").step_weights)
    tokens = np.array((12, 10, 14, 11, 9, 16))
    loss = float(np.sum(weights * tokens * DIVERGENCE_1))
    assert loss / float(np.sum(weights * tokens)) == pytest.approx(0.2591, abs=5e-5)
    assert loss / tokens.sum() == pytest.approx(0.2552, abs=5e-5)


def test_example_1_top_steps_and_alpha() -> None:
    aptitude = credit(GRAPH_1, DIVERGENCE_1)
    assert kept(aptitude, rule="top_fraction", fraction=0.3) == {1, 3}
    assert kept(aptitude, rule="top_k", k=5) == {0, 1, 3, 4, 5}
    masks = {alpha: kept(credit(GRAPH_1, DIVERGENCE_1, alpha=alpha)) for alpha in (0.0, 0.2, 0.7, 1.0)}
    assert masks == {0.0: {1, 3, 5}, 0.2: {1, 3, 5}, 0.7: {0, 3}, 1.0: {0, 3}}
    for alpha in (0.7, 1.0):
        assert kept(credit(GRAPH_1, DIVERGENCE_1, alpha=alpha), rule="top_k", k=2) == {0, 3}


def test_example_1_shuffled() -> None:
    shuffled = with_order(credit(GRAPH_1, DIVERGENCE_1), (5, 2, 0, 4, 1, 3), alpha=0.5)
    assert shuffled.l_graph == near(0.8092, -0.4692, -1.7110, -0.5524, 1.1084, 0.8148)
    # The table adds the rounded columns and prints .4622 and -.0004 for the last two.
    assert shuffled.aptitude == near(0.8650, -0.4845, -1.4211, 0.5788, 0.4621, -0.0003)
    assert kept(shuffled) == {0, 3, 4}


# Example 2: a fridge opened twice


def test_example_2() -> None:
    steps = footprints(
        ("", "loc:f door:f"),
        ("loc:f door:f", "door:f vis:f"),
        ("loc:f door:f", "door:f"),
        ("loc:f door:f", "door:f vis:f"),
        ("loc:f door:f vis:f", "hold:a vis:f"),
    )
    last = build_graph(steps)
    assert last.edges == ((0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 1), (1, 2, 1), (2, 3, 1), (3, 4, 2))
    assert last.density == pytest.approx(0.7)
    of_any = build_graph(steps, writer="any")
    assert {edge[:2] for edge in of_any.edges} == {edge[:2] for edge in last.edges} | {(1, 3), (1, 4), (2, 4)}
    assert of_any.density == 1.0
    first = build_graph(steps, writer="first")
    assert first.edges == ((0, 1, 2), (0, 2, 2), (0, 3, 2), (0, 4, 2), (1, 4, 1))
    assert first.density == 0.5

    aptitude = credit(last, (0.2, 0.1, 0.4, 0.1, 0.2))
    assert aptitude.stationary == near(0.2771, 0.1491, 0.2124, 0.2124, 0.1491)
    assert aptitude.l_graph == near(1.6113, -1.0651, 0.2595, 0.2595, -1.0651)
    assert aptitude.l_model == near(0, -0.9129, 1.8257, -0.9129, 0)
    assert aptitude.aptitude == near(0.8057, -0.9890, 1.0426, -0.3267, -0.5326)
    assert kept(aptitude) == {0, 2}
    assert credit(last, walk="forward").l_graph == near(-1.1763, -0.9822, -0.0407, 0.7595, 1.4398)
    assert credit(last, walk="reverse").l_graph == near(1.9542, -0.2599, -0.3290, -0.4915, -0.8739)


# Example 3: a shop


def test_example_3() -> None:
    words = "query:red query:cotton query:shirt"
    steps = footprints(
        ("", words),
        (words, "product:b001"),
        ("product:b001", ""),
        (words, "product:b002"),
        ("product:b002", "attr:red"),
        ("product:b002", "attr:large"),
        ("product:b002 attr:red attr:large", "purchase"),
    )
    graph = build_graph(steps)
    edges = ((0, 1, 3), (0, 3, 3), (1, 2, 1), (3, 4, 1), (3, 5, 1), (3, 6, 1), (4, 6, 1), (5, 6, 1))
    assert graph.edges == edges
    assert all(build_graph(steps, writer=writer).edges == edges for writer in ("any", "first"))
    assert graph.density == pytest.approx(0.3810, abs=5e-5)

    aptitude = credit(graph, (0.42, 0.18, 0.55, 0.20, 0.09, 0.11, 0.15))
    assert aptitude.stationary == near(0.1336, 0.1509, 0.0856, 0.2259, 0.1174, 0.1174, 0.1692)
    assert aptitude.l_graph == near(-0.2209, 0.1928, -1.3651, 1.9796, -0.6072, -0.6072, 0.6280)
    assert aptitude.l_model == near(1.1012, -0.3907, 1.9093, -0.2664, -0.9502, -0.8259, -0.5772)
    assert aptitude.aptitude == near(0.4402, -0.0990, 0.2721, 0.8566, -0.7787, -0.7166, 0.0254)
    assert kept(aptitude) == {0, 2, 3, 6}
    assert kept(aptitude, rule="top_fraction") == {0, 2, 3}
    forward = credit(graph, walk="forward").l_graph
    assert forward == near(-0.9235, -0.4380, 0.4602, -0.4380, -0.4622, -0.4622, 2.2637)
    reverse = credit(graph, walk="reverse").l_graph
    assert reverse == near(2.1110, -0.2226, -0.7635, 0.8049, -0.5832, -0.5832, -0.7635)
    by_keys = credit(graph, edge_weight="num_keys").l_graph
    assert by_keys == near(1.3121, 0.3609, -1.3522, 1.4253, -0.7949, -0.7949, -0.1562)


# Example 4: search and answer

EXAMPLE_4 = footprints(
    ("", "query:directed query:film query:alpha passages reasoning entity:jane_doe"),
    ("reasoning passages entity:jane_doe", "query:jane query:doe query:birthplace passages reasoning entity:town"),
    ("reasoning passages query:alpha", "query:alpha query:release query:year passages reasoning entity:1999"),
    ("reasoning passages entity:town", "reasoning answer"),
)
DIVERGENCE_4 = (0.30, 0.12, 0.45, 0.21)


def test_example_4() -> None:
    graph = build_graph(EXAMPLE_4)
    assert graph.edges == ((0, 1, 3), (0, 2, 1), (1, 2, 2), (1, 3, 1), (2, 3, 2))
    assert graph.density == pytest.approx(0.8333, abs=5e-5)
    assert {edge[:2] for edge in build_graph(EXAMPLE_4, writer="any").edges} == {
        (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3),
    }  # fmt: skip
    assert [edge[:2] for edge in build_graph(EXAMPLE_4, writer="first").edges] == [(0, 1), (0, 2), (0, 3), (1, 3)]
    aptitude = credit(graph, DIVERGENCE_4)
    assert aptitude.stationary == near(0.2048, 0.2952, 0.2952, 0.2048)
    assert aptitude.l_graph == near(-1, 1, 1, -1)
    assert aptitude.l_model == near(0.2462, -1.2309, 1.4771, -0.4924)
    assert aptitude.aptitude == near(-0.3769, -0.1155, 1.2385, -0.7462)
    assert kept(aptitude) == {2}


def test_example_4_without_the_keys_that_every_step_writes() -> None:
    graph = build_graph(EXAMPLE_4, ignore_keys=["reasoning", "passages"])
    assert graph.edges == ((0, 1, 1), (0, 2, 1), (1, 3, 1))
    assert graph.density == 0.5
    aptitude = credit(graph, DIVERGENCE_4)
    assert aptitude.stationary == near(0.3246, 0.3246, 0.1754, 0.1754)
    assert aptitude.l_graph == near(1, 1, -1, -1)
    assert aptitude.aptitude == near(0.6231, -0.1155, 0.2385, -0.7462)
    assert kept(aptitude) == {0, 2}


# Example 5: degenerate cases


def test_example_5_one_step() -> None:
    graph = graph_of(1)
    assert graph.density == 0.0
    aptitude = credit(graph, (0.4,))
    assert aptitude == replace(
        aptitude, stationary=(1.0,), l_graph=(0.0,), divergence=(0.4,), l_model=(0.0,), aptitude=(0.0,)
    )
    chosen = choose(aptitude)
    assert chosen.step_mask == (True,)
    assert chosen.fallbacks == {
        Fallback.SINGLE_STEP,
        Fallback.NO_EDGES,
        Fallback.CONSTANT_STRUCTURE,
        Fallback.CONSTANT_DIVERGENCE,
        Fallback.CONSTANT_APTITUDE,
    }
    assert kept(aptitude, rule="top_k", k=5) == {0}


def test_example_5_no_edges() -> None:
    aptitude = credit(graph_of(3), (0.5, 0.1, 0.3))
    assert aptitude.stationary == near(1 / 3, 1 / 3, 1 / 3)
    assert aptitude.l_graph == (0.0, 0.0, 0.0)
    assert aptitude.l_model == near(1.2247, -1.2247, 0)
    assert aptitude.aptitude == near(0.6124, -0.6124, 0)
    chosen = choose(aptitude)
    assert chosen.step_mask == (True, False, False)
    assert chosen.fallbacks == {Fallback.NO_EDGES, Fallback.CONSTANT_STRUCTURE}


def test_example_5_triangle() -> None:
    graph = graph_of(3, (0, 1), (0, 2), (1, 2))
    aptitude = credit(graph, (0.2,) * 3)
    assert aptitude.stationary == near(1 / 3, 1 / 3, 1 / 3)
    assert aptitude.l_graph == aptitude.l_model == aptitude.aptitude == (0.0, 0.0, 0.0)
    assert kept(aptitude) == {0, 1, 2}
    assert choose(aptitude).fallbacks == {
        Fallback.CONSTANT_STRUCTURE,
        Fallback.CONSTANT_DIVERGENCE,
        Fallback.CONSTANT_APTITUDE,
    }
    assert kept(aptitude, rule="top_fraction") == {0}
    forward = credit(graph, walk="forward")
    assert forward.stationary == near(0.1976, 0.2816, 0.5209)
    assert forward.l_graph == near(-0.9911, -0.3781, 1.3692)


def test_three_equal_thirds_are_constant_in_every_normalisation() -> None:
    thirds = stationary(graph_of(3, (0, 1), (0, 2), (1, 2)))
    for how in ("z", "z_sample", "z_log", "log_ratio", "rank", "raw"):
        values, constant = normalise(thirds, how)
        assert (values.tolist(), constant) == ([0.0, 0.0, 0.0], True)


def test_example_5_chain() -> None:
    graph = graph_of(4, (0, 1), (1, 2), (2, 3))
    aptitude = credit(graph, (0.2,) * 4)
    assert aptitude.stationary == near(0.1754, 0.3246, 0.3246, 0.1754)
    assert aptitude.l_graph == near(-1, 1, 1, -1)
    assert aptitude.l_model == (0.0,) * 4
    assert aptitude.aptitude == near(-0.5, 0.5, 0.5, -0.5)
    assert kept(aptitude) == {1, 2}
    assert kept(aptitude, rule="top_k", k=1) == {1}
    assert stationary(graph, walk="forward").tolist() == near(0.1162, 0.2149, 0.2988, 0.3701)
    assert stationary(graph, walk="forward", dangling="self").tolist() == near(0.0375, 0.0694, 0.0965, 0.7967)


def test_example_5_star() -> None:
    aptitude = credit(graph_of(4, (0, 1), (0, 2), (0, 3)), (0.2,) * 4)
    assert aptitude.stationary == near(0.4797, 0.1734, 0.1734, 0.1734)
    assert aptitude.l_graph == near(1.7321, -0.5774, -0.5774, -0.5774)
    assert aptitude.aptitude == near(0.8660, -0.2887, -0.2887, -0.2887)
    assert kept(aptitude) == {0}
    assert kept(aptitude, rule="top_fraction") == {0, 1}


def test_example_5_an_isolated_step() -> None:
    graph = graph_of(4, (0, 2), (2, 3))
    assert num_isolated(graph) == 1
    aptitude = credit(graph, (0.2, 0.5, 0.2, 0.1))
    assert aptitude.stationary == near(0.2445, 0.0476, 0.4633, 0.2445)
    assert aptitude.l_graph == near(-0.0372, -1.3760, 1.4504, -0.0372)
    assert aptitude.l_model == near(-0.3333, 1.6667, -0.3333, -1)
    assert aptitude.aptitude == near(-0.1853, 0.1453, 0.5585, -0.5186)
    assert kept(aptitude) == {1, 2}


# Section 6: the estimators order steps differently


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (lambda delta: -delta, (0, -1.2247, 1.2247)),
        (lambda delta: np.exp(delta) - 1 - delta, (-1.0455, -0.3020, 1.3475)),
        (np.abs, (-0.9258, -0.4629, 1.3887)),
    ],
)
def test_divergences_normalise_in_their_own_order(estimator: object, expected: tuple[float, ...]) -> None:
    steps = [np.array(gaps) for gaps in ((0.3, -0.5, 0.1, -0.7), (0.6, 0.4), (-0.9,))]
    divergence = [float(estimator(gaps).mean()) for gaps in steps]  # type: ignore[operator]
    assert credit(graph_of(3), divergence, alpha=1.0).l_model == near(*expected)
