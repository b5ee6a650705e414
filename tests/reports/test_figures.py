"""Charts: well-formed SVG, and marks where the numbers say."""

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from tutelage.reports.figures import IntervalPoint, bar_chart, interval_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def test_interval_chart_puts_the_dot_at_its_share():
    chart = interval_chart(
        {
            "all <types>": [
                IntervalPoint(label="a & b", estimate=0.5, low=0.25, high=0.75),
                IntervalPoint(label="none", estimate=math.nan, low=0.0, high=1.0),
            ]
        },
        width=420,
    )
    root = ElementTree.fromstring(chart)
    dots = root.findall(f"{SVG}circle")
    assert len(dots) == 1
    # The axis runs from x=170 (0 %) to x=370 (100 %).
    assert float(dots[0].get("cx")) == 270.0
    bar = next(line for line in root.findall(f"{SVG}line") if line.get("stroke"))
    assert (float(bar.get("x1")), float(bar.get("x2"))) == (220.0, 320.0)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"all <types>", "a & b", "no data", "50"} <= set(texts)


def test_line_chart_spans_its_frame_and_leaves_out_what_is_not_finite():
    chart = line_chart(
        {"loss": [(0, 4.0), (5, math.nan), (10, 2.0)]}, x_label="update", y_label="nats", width=302, height=148
    )
    line = ElementTree.fromstring(chart).find(f"{SVG}polyline")
    # Frame: x 52 to 152, y 12 (top, 4 nats) to 112 (0 nats).
    assert line.get("points") == "52.0,12.0 152.0,62.0"


def test_line_chart_without_points_is_nothing():
    assert line_chart({"loss": []}, x_label="", y_label="") == ""


def test_line_chart_with_values_below_zero():
    chart = line_chart({"gap": [(0, -0.5), (10, 0.2)]}, x_label="", y_label="", width=302, height=148)
    root = ElementTree.fromstring(chart)
    # Marks at -0.6 -0.4 -0.2 0 0.2 over y 112 to 12: 25 per 0.2.
    assert root.find(f"{SVG}polyline").get("points") == "52.0,99.5 152.0,12.0"
    ticks = [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    assert ticks == ["-0.6", "-0.4", "-0.2", "0", "0.2"]


def test_zero_is_in_a_chart_of_negative_values():
    chart = line_chart({"gap": [(0, -0.8), (1, -0.4)]}, x_label="", y_label="")
    ticks = re.findall(r'class="tick" text-anchor="end">([^<]*)<', chart)
    assert ticks == ["-0.8", "-0.6", "-0.4", "-0.2", "0"]


def test_one_point_is_a_dot():
    root = ElementTree.fromstring(line_chart({"a": [(3, 1.0)]}, x_label="", y_label="", width=302, height=148))
    dot = root.find(f"{SVG}circle")
    assert (dot.get("cx"), dot.get("cy")) == ("102.0", "12.0")


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 2, ["0", "1", "2"]),
        (0, 12, ["0", "2", "4", "6", "8", "10", "12"]),
        (5, 299, ["50", "100", "150", "200", "250"]),
        (0.5, 1.5, ["0.6", "0.8", "1", "1.2", "1.4"]),
        (7, 7, ["7"]),
    ],
)
def test_marks_of_the_horizontal_axis(low, high, marks):
    chart = line_chart({"a": [(low, 1.0), (high, 1.0)]}, x_label="", y_label="")
    shown = re.findall(r'text-anchor="middle">([^<]+)<', chart)
    assert shown == marks


def test_a_chart_without_legend_uses_its_width():
    chart = line_chart({"a": [(0, 1.0), (1, 1.0)]}, x_label="", y_label="", width=302, height=148, legend=False)
    root = ElementTree.fromstring(chart)
    assert root.find(f"{SVG}polyline").get("points") == "52.0,12.0 288.0,12.0"
    assert "a" not in [text.text for text in root.iter(f"{SVG}text")]


def test_more_series_than_colours_are_told_apart_by_dashes():
    names = [f"arm {index}" for index in range(14)]
    chart = line_chart({name: [(0, 1.0), (1, 2.0)] for name in names}, x_label="", y_label="")
    root = ElementTree.fromstring(chart)
    lines = [(line.get("stroke"), line.get("stroke-dasharray")) for line in root.findall(f"{SVG}polyline")]
    assert len(set(lines)) == 14
    assert lines[6] == ("var(--series-1)", "7 3")
    lowest = max(float(text.get("y")) for text in root.iter(f"{SVG}text") if text.text in names)
    assert lowest < float(root.get("height")) - 36


def test_band_is_drawn_there_and_back():
    chart = line_chart(
        {"a": [(0, 1.0), (1, 1.0)]},
        x_label="", y_label="", bands={"a": [(0, 0.5, 1.5), (1, 0.5, 1.5)]}, width=302, height=148,
    )  # fmt: skip
    polygon = ElementTree.fromstring(chart).find(f"{SVG}polygon")
    assert polygon.get("points") == "52.0,78.7 152.0,78.7 152.0,12.0 52.0,12.0"


def test_bars_are_as_tall_as_their_values():
    chart = bar_chart({"0": {"drawn": 4, "kept": 2}, "1–5": {"drawn": 0, "kept": 0}}, y_label="episodes", height=144)
    heights = [float(bar.get("height")) for bar in ElementTree.fromstring(chart).findall(f"{SVG}rect")][:4]
    assert heights == [100.0, 50.0, 0.0, 0.0]


@pytest.mark.parametrize(("highest", "top"), [(0.0, "1"), (7, "8"), (1.2, "1.5"), (100, "100"), (0.031, "0.04")])
def test_axis_ends_at_a_short_number(highest, top):
    chart = bar_chart({"a": {"x": highest}}, y_label="")
    ticks = re.findall(r'class="tick" text-anchor="end">([^<]*)<', chart)
    assert ticks[-1] == top
