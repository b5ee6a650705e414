"""Pictures of dependency graphs: well-formed, true to the graph, readable as text."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tutelage.analysis.episode_graph import episode_graph
from tutelage.reports.graph_figure import NODE_X, ROW, command_of, graph_figure, graph_page, signed, standalone
from tutelage.testing import make_trajectory
from tutelage.types import Action, ParseOutcome, StopReason

SVG = "{http://www.w3.org/2000/svg}"
REPLIES = [
    "You are in a room. You see a fridge 1.",
    "You arrive at fridge 1. The fridge 1 is closed.",
    "Nothing happens.",
    "You open the fridge 1. The fridge 1 is open. In it, you see a egg 1.",
    "You pick up the egg 1 from the fridge 1.",
]
# 2 reads where it is and that it is closed (0); 3 reads where it is (0), that it is open and what is in it (2).
COMMANDS = ["go to fridge 1", "dance <b> & \x00 sing", "open fridge 1", "take egg 1 from fridge 1"]


def figure(actors="ssee", commands=COMMANDS, **options):
    trajectory = make_trajectory(actors, commands, REPLIES, env="household", goal="take <an egg>", task_id="t&1")
    return graph_figure(episode_graph(trajectory), **options)


def rows(svg):
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("data-step")]


def arcs(svg):
    """(row of the upper end, row of the lower end, width of the line), rows counted from the first."""
    root = ElementTree.fromstring(svg)
    first = float(rows(svg)[0].find(f"{SVG}circle").get("cy"))
    found = []
    for path in root.findall(f"{SVG}path"):
        start, end = re.findall(rf"{NODE_X - 9},([\d.]+)", path.get("d"))
        found.append(((float(start) - first) / ROW, (float(end) - first) / ROW, float(path.get("stroke-width"))))
    return sorted(found)


def test_an_arc_for_every_edge_as_wide_as_its_keys():
    assert arcs(figure()) == [(0, 2, 2.4), (0, 3, 1.4), (2, 3, 2.4)]


def test_a_row_for_every_step():
    shown = rows(figure())
    outlines = [row.find(f"{SVG}circle").get("stroke") for row in shown]
    assert outlines == ["var(--student)", "var(--student)", "var(--expert)", "var(--expert)"]
    assert [row.get("opacity") for row in shown] == [None, "0.42", None, None]
    texts = [[text.text for text in row.findall(f"{SVG}text")] for row in shown]
    assert [line[:2] for line in texts] == [
        ["0", "go to fridge 1"], ["1", "dance <b> & \ufffd sing"], ["2", "open fridge 1"], ["3", "take egg 1 from fridge 1"]
    ]  # fmt: skip
    told = shown[3].find(f"{SVG}title").text.splitlines()
    assert told[0] == "3 expert: take egg 1 from fridge 1 (changed)"
    assert told[1] == "reads container_state:fridge 1, location:fridge 1, visible_at:fridge 1"


def test_credit_fills_the_nodes():
    fills = [float(row.findall(f"{SVG}circle")[1].get("fill-opacity")) for row in rows(figure())]
    # Degrees 2 0 2 2: the step without an edge is empty, the others are full.
    assert fills == [1.0, 0.0, 1.0, 1.0]


def test_the_structural_mask_is_marked():
    # Of the student's steps 0 and 1, only 0 has credit above the mean.
    marked = [row.find(f"{SVG}path") is not None for row in rows(figure())]
    assert marked == [True, False, False, False]


def test_no_edges_no_arcs():
    idle = figure("ss", ["dance", "sing"])
    assert arcs(idle) == []
    assert "at the step with most credit" not in idle


def test_fifty_steps_stay_inside_the_frame():
    commands = [f"go to cabinet {index % 7 + 1}" for index in range(50)]
    replies = ["Room."] + [f"You arrive at cabinet {index % 7 + 1}. On the cabinet {index % 7 + 1}, you see nothing." for index in range(50)]  # fmt: skip
    svg = graph_figure(episode_graph(make_trajectory("s" * 50, commands, replies, env="household")))
    root = ElementTree.fromstring(svg)
    assert len(rows(svg)) == 50
    assert float(rows(svg)[-1].find(f"{SVG}circle").get("cy")) + 7 < float(root.get("height"))
    for path in root.findall(f"{SVG}path"):
        # A curve of this kind reaches three quarters of the way to its control points.
        control = float(re.search(r"C(-?[\d.]+),", path.get("d")).group(1))
        assert NODE_X - 9 - 0.75 * (NODE_X - 9 - control) >= 0


def test_a_long_command_is_cut_and_whole_in_the_tooltip():
    command = "take " + "very " * 30 + "long egg 1 from fridge 1"
    row = rows(figure("ssee", ["go to fridge 1", command, *COMMANDS[2:]]))[1]
    shown = row.findall(f"{SVG}text")[1].text
    assert len(shown) == 52
    assert shown.endswith("…")
    assert command in row.find(f"{SVG}title").text


def test_a_file_of_its_own_carries_its_colours():
    text = standalone(figure(heading=True))
    root = ElementTree.fromstring(text)
    assert "--student:#2f6db0" in root.find(f"{SVG}style").text
    assert "prefers-color-scheme: dark" in root.find(f"{SVG}style").text
    assert root.findall(f"{SVG}text")[0].text == "take <an egg>"
    assert root.findall(f"{SVG}text")[1].text == "t&1.test.s0.n0.a0, solved, 4 steps"


def test_a_page_of_its_own():
    trajectory = make_trajectory("ss", ["dance"] * 2, REPLIES[:3], env="household", goal="a <b> goal", reward=0.0, stop_reason=StopReason.MAX_STEPS)  # fmt: skip
    page = graph_page(episode_graph(trajectory))
    assert page.startswith("<!doctype html>")
    assert "<title>a &lt;b&gt; goal</title>" in page
    assert "max_steps, 2 steps" in page
    assert page.count("<svg") == 1


@pytest.mark.parametrize(("value", "text"), [(1.204, "+1.20"), (-0.38, "−0.38"), (-0.001, "0.00"), (0.0, "0.00")])
def test_credit_as_text(value, text):
    assert signed(value) == text


def test_a_reply_without_a_command_is_shown_as_said():
    mute = Action(text="er\nwell", parse=ParseOutcome.MALFORMED)
    assert command_of(make_trajectory("s", [mute]).steps[0]) == r"'er\nwell' (no command)"
    assert command_of(make_trajectory("s", ["go \n to"]).steps[0]) == "go to"
