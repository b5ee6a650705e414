"""Aptitude, chosen steps, every control, and the figures about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.errors import ConfigError, SupervisionError
from tutelage.supervision.aptitude import NORMALISATIONS, STRUCTURES, AptitudeConfig, normalise, step_aptitude
from tutelage.supervision.graph_statistics import graph_statistics, rank_correlation, round_statistics
from tutelage.supervision.step_credit import (
    STEP_WEIGHTS,
    ChosenSteps,
    MaskConfig,
    choose_steps,
    needs_graph,
    step_weights,
    weigh_steps,
)
from tutelage.testing import make_trajectory
from tutelage.types import DependencyGraph, Effect, Fallback, Footprint, StepAptitude, stable_hash

GRAPH = DependencyGraph(
    trajectory_id="t",
    num_steps=6,
    edges=((0, 1, 1), (1, 2, 2), (1, 3, 1), (2, 5, 1), (3, 4, 2), (3, 5, 1), (4, 5, 1)),
    writer_rule="last",
)
DIVERGENCE = (0.31, 0.22, 0.18, 0.36, 0.24, 0.20)
TOKENS = (12, 10, 14, 11, 9, 16)
ALL = (True,) * 6
TRAJECTORY = make_trajectory("ssssss", trajectory_id="t", env="household")
FOOTPRINTS = [
    Footprint(
        trajectory_id="t",
        step_index=index,
        reads=frozenset(reads.split()),
        writes=frozenset(writes.split()),
        effect=Effect.CHANGED,
    )
    for index, (reads, writes) in enumerate(
        [
            ("", "loc:s vis:s"),
            ("loc:s", "loc:c vis:c"),
            ("loc:c vis:c", "hold:b vis:c"),
            ("loc:c", "loc:k door:k"),
            ("loc:k door:k", "door:k vis:k"),
            ("hold:b loc:k door:k", "placed:b hold:b vis:k"),
        ]
    )
]


def made(divergence: Any = DIVERGENCE, graph: DependencyGraph = GRAPH, **config: Any) -> StepAptitude:
    return step_aptitude(graph, divergence, AptitudeConfig(**config))


def chosen(
    aptitude: StepAptitude, *, seed: int = 0, eligible: Any = ALL, tokens: Any = TOKENS, **mask: Any
) -> ChosenSteps:
    return choose_steps(aptitude, eligible, tokens, MaskConfig(**mask), seed=seed)


def kept(aptitude: StepAptitude, **options: Any) -> list[int]:
    return [t for t, one in enumerate(chosen(aptitude, **options).step_mask) if one]


@st.composite
def graphs(draw: st.DrawFn) -> DependencyGraph:
    num_steps = draw(st.integers(1, 8))
    pairs = [(i, j, 1) for j in range(num_steps) for i in range(j)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return DependencyGraph(trajectory_id="t", num_steps=num_steps, edges=tuple(sorted(edges)), writer_rule="last")


# No finer than what stands well above the epsilon that keeps a division from exploding.
values = st.floats(0, 2).map(lambda value: round(value, 4))


# Aptitude


@settings(max_examples=80, deadline=None)
@given(graph=graphs(), data=st.data(), how=st.sampled_from(["z", "z_sample", "z_log", "rank"]))
def test_signals_are_standardised_or_nought(graph: DependencyGraph, data: st.DataObject, how: str) -> None:
    divergence = data.draw(st.lists(values, min_size=graph.num_steps, max_size=graph.num_steps))
    aptitude = made(divergence, graph, normalise=how)
    for signal, degrees in ((aptitude.l_graph, how == "z_sample"), (aptitude.l_model, False)):
        assert np.mean(signal) == pytest.approx(0, abs=1e-7)  # type: ignore[arg-type]
        assert any(signal) is False or np.std(signal, ddof=degrees) == pytest.approx(1, abs=1e-3)  # type: ignore[arg-type]
    assert np.mean(aptitude.aptitude) == pytest.approx(0, abs=1e-7)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), data=st.data(), alpha=st.floats(0, 1))
def test_the_mix_is_affine_in_alpha(graph: DependencyGraph, data: st.DataObject, alpha: float) -> None:
    divergence = data.draw(st.lists(values, min_size=graph.num_steps, max_size=graph.num_steps))
    low, high = made(divergence, graph, alpha=0.0), made(divergence, graph, alpha=1.0)
    assert low.aptitude == low.l_graph
    assert high.aptitude == high.l_model
    mixed = made(divergence, graph, alpha=alpha)
    expected = (1 - alpha) * np.array(low.aptitude) + alpha * np.array(high.aptitude)
    assert np.allclose(np.array(mixed.aptitude), expected, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(), data=st.data(), shift=st.sampled_from([-1.0, 0.5, 3.0]), factor=st.sampled_from([0.25, 2.0, 10.0])
)
def test_shift_and_scale_of_the_divergence_leave_the_mask(
    graph: DependencyGraph, data: st.DataObject, shift: float, factor: float
) -> None:
    steps = graph.num_steps
    divergence = data.draw(st.lists(st.integers(0, 20).map(lambda n: n / 10), min_size=steps, max_size=steps))
    tokens, eligible = [1] * steps, [True] * steps
    before = made(divergence, graph)
    after = made([factor * value + shift for value in divergence], graph)
    assert np.allclose(np.array(before.aptitude), np.array(after.aptitude), atol=1e-5)
    spread = np.abs(np.array(before.aptitude) - np.mean(before.aptitude))  # type: ignore[arg-type]
    if spread[spread > 0].size == 0 or spread.min() > 1e-4:
        assert chosen(before, tokens=tokens, eligible=eligible) == chosen(after, tokens=tokens, eligible=eligible)


def test_every_structure_has_a_value_per_step() -> None:
    expected = {
        "walk": (0.0869, 0.2184, 0.1448, 0.2047, 0.1409, 0.2044),
        "degree": (1, 3, 2, 3, 2, 3),
        "in_degree": (0, 1, 1, 1, 1, 3),
        "out_degree": (1, 2, 1, 2, 1, 0),
        "slice": (1, 1, 1, 1, 1, 1),
        "descendants": (5, 4, 1, 2, 1, 0),
        "dependent_share": (1, 1, 1 / 3, 1, 1, 0),
        "graph_impact": (1.5, 1.5, 1 + 1 / 6, 1.5, 1.5, 1),
        "slice_then_degree": (5, 7, 6, 7, 6, 7),
        "position": (0, 1, 2, 3, 4, 5),
    }
    assert expected.keys() == STRUCTURES.keys()
    for name, row in expected.items():
        assert STRUCTURES[name](GRAPH, AptitudeConfig()).tolist() == pytest.approx(row, abs=5e-5)
    unused = replace(GRAPH, num_steps=7)
    assert STRUCTURES["slice_then_degree"](unused, AptitudeConfig()).tolist() == [1, 3, 2, 3, 2, 3, 4]
    assert STRUCTURES["graph_impact"](unused, AptitudeConfig()).tolist() == pytest.approx(
        [5 / 12, 4 / 10, 1 / 8, 2 / 6, 1 / 4, 0, 0]
    )


def test_position_decides_between_equal_degrees() -> None:
    late = made(structure="degree", position_weight=0.01, alpha=0.0)
    assert kept(late, rule="top_k", k=1) == [5]
    assert np.mean(late.l_graph) == pytest.approx(0, abs=1e-9)
    assert np.std(late.l_graph) == pytest.approx(1, abs=1e-6)
    early = made(structure="degree", position_weight=-0.01, alpha=0.0)
    assert kept(early, rule="top_k", k=1) == [1]
    alone = made(graph=replace(GRAPH, edges=()), position_weight=0.5, alpha=0.0)
    assert alone.l_graph == pytest.approx(normalise(range(6))[0].tolist(), abs=1e-7)
    assert Fallback.CONSTANT_STRUCTURE in alone.fallbacks


def test_a_walk_that_returns_to_the_last_step() -> None:
    aptitude = made(walk="reverse", restart=-1, alpha=0.0)
    assert aptitude.config_id == "walk=reverse,restart=-1,alpha=0.0"
    assert aptitude.stationary == pytest.approx((0.2407, 0.2431, 0.0863, 0.1596, 0.0863, 0.1841), abs=5e-5)


def test_impact_stands_in_for_the_graph() -> None:
    impact = (0, 1.25, 1.1667, 1.5, 1.5, 1.0)
    config = AptitudeConfig(structure="impact", alpha=0.0)
    aptitude = step_aptitude(GRAPH, None, config, impact=impact)
    assert aptitude.l_graph == tuple(normalise(impact)[0])
    assert kept(aptitude, rule="top_k", k=2) == [3, 4]
    with pytest.raises(SupervisionError, match=r"trajectory t: structure 'impact' without values.*Replay"):
        step_aptitude(GRAPH, None, config)
    with pytest.raises(SupervisionError, match="impact has 2 entries, expected 6"):
        step_aptitude(GRAPH, None, config, impact=(1.0, 2.0))
    with pytest.raises(SupervisionError, match="expected finite numbers"):
        step_aptitude(GRAPH, None, config, impact=(float("nan"),) * 6)


def test_unscored_steps_stay_out_of_the_statistics() -> None:
    aptitude = made((0.31, None, 0.18, 0.36, None, 0.20))
    scored, _ = normalise((0.31, 0.18, 0.36, 0.20))
    assert aptitude.l_model == (scored[0], None, scored[1], scored[2], None, scored[3])
    assert aptitude.aptitude[1] is None
    assert aptitude.l_graph == made().l_graph
    assert aptitude.fallbacks == {Fallback.MISSING_DIVERGENCE}
    for rule in ("above_mean", "all", "top_k"):
        result = chosen(aptitude, rule=rule)
        assert not result.step_mask[1]
        assert not result.step_mask[4]
        assert result.num_eligible == 4
        assert Fallback.MISSING_DIVERGENCE in result.fallbacks


def test_no_teacher_scores_at_all() -> None:
    failed = made([None] * 6)
    assert failed.l_model == failed.aptitude == (None,) * 6
    assert failed.fallbacks == {Fallback.MISSING_DIVERGENCE}
    assert chosen(failed) == ChosenSteps(
        step_mask=(False,) * 6,
        step_weights=(0.0,) * 6,
        num_eligible=0,
        fallbacks=frozenset({Fallback.MISSING_DIVERGENCE, Fallback.NO_ELIGIBLE_STEP}),
    )
    assert made(None).fallbacks == {Fallback.MISSING_DIVERGENCE}
    # Structure alone needs no teacher: none was asked, so none is missing.
    unasked = made(None, alpha=0.0)
    assert unasked.aptitude == unasked.l_graph
    assert unasked.fallbacks == frozenset()
    assert kept(unasked) == [1, 3, 5]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_divergence_that_is_no_number_is_an_error(value: float) -> None:
    with pytest.raises(SupervisionError, match=r"trajectory t, step 2: divergence is (nan|inf), expected a finite"):
        made((0.1, 0.2, value, 0.1, 0.1, 0.1))


def test_lengths_are_checked() -> None:
    with pytest.raises(SupervisionError, match="divergence has 2 entries, expected 6"):
        made((0.1, 0.2))
    with pytest.raises(SupervisionError, match="eligible has 1 entries, expected 6"):
        chosen(made(), eligible=[True])
    with pytest.raises(SupervisionError, match="num_tokens has 1 entries, expected 6"):
        chosen(made(), tokens=[1])


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"structure": "degrees"}, "Did you mean 'degree'"),
        ({"writer": "latest"}, "writer: unknown 'latest'"),
        ({"normalise": "zz"}, "normalise: unknown 'zz'"),
        ({"alpha": 1.5}, r"alpha is 1.5, expected 0 \(structure only\) to 1"),
        ({"damping": 1.0}, "damping is 1.0"),
        ({"edge_weight": "x"}, "edge_weight: unknown 'x'"),
        ({"normalise": "z_log", "structure": "degree"}, "takes a logarithm, with structure 'degree'"),
        ({"normalise": "log_ratio", "restart": -1}, "takes a logarithm, with structure 'walk' and restart -1"),
        ({"normalise_divergence": "z_log"}, "normalise_divergence is 'z_log'"),
    ],
)
def test_configs_that_cannot_be_are_refused(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AptitudeConfig(**settings_)


def test_config_ids_say_what_differs() -> None:
    assert AptitudeConfig().config_id == made().config_id == "default"
    assert AptitudeConfig(ignore_keys=["a"], alpha=0.2).config_id == "ignore_keys=('a',),alpha=0.2"  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="normalise: unknown 'zz'"):
        normalise((1.0, 2.0), "zz")
    assert [normalise((), how)[1] for how in NORMALISATIONS] == [True] * 6


# Choices


def test_ties_go_to_the_earlier_step_at_nine_decimals() -> None:
    aptitude = replace(made(), aptitude=(0.1, 0.5 + 1e-10, 0.5 + 2e-10, 0.5, 0.1, 0.1))
    assert kept(aptitude, rule="top_k", k=2) == [1, 2]
    assert kept(replace(aptitude, aptitude=(0.1, 0.5, 0.5 + 2e-9, 0.5, 0.1, 0.1)), rule="top_k", k=1) == [2]


def test_above_mean_has_a_margin_of_a_millionth() -> None:
    high, rest = 0.6 + 1.9e-6, 0.6 - 1.9e-6
    aptitude = replace(made(), aptitude=(high, rest, high, rest, high, rest))
    assert kept(aptitude) == [0, 2, 4]
    near = replace(made(), aptitude=(0.6 + 4e-7, 0.6 - 4e-7) * 3)
    assert kept(near) == [0, 1, 2, 3, 4, 5]
    assert Fallback.CONSTANT_APTITUDE in chosen(near).fallbacks


@pytest.mark.parametrize(
    ("fraction", "num_steps", "count"), [(0.07, 100, 7), (0.3, 10, 3), (0.3, 1, 1), (0.01, 5, 1), (1.0, 4, 4)]
)
def test_top_fraction_counts_without_rounding_noise(fraction: float, num_steps: int, count: int) -> None:
    graph = DependencyGraph(trajectory_id="t", num_steps=num_steps, edges=(), writer_rule="last")
    aptitude = step_aptitude(graph, [float(t) for t in range(num_steps)])
    result = choose_steps(
        aptitude, [True] * num_steps, [1] * num_steps, MaskConfig(rule="top_fraction", fraction=fraction)
    )
    assert result.step_mask == (False,) * (num_steps - count) + (True,) * count


def test_the_mean_is_over_eligible_steps() -> None:
    eligible = (True, True, True, False, True, True)
    assert kept(made(), eligible=eligible) == [1, 5]
    assert kept(made(), tokens=(12, 10, 14, 0, 9, 16)) == [1, 5]
    assert chosen(made(), eligible=eligible).num_eligible == 5


def test_no_eligible_step() -> None:
    result = chosen(made(), eligible=[False] * 6)
    assert (result.num_steps, result.num_eligible, sum(result.step_weights)) == (0, 0, 0)
    assert result.fallbacks == {Fallback.NO_ELIGIBLE_STEP}


def test_one_eligible_step_is_kept() -> None:
    result = chosen(made(), eligible=[False, False, True, False, False, False])
    assert result.step_mask == (False, False, True, False, False, False)
    assert result.fallbacks == {Fallback.CONSTANT_APTITUDE}


def test_top_divergence() -> None:
    assert kept(made(), rule="top_k", k=2, order="divergence") == [0, 3]
    with pytest.raises(SupervisionError, match=r"trajectory t, step 0: no divergence, but it decides"):
        kept(made(None, alpha=0.0), rule="top_k", order="divergence")


def test_early_and_late_match_the_method() -> None:
    assert kept(made()) == [1, 3]
    assert kept(made(), rule="matched", order="early") == [0, 1]
    assert kept(made(), rule="matched", order="late") == [4, 5]
    assert kept(made(), rule="matched", order="late", eligible=(True, True, True, True, True, False)) == [3, 4]
    # Steps 1 and 3 have 21 tokens: early 12, 22, 36; late 16, 25.
    assert kept(made(), rule="matched", order="early", match="tokens") == [0, 1]
    assert kept(made(), rule="matched", order="late", match="tokens") == [4, 5]
    assert kept(made(), rule="matched", order="late", match="tokens", tokens=(12, 10, 14, 11, 9, 19)) == [5]


def test_random_choices() -> None:
    for k in (1, 3, 6, 9):
        assert chosen(made(), rule="top_k", k=k, order="random").num_steps == min(k, 6)
    counts: Counter[int] = Counter()
    for seed in range(400):
        steps = kept(made(), rule="top_k", k=2, order="random", seed=seed)
        assert steps == kept(made(), rule="top_k", k=2, order="random", seed=seed)
        counts.update(steps)
    assert all(abs(counts[t] - 400 / 3) < 45 for t in range(6))
    order = np.random.default_rng([7, stable_hash("t"), 2]).permutation(6)
    assert kept(made(), rule="top_k", k=2, order="random", seed=7) == sorted(order[:2].tolist())
    assert chosen(made(), rule="matched", order="random").num_steps == 2
    other = replace(made(), trajectory_id="u")
    assert any(
        kept(made(), rule="top_k", k=2, order="random", seed=seed)
        != kept(other, rule="top_k", k=2, order="random", seed=seed)
        for seed in range(5)
    )


def test_shuffled_structure() -> None:
    plain = made()
    shuffled = [step_aptitude(GRAPH, DIVERGENCE, AptitudeConfig(shuffled=True), seed=seed) for seed in range(6)]
    for one in shuffled:
        assert sorted(one.l_graph) == sorted(plain.l_graph)
        assert one.l_model == plain.l_model
        expected = [(a + b) / 2 for a, b in zip(one.l_graph, plain.l_model, strict=True)]  # type: ignore[operator]
        assert one.aptitude == pytest.approx(expected)
    assert len({one.l_graph for one in shuffled}) > 3
    assert shuffled[3] == step_aptitude(GRAPH, DIVERGENCE, AptitudeConfig(shuffled=True), seed=3)
    order = np.random.default_rng([3, stable_hash("t")]).permutation(6)
    assert shuffled[3].l_graph == tuple(plain.l_graph[t] for t in order)


def test_position_decay() -> None:
    raw = np.array([1, 0.6, 0.36, 0.216, 0.1296, 0.07776])
    weights = chosen(made(), rule="all", weights="position_decay").step_weights
    assert weights == pytest.approx(raw / raw.mean())
    part = chosen(
        made(), rule="all", weights="position_decay", kappa=0.5, eligible=(False, True, True, False, False, True)
    )
    assert part.step_weights == pytest.approx((0, 48 / 25, 24 / 25, 0, 0, 3 / 25))


def test_drift_ratio() -> None:
    graph = DependencyGraph(trajectory_id="t", num_steps=3, edges=(), writer_rule="last")
    for divergence, expected in (
        ((0.2, 0.4, 0.1), (1, 0.5, 1.2)),
        ((0.0, 0.4, 0.0), (1, 0, 1)),
        ((0.2, 0.0, 0.2), (1, 1.2, 1)),
    ):
        aptitude = step_aptitude(graph, divergence)
        result = choose_steps(aptitude, [True] * 3, [1] * 3, MaskConfig(rule="all", weights="drift_ratio"))
        assert result.step_weights == pytest.approx(expected)
        assert result.step_mask == (True, True, True)
    with pytest.raises(SupervisionError, match=r"divergence -0.1 below 0 under weights 'drift_ratio'"):
        choose_steps(
            step_aptitude(graph, (0.2, -0.1, 0.1)), [True] * 3, [1] * 3, MaskConfig(rule="all", weights="drift_ratio")
        )


def test_soft_weights_in_extreme_ranges() -> None:
    aptitude = replace(made(), aptitude=(-800.0, 0.0, 800.0, 1.0, 2.0, 3.0))
    for weights in ("sigmoid", "softmax"):
        result = chosen(aptitude, rule="all", weights=weights)
        assert sum(result.step_weights) == pytest.approx(6)
        assert all(weight >= 0 for weight in result.step_weights)
    cold = chosen(made(), rule="all", weights="softmax", tau=0.01)
    assert cold.step_weights[3] == pytest.approx(6)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"rule": "top"}, "rule: unknown 'top'"),
        ({"order": "x"}, "order: unknown 'x'"),
        ({"weights": "soft"}, "weights: unknown 'soft'"),
        ({"match": "step"}, "Did you mean 'steps'"),
        ({"fraction": 0.0}, "fraction is 0.0, expected 0 < fraction <= 1"),
        ({"k": 0}, "k is 0, expected 1 or more"),
        ({"tau": 0.0}, "tau is 0.0"),
        ({"kappa": 1.5}, "kappa is 1.5"),
        ({"cap": 0.0}, "cap is 0.0"),
    ],
)
def test_masks_that_cannot_be_are_refused(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MaskConfig(**settings_)


# Names, and the way from footprints to the mask


def weigh(way: Any, **options: Any) -> tuple[ChosenSteps, StepAptitude]:
    given = {"footprints": FOOTPRINTS, "divergence": DIVERGENCE, "eligible": ALL, "num_tokens": TOKENS, "seed": 0}
    return weigh_steps(way, TRAJECTORY, **(given | options))


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("graphopd", [1, 3]),
        ("soft_pruning", [0, 1, 2, 3, 4, 5]),
        ("divergence_only", [0, 3]),
        ("structural_only", [1, 3, 5]),
        ("degree", [1, 3, 5]),
        ("in_degree", [3, 5]),
        ("out_degree", [0, 1, 3]),
        ("replay_impact", [3, 4]),
        ("position_early", [0, 1]),
        ("position_late", [4, 5]),
        ("graph_topk", [0, 1, 3, 4, 5]),
        ("topk_divergence", [0, 1, 3, 4, 5]),
        ("late_k", [1, 2, 3, 4, 5]),
        ("uniform", [0, 1, 2, 3, 4, 5]),
        ("position_decay", [0, 1, 2, 3, 4, 5]),
        ("drift_ratio", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_names_from_footprints_to_the_mask(name: str, steps: list[int]) -> None:
    result, aptitude = weigh(name, impact=(0, 1.25, 1.1667, 1.5, 1.5, 1.0))
    assert [t for t, one in enumerate(result.step_mask) if one] == steps
    assert aptitude.stationary == made().stationary


@pytest.mark.parametrize("name", ["random_k", "random_matched", "shuffled_centrality"])
def test_random_names_are_fixed_by_seed_and_trajectory(name: str) -> None:
    assert weigh(name, seed=3) == weigh(name, seed=3)
    assert len({weigh(name, seed=seed)[0].step_mask for seed in range(12)}) > 2
    expected = {"random_k": 5, "random_matched": 2}
    if name in expected:
        assert all(weigh(name, seed=seed)[0].num_steps == expected[name] for seed in range(5))


def test_all_published_names_are_there() -> None:
    assert STEP_WEIGHTS.keys() >= {
        "graphopd", "soft_pruning", "divergence_only", "structural_only", "shuffled_centrality", "random_k",
        "topk_divergence", "random_matched", "position_early", "position_late", "position_decay", "degree",
        "in_degree", "out_degree", "replay_impact", "drift_ratio", "uniform",
    }  # fmt: skip


def test_alpha_at_its_ends_is_the_ablation() -> None:
    for alpha, name in ((0.0, "structural_only"), (1.0, "divergence_only")):
        assert step_weights("graphopd", alpha=alpha) == STEP_WEIGHTS[name]
        assert weigh(step_weights("graphopd", alpha=alpha)) == weigh(name)


def test_settings_of_a_name_are_changed_by_name() -> None:
    assert step_weights("random_k", k=8) == (AptitudeConfig(), MaskConfig(rule="top_k", order="random", k=8))
    assert step_weights("graphopd", alpha=0.2, fraction=0.5, rule="top_fraction") == (
        AptitudeConfig(alpha=0.2),
        MaskConfig(rule="top_fraction", fraction=0.5),
    )
    with pytest.raises(ConfigError, match=r"step_weights: unknown 'graphopdd'\. Did you mean 'graphopd'"):
        step_weights("graphopdd")
    with pytest.raises(ConfigError, match=r"step_weights 'graphopd': unknown 'alfa'\. Did you mean 'alpha'"):
        step_weights("graphopd", alfa=0.2)


def test_without_footprints() -> None:
    with pytest.raises(SupervisionError, match=r"trajectory t: no footprints, but these step weights come from its"):
        weigh("graphopd", footprints=None)
    graphless = [name for name, way in STEP_WEIGHTS.items() if not needs_graph(way)]
    assert sorted(graphless) == [
        "divergence_only", "drift_ratio", "late_k", "position_decay", "random_k", "replay_impact", "topk_divergence",
        "uniform",
    ]  # fmt: skip
    impact = (0, 1.25, 1.1667, 1.5, 1.5, 1.0)
    for name in graphless:
        without, aptitude = weigh(name, footprints=None, impact=impact)
        assert without == weigh(name, impact=impact)[0]
        assert not aptitude.fallbacks


def test_footprints_of_another_trajectory_are_refused() -> None:
    with pytest.raises(SupervisionError, match=r"trajectory t: 5 footprints of trajectory t, expected 6 of its own"):
        weigh("graphopd", footprints=FOOTPRINTS[:5])
    other = [replace(one, trajectory_id="u") for one in FOOTPRINTS]
    with pytest.raises(SupervisionError, match=r"trajectory t: 6 footprints of trajectory u"):
        weigh("graphopd", footprints=other)


# Figures


def test_figures_of_one_trajectory() -> None:
    result, aptitude = weigh("graphopd")
    figures = graph_statistics(GRAPH, aptitude, result, TOKENS)
    fallbacks = {f"fallback/{fallback.value}": 0.0 for fallback in Fallback}
    assert figures == pytest.approx(
        fallbacks
        | {
            "graph/num_nodes": 6, "graph/num_edges": 7, "graph/density": 7 / 15, "graph/num_isolated": 0,
            "graph/keys_per_edge": 9 / 7, "graph/max_stationary": max(aptitude.stationary),
            "signal/divergence_mean": 1.51 / 6, "signal/divergence_median": 0.23,
            "signal/corr_graph_model": rank_correlation(aptitude.l_graph, DIVERGENCE),
            "signal/corr_graph_position": rank_correlation(aptitude.l_graph, range(6)),
            "mask/kept_steps": 2, "mask/kept_fraction": 1 / 3, "mask/kept_tokens": 21, "mask/mean_position": 0.4,
        }
    )  # fmt: skip
    # Ranks (1 6 3 5 2 4) against (5 3 1 6 4 2), and against the order of steps.
    assert figures["signal/corr_graph_model"] == pytest.approx(1 - 6 * 38 / 210, abs=1e-6)
    assert figures["signal/corr_graph_position"] == pytest.approx(1 - 6 * 30 / 210, abs=1e-6)


def test_figures_that_are_not_defined_are_left_out() -> None:
    graph = DependencyGraph(trajectory_id="t", num_steps=1, edges=(), writer_rule="last")
    aptitude = step_aptitude(graph, [None])
    figures = graph_statistics(graph, aptitude, choose_steps(aptitude, [True], [3]), [3])
    missing = {
        "signal/divergence_mean",
        "signal/divergence_median",
        "signal/corr_graph_model",
        "signal/corr_graph_position",
    }
    missing |= {"graph/keys_per_edge", "mask/kept_fraction", "mask/mean_position"}
    assert not missing & figures.keys()
    assert figures["graph/density"] == figures["mask/kept_steps"] == 0
    assert {name for name, value in figures.items() if name.startswith("fallback/") and value} == {
        "fallback/single_step", "fallback/no_edges", "fallback/constant_structure", "fallback/missing_divergence",
        "fallback/no_eligible_step",
    }  # fmt: skip
    kept_one = choose_steps(step_aptitude(graph, [0.4]), [True], [3])
    assert graph_statistics(graph, step_aptitude(graph, [0.4]), kept_one, [3])["mask/mean_position"] == 0


def test_figures_of_a_round() -> None:
    rows = [
        {"graph/density": 0.2, "mask/mean_position": 1.0, "fallback/no_edges": 0.0},
        {"graph/density": 0.4, "fallback/no_edges": 1.0},
        {"graph/density": 0.9, "fallback/no_edges": 1.0},
    ]
    assert round_statistics(rows, [True, False, None]) == pytest.approx(
        {
            "graph/density": 0.5, "mask/mean_position": 1.0, "fallback/no_edges": 2.0, "graph/density/success": 0.2,
            "mask/mean_position/success": 1.0, "graph/density/failure": 0.4,
        }
    )  # fmt: skip
    assert round_statistics(rows) == pytest.approx(
        {"graph/density": 0.5, "mask/mean_position": 1.0, "fallback/no_edges": 2.0}
    )
    assert round_statistics([]) == {}


def test_rank_correlation() -> None:
    assert rank_correlation((1, 2, 3), (10, 20, 30)) == pytest.approx(1, abs=1e-6)
    assert rank_correlation((1, 2, 2, 3), (4, 3, 3, 1)) == pytest.approx(-1, abs=1e-6)
    assert rank_correlation((1, 2, 3), (5, 5, 5)) is None
    assert rank_correlation((), ()) is None
