"""Tables: which trajectories they are about, and their cells."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from tutelage.analysis.credit import CreditCase, CreditScores, score_cases
from tutelage.analysis.credit_tables import in_second_half, make_tables, markdown_table, plain_table, to_json
from tutelage.reports.credit import LABELS, SPAN, credit_chart
from tutelage.supervision.replay_impact import StepImpact

SVG = "{http://www.w3.org/2000/svg}"


def case(index: int, success: bool, signal: tuple[float, ...]) -> CreditCase:
    impact = StepImpact(
        trajectory_id=f"t-{index}",
        success=success,
        success_drop=(0.0, 1.0, 0.0, 1.0, 1.0) if success else (0.0,) * 5,
        progress_drop=None,
        invalid_share=(0.0, 0.25, 0.0, 1.0, 0.0),
        intervention="omit",
        num_env_steps=15,
    )
    return CreditCase(
        trajectory_id=f"t-{index}",
        task_id=f"task-{index}",
        kind="put",
        impact=impact,
        signals={"a<b": signal, "flat": (1.0,) * 5},
    )


@pytest.fixture(scope="module")
def scores() -> CreditScores:
    # Impact of a success: 0 1.125 0 1.5 1, of a failure: 0 .125 0 .5 0.
    good, bad = (0.0, 3.0, 0.0, 4.0, 2.0), (4.0, 2.0, 4.0, 1.0, 4.0)
    return score_cases([case(0, True, good), case(1, False, bad), case(2, True, good), case(3, False, bad)])


def test_sets_of_trajectories(scores: CreditScores) -> None:
    first = np.array([True, False, False, False])
    tables = make_tables(scores, split_seed=1, groups={"mine": first})
    assert [(one.name, one.num_cases, one.num_solved) for one in tables[:3]] == [
        ("all", 4, 2),
        ("successes", 2, 2),
        ("failures", 2, 0),
    ]
    assert [one.name for one in tables[3:]] == ["first half", "second half", "mine"]
    assert tables[3].num_cases + tables[4].num_cases == 4
    assert tables[4].num_cases == sum(in_second_half(f"task-{index}", 1) for index in range(4))
    assert (tables[5].num_cases, tables[5].num_solved) == (1, 1)
    assert tables[0].chance == 1 / 5


def test_halves_are_even_and_depend_on_the_seed() -> None:
    second = [in_second_half(f"hh-small-train-{index:06d}", 0) for index in range(1000)]
    other = [in_second_half(f"hh-small-train-{index:06d}", 1) for index in range(1000)]
    assert 450 < sum(second) < 550
    assert 450 < sum(one != two for one, two in zip(second, other, strict=True)) < 550


def test_cells(scores: CreditScores) -> None:
    whole, solved, failed = make_tables(scores)
    row = whole.row("a<b")
    assert solved.row("a<b").measures["rho"].estimate == pytest.approx(1.0)
    assert failed.row("a<b").measures["rho"].estimate == pytest.approx(-1.0)
    assert row.measures["rho"].estimate == pytest.approx(0.0)
    text = plain_table([whole, solved, failed]).splitlines()
    assert text[0].split("  ")[0] == "signal"
    assert text[2].startswith("a<b     0.00 [-1.00, 1.00]       1.00     -1.00")
    assert text[3].split()[:2] == ["flat", "0.00"]
    assert text[4].startswith("random")
    lines = markdown_table(solved).splitlines()
    assert lines[0] == "### successes: 2 trajectories, 2 solved; chance of Hit@10% 0.20"
    assert lines[2].startswith("| signal | rho | pooled rho | given position | rho without last | Hit@10% earlier |")
    # No column for what no trajectory has: progress and closed loop.
    assert lines[2].endswith("| rho S | rho B | constant |")
    assert lines[5].endswith("| 0.00 | 0.00 | 2 |")


def test_an_empty_set_has_dashes(scores: CreditScores) -> None:
    table = make_tables(scores, groups={"none": np.zeros(4, dtype=bool)})[-1]
    assert math.isnan(table.chance)
    assert "| `flat` | - | - | - |" in markdown_table(table)
    data = json.loads(json.dumps(to_json(table), allow_nan=False))
    assert data["chance"] is None
    assert data["rows"][0]["measures"] == {}


def test_the_picture_has_a_mark_for_every_number(scores: CreditScores) -> None:
    tables = make_tables(scores, split_seed=0)
    root = ElementTree.fromstring(credit_chart(tables))
    dots = [dot for dot in root.findall(f"{SVG}circle") if dot.get("r") == "3"]
    # Three signals, two panels, three sets of trajectories.
    assert len(dots) == 18
    # Best signal first (all tie at 0 here, so the order is kept); rho of successes is 1, the right end of the first panel.
    assert float(dots[1].get("cx", "")) == LABELS + SPAN
    labels = [text.text for text in root.findall(f"{SVG}text") if text.get("text-anchor") == "end"]
    assert labels == ["a<b", "flat", "random"]
