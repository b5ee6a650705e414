"""The page of a run: made from files alone, whole, and true to them."""

import json

import pytest
import yaml

from tutelage.errors import ConfigError
from tutelage.evaluation.run import result_of
from tutelage.reports.html import write_report
from tutelage.store import RecordStore
from tutelage.testing import make_trajectory
from tutelage.types import StopReason, Verdict

RECIPE = {
    "name": "tiny",
    "seed": 3,
    "description": "Two arms & a <test>.",
    "rollouts": {
        "corrections": {"switch": {"name": "uniform", "low": 0, "high": 4}, "tasks": {"split": "train", "count": 3}}
    },
    "models": {"imitation": {}, "corrected": {}},
    "evaluate": {"tasks": {"split": "test", "count": 4}, "baseline": "imitation", "models": ["imitation", "corrected"]},
    "report": {"title": "A tiny run"},
}


def write_run(root):
    (root / "recipe.yaml").write_text(yaml.safe_dump(RECIPE))
    (root / "run.json").write_text(
        json.dumps(
            {
                "versions": {"tutelage": "0.1.0"},
                "stages": {"train:corrected": {"seconds": 2.5, "summary": {"updates": 7}}},
            }
        )
    )
    corrections = root / "rollouts" / "corrections"
    corrections.mkdir(parents=True)
    store = RecordStore(corrections / "trajectories.jsonl", "trajectory")
    verdicts = RecordStore(corrections / "verdicts.jsonl", "verdict")
    replies = ["Your task is to: <b>look</b>.", "Nothing happens.", "You arrive.", "You won."]
    kept = make_trajectory("sse", ["eat", "go", "use"], replies, task_id="t0", drawn_switch=2, goal="look at it")
    lost = make_trajectory("sss", task_id="t1", drawn_switch=4, stop_reason=StopReason.MAX_STEPS, reward=0.0)
    for one in (kept, lost):
        store.append(one)
        keep = one is kept
        verdicts.append(
            Verdict(
                trajectory_id=one.trajectory_id, keep=keep, filter="all", reason="kept" if keep else "not_successful"
            )
        )
    (corrections / "ledger.json").write_text(json.dumps({"drawn": 2, "kept": 1, "dropped": {"not_successful": 1}}))
    for arm, won in (("imitation", 1), ("corrected", 3)):
        folder = root / "evaluations" / arm
        folder.mkdir(parents=True)
        played = [
            make_trajectory("ss", task_id=f"v{i}", task_kind="pick", reward=1.0)
            if i < won
            else make_trajectory("ss", task_id=f"v{i}", task_kind="pick", reward=0.0, stop_reason=StopReason.MAX_STEPS)
            for i in range(4)
        ]
        for one in played:
            RecordStore(folder / "trajectories.jsonl", "trajectory").append(one)
        (folder / "result.json").write_text(json.dumps(result_of(played, name=arm).to_json()))
    (root / "samples").mkdir()
    (root / "samples" / "corrected.ledger.json").write_text(
        json.dumps(
            {
                "trained_tokens": {"e": 30},
                "sources": {"corrections": {"trajectories": 1, "student_steps": 2, "expert_steps": 1}},
            }
        )
    )
    (root / "models" / "corrected").mkdir(parents=True)
    rows = [{"update_index": index, "loss": 2.0 - index / 10} for index in range(10)]
    (root / "models" / "corrected" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_page_tells_what_the_files_hold(tmp_path):
    write_run(tmp_path)
    path = write_report(tmp_path)
    page = path.read_text(encoding="utf-8")
    assert path == tmp_path / "report.html"
    assert "<title>A tiny run</title>" in page
    # corrected wins 3 of 4, imitation 1 of 4: two discordant tasks, both won by corrected only, p = 0.5.
    assert "corrected solves 75.0 % of 4 unseen tasks, imitation 25.0 %: +50.0 points" in page
    assert "no more than chance may give (exact McNemar p = 0.500)" in page
    assert "75.0 % (3/4)" in page
    assert "30.1 % to 95.4 %" in page
    assert "not_successful 1" in page
    assert "The expert took over in 1 of 2 episodes" in page
    assert "In 1 of them the student had made a command without effect by then" in page
    assert "1 corrections" in page
    assert page.count("<svg") == 3


def test_text_of_an_episode_is_shown_as_text(tmp_path):
    write_run(tmp_path)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "&lt;b&gt;look&lt;/b&gt;" in page
    assert "<b>look</b>" not in page
    assert "Two arms &amp; a &lt;test&gt;." in page


def test_a_run_without_results_gives_a_page_without_them(tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({"name": "empty"}))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<title>empty</title>" in page
    assert "Success on unseen tasks" not in page


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not a run directory"):
        write_report(tmp_path / "nothing")


def test_early_switches_have_a_bar_for_each_step_and_late_ones_share_bars(tmp_path):
    write_run(tmp_path)
    page = write_report(tmp_path).read_text()
    assert ">3</text>" in page
    assert "26–30" not in page
    late = make_trajectory("sse", ["eat", "go", "use"], task_id="t2", drawn_switch=28, goal="late")
    RecordStore(tmp_path / "rollouts" / "corrections" / "trajectories.jsonl", "trajectory").append(late)
    assert "26–30" in write_report(tmp_path).read_text()
