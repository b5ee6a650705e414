"""The page's section on models that learn by reinforcement, from a hand-made run folder."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
import yaml

from tutelage.reports.data import read_run
from tutelage.reports.html import write_report
from tutelage.reports.reinforcement import own_budgets, reinforcement
from tutelage.store import RecordStore
from tutelage.testing import make_trajectory
from tutelage.types import StopReason

SVG = "{http://www.w3.org/2000/svg}"
TEACHER = {"source": "privileged", "context": {"name": "plan"}, "step_weights": {"name": "degree", "alpha": 0.3}}
RECIPE = {
    "name": "tiny",
    "models": {
        "imitation": {"start": "start", "data": ["expert"], "rl": None},
        "grpo": {"start": "imitation", "rl": {"tasks": {"split": "train"}, "teacher": None}},
        "graphopd": {"start": "imitation", "rl": {"tasks": {"split": "train"}, "teacher": TEACHER}},
    },
    "evaluate": {"tasks": {"split": "test"}, "models": ["imitation", "grpo", "graphopd"]},
}
PROOF = "privileged (plan) 0.900 against plain 0.400 on 10 tasks: <better>"


def round_row(index, seconds=(4.0, 3.0, 3.0), **values):
    """One row of metrics.jsonl. seconds: playing, scoring, updating; a round takes 2 s more for measuring."""
    times = dict(zip(("time/rollout_seconds", "time/score_seconds", "time/update_seconds"), seconds, strict=True))
    figures = {
        "rollout/success": 0.25 + index / 4,
        "rollout/ineffective_share": 0.5,
        "policy/entropy": 0.5 - index / 10,
    }
    whole = {**figures, **times, "time/round_seconds": sum(seconds) + 2.0, **values}
    return {"round_index": index, "num_rounds": 2, "values": whole, "seconds": 12.0}


def taught(index):
    return round_row(
        index,
        **{
            "distill/gap": -0.25, "distill/divergence": 0.5, "distill/taught_share": 0.4, "time/graph_seconds": 0.025,
            "time/impact_seconds": 0.0, "graph/num_nodes": 4.0, "graph/num_edges": 3.0 + index, "graph/density": 0.5,
        },
    )  # fmt: skip


def write_model(root, name, rows, curve=()):
    folder = root / "models" / name
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "training.json").write_text(json.dumps({"identity": {}, "result": {"curve": list(curve)}}))


def point(index, greedy, sampled):
    return {"round": index, "evaluate/greedy": greedy, "evaluate/sampled": sampled}


def played(num_steps, solved, number=0):
    replies = ["Room."] + ["You arrive at bed 1. On the bed 1, you see a cd 1."] * num_steps
    return make_trajectory(
        "s" * num_steps,
        ["go to bed 1"] * num_steps,
        replies,
        env="household",
        task_id=f"v{number}",
        goal=f"{num_steps} <steps>",
        reward=float(solved),
        stop_reason=StopReason.COMPLETED if solved else StopReason.MAX_STEPS,
    )


def write_run(root):
    (root / "recipe.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    summary = {"num_episodes": 1280, "env_steps": 30000, "updates": 8, "trained_tokens": 5000, "training_seconds": 24.0}
    stages = {
        "train:grpo": {"seconds": 25.0, "summary": {**summary, "teacher_tokens": 0}},
        "train:graphopd": {"seconds": 30.0, "summary": {**summary, "teacher_tokens": 77000, "proof": PROOF}},
    }
    (root / "run.json").write_text(json.dumps({"stages": stages}))
    write_model(root, "imitation", [{"update_index": index, "loss": 2.0} for index in range(3)])
    write_model(root, "grpo", [round_row(0), round_row(1)], [point(0, 0.25, 0.5), point(2, 0.75, 0.5)])
    write_model(root, "graphopd", [taught(0), taught(1)], [point(0, 0.25, 0.5), point(1, 0.5, 0.5), point(2, 1.0, 0.5)])
    folder = root / "evaluations" / "graphopd"
    folder.mkdir(parents=True)
    store = RecordStore(folder / "trajectories.jsonl", "trajectory")
    for number, (num_steps, solved) in enumerate([(2, True), (5, True), (9, True), (7, False), (1, True)]):
        store.append(played(num_steps, solved, number))


def lines(panel):
    """Colour -> points, of a chart."""
    root = ElementTree.fromstring(str(panel["chart"]))
    return {line.get("stroke"): line.get("points") for line in root.findall(f"{SVG}polyline")}


def test_curves_of_every_model(tmp_path):
    write_run(tmp_path)
    section = reinforcement(read_run(tmp_path))
    panels = {panel["title"]: panel for panel in section["panels"]}
    assert list(panels) == [
        "Validation tasks solved, greedy, %",
        "Validation tasks solved, sampled, %",
        "Own episodes solved, %",
        "Entropy, nats per token",
        "Gap, nats per token",
        "Divergence, nats per token",
        "Steps taught, %",
        "Dependency graph: nodes",
        "Dependency graph: edges",
        "Dependency graph: density",
    ]
    # x 52 (round 0) to 386 (round 2), y 154 (0 %) to 12 (100 %).
    greedy = lines(panels["Validation tasks solved, greedy, %"])
    assert greedy == {
        "var(--series-1)": "52.0,118.5 386.0,47.5",
        "var(--series-2)": "52.0,118.5 219.0,83.0 386.0,12.0",
    }
    # What only one model has keeps that model's colour.
    assert list(lines(panels["Gap, nats per token"])) == ["var(--series-2)"]
    assert [one["name"] for one in section["key"]] == ["grpo", "graphopd"]
    assert section["progress"][1] == {
        "name": "graphopd",
        "values": [
            2, "25.0 % → 100.0 %", "50.0 % → 50.0 %", "25.0 % → 50.0 %", "50.0 % → 50.0 %", "0.500 → 0.400"
        ],
    }  # fmt: skip


def test_time_and_the_share_of_graphs(tmp_path):
    write_run(tmp_path)
    section = reinforcement(read_run(tmp_path))
    assert section["times"] == [
        {"name": "grpo", "values": ["10.00 s", "4.00 s (40 %)", "3.00 s (30 %)", "–", "–", "3.00 s (30 %)", "2.00 s"]},
        {
            "name": "graphopd",
            "values": [
                "10.00 s", "4.00 s (40 %)", "3.00 s (30 %)", "25.0 ms (0.25 %)", "–", "3.00 s (30 %)", "2.00 s"
            ],
        },
    ]  # fmt: skip
    assert section["graph_share"].endswith("this share of a round: 0.25 % in graphopd.")


def test_a_success_and_a_failure_of_middle_length(tmp_path):
    write_run(tmp_path)
    graphs = reinforcement(read_run(tmp_path))["graphs"]
    # Of the successes with 2, 5 and 9 steps the middle one; the one of a single step has no graph.
    assert [one["goal"] for one in graphs["figures"]] == ["5 <steps>", "7 <steps>"]
    assert graphs["figures"][0]["tags"] == ["solved", "5 steps", "4 edges", "density 0.400"]
    assert graphs["figures"][1]["tags"][0] == "max_steps"
    assert (graphs["model"], graphs["weights"]) == ("graphopd", "degree")


@pytest.mark.parametrize("weights", [{"name": "replay_impact"}, {"name": "divergence_only"}, None])
def test_step_weights_without_structure_are_drawn_by_the_default(tmp_path, weights):
    write_run(tmp_path)
    recipe = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    recipe["models"]["graphopd"]["rl"]["teacher"]["step_weights"] = weights
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    assert reinforcement(read_run(tmp_path))["graphs"]["weights"] == "graphopd"


def test_the_last_model_that_was_evaluated_is_drawn(tmp_path):
    write_run(tmp_path)
    (tmp_path / "evaluations" / "graphopd").rename(tmp_path / "evaluations" / "grpo")
    graphs = reinforcement(read_run(tmp_path))["graphs"]
    assert (graphs["model"], graphs["weights"]) == ("grpo", "graphopd")


def test_an_environment_without_footprints_has_no_graphs(tmp_path):
    write_run(tmp_path)
    path = tmp_path / "evaluations" / "graphopd" / "trajectories.jsonl"
    path.unlink()
    RecordStore(path, "trajectory").append(make_trajectory("sss"))
    assert reinforcement(read_run(tmp_path))["graphs"] is None
    assert "Which step used" not in write_report(tmp_path).read_text(encoding="utf-8")


def test_budgets_of_own_episodes(tmp_path):
    write_run(tmp_path)
    budgets = own_budgets(read_run(tmp_path))
    assert budgets["columns"] == [
        "started from", "own episodes", "environment steps", "updates", "trained tokens seen", "teacher tokens", "seconds"
    ]  # fmt: skip
    assert budgets["rows"] == [
        {"name": "grpo", "values": ["imitation", "1 280", "30 000", "8", "5 000", "0", "24.0"]},
        {"name": "graphopd", "values": ["imitation", "1 280", "30 000", "8", "5 000", "77 000", "24.0"]},
    ]


def test_the_page_holds_all_of_it(tmp_path):
    write_run(tmp_path)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<h2>Learning by reinforcement</h2>" in page
    assert (
        "Before it teaches graphopd: privileged (plan) 0.900 against plain 0.400 on 10 tasks: &lt;better&gt;." in page
    )
    assert "5 &lt;steps&gt;" in page
    assert "77 000" in page
    # The loss curve is of the imitation alone, whose rows are one per update.
    assert "Loss over updates" in page
    # One loss curve, two lines of the key, ten panels, two dependency graphs.
    assert page.count("<svg") == 15


def test_a_run_that_has_not_come_to_reinforcement_yet(tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    run = read_run(tmp_path)
    assert reinforcement(run) is None
    assert own_budgets(run) is None
    assert "Learning by reinforcement" not in write_report(tmp_path).read_text(encoding="utf-8")


def test_without_validation_there_is_no_learning_curve(tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    write_model(tmp_path, "grpo", [round_row(0, **{"rollout/success": float("nan")}), round_row(1)])
    section = reinforcement(read_run(tmp_path))
    assert [panel["title"] for panel in section["panels"]] == ["Own episodes solved, %", "Entropy, nats per token"]
    assert section["progress"][0]["values"][1:4] == ["–", "–", "– → 50.0 %"]
    assert section["graph_share"] == ""
