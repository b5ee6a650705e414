"""Every verb on a small run: what it reads, writes and prints."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tutelage.cli.main import main
from tutelage.recipe import load_recipe
from tutelage.run_dir import RunDir


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("verbs") / "run"
    assert main(["run", "smoke/household_oec", "--out", str(out), "--quiet"]) == 0
    return out


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == code
    return capsys.readouterr().out


def test_run_ends_with_the_table_and_the_report(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "run", "smoke/household_oec", "--out", str(finished))
    header, rule, *rows = shown.strip().splitlines()
    assert header.split() == ["success", "imitation", "imitation_double", "corrected"]
    assert set(rule) == {"-"}
    starts = [row.split("  ")[0].strip() for row in rows if row and set(row) != {"-"}]
    assert starts == [
        "look at obj in light (1)",
        "pick and place simple (1)",
        "pick clean then place in recep (1)",
        "pick cool then place in recep (1)",
        "pick heat then place in recep (1)",
        "pick two obj and place (1)",
        "all (6)",
        "mean steps",
        "commands without effect",
        "episodes with a loop",
        "trajectories learnt from",
        "expert steps used",
        "trained tokens",
        "report",
    ]
    assert shown.splitlines()[-1] == f"report  -> {finished / 'report.html'}"
    assert (finished / "report.html").read_text().startswith("<!doctype html>")


def test_run_as_json_is_json_alone(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(said(capsys, "run", "smoke/household_oec", "--out", str(finished), "--json"))
    assert [arm["name"] for arm in data["arms"]] == ["imitation", "imitation_double", "corrected"]
    double = data["arms"][1]
    assert (double["trajectories"], double["rows"][-1]["kind"], double["rows"][-1]["num_tasks"]) == (12, "all", 6)


def test_the_accounts_agree(finished: Path) -> None:
    run = RunDir(finished)
    summary = json.loads(run.summary_path.read_text())
    assert summary["finished"] is True
    assert {"tutelage", "python", "torch"} <= summary["versions"].keys()
    for name in ("expert_first", "expert_second", "corrections"):
        ledger = json.loads(run.ledger_path(name).read_text())
        assert ledger["drawn"] == 8 == ledger["kept"] + sum(ledger["dropped"].values())
    samples = json.loads(run.sample_ledger_path("corrected").read_text())
    assert samples["sources"]["corrections"]["trajectories"] == 4
    assert samples["num_trajectories"] == 12
    trained = summary["stages"]["train:corrected"]["summary"]
    assert trained["updates"] == 4


@pytest.mark.parametrize(
    ("verb", "name"),
    [("rollout", "expert_first"), ("select", "corrections"), ("build", "corrected"), ("train", "corrected"), ("evaluate", "corrected")],
)  # fmt: skip
def test_a_stage_that_is_done_is_not_done_again(
    finished: Path, verb: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = RunDir(finished).record(f"{verb}:{name}")
    data = json.loads(said(capsys, verb, str(finished), name, "--json"))
    assert data["stage"] == f"{verb}:{name}"
    assert RunDir(finished).record(f"{verb}:{name}") == before


def test_stages_one_by_one_on_a_fresh_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDir(tmp_path)
    run.adopt_recipe(load_recipe("smoke/household_oec", set=["student.start=builtin:household_tiny"]), force=False)
    assert main(["train", str(tmp_path), "imitation"]) == 2
    assert (
        f"train:imitation needs build:imitation, which is not finished. Run: tutelage build {tmp_path} imitation"
        in capsys.readouterr().err
    )
    for verb, name in [
        ("rollout", "expert_first"),
        ("select", "expert_first"),
        ("build", "imitation"),
        ("train", "imitation"),
        ("evaluate", "imitation"),
    ]:
        assert main([verb, str(tmp_path), name]) == 0
    again = json.loads(said(capsys, "select", str(tmp_path), "expert_first", "--again", "--json"))
    assert again["kept"] == 8
    assert main(["train", str(tmp_path), "imitaton"]) == 2
    assert "Did you mean 'imitation'?" in capsys.readouterr().err


def test_report_is_remade(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (finished / "report.html").unlink()
    (finished / "comparison.json").unlink()
    assert said(capsys, "report", str(finished)) == f"{finished / 'report.html'}\n"
    assert len(json.loads((finished / "comparison.json").read_text())["comparisons"]) == 2


def test_report_of_an_unfinished_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunDir(tmp_path).adopt_recipe(load_recipe("smoke/household_oec"), force=False)
    assert main(["rollout", str(tmp_path), "expert_first"]) == 0
    capsys.readouterr()
    assert main(["report", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path / 'report.html'}\n"
    assert captured.err.startswith(
        "note: the run is not finished, so the page is not whole; missing: new:start, select"
    )


def test_show_a_trajectory(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "show", str(finished), "expert_first", "--index", "1").splitlines()
    assert shown[0].startswith("hh-small-train-00000")
    assert "completed, reward 1" in shown[1]
    assert "all: kept" in shown
    steps = [line for line in shown if " > " in line]
    assert steps[0].startswith("  0 * expert  > ")
    data = json.loads(said(capsys, "show", str(finished), "expert_first", "--index", "1", "--json"))
    assert len(data["steps"]) == len(steps)
    by_id = said(capsys, "show", str(finished), "expert_first", "--id", shown[0], "--mask", "student_steps")
    assert "  0   expert  > " in by_id
    file = RunDir(finished).trajectories_path("expert_first")
    assert said(capsys, "show", str(file), "--index", "1").splitlines()[0] == shown[0]


def test_show_a_sample_token_by_token(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "show", str(finished), "corrected", "--tokens").splitlines()
    assert shown[0].endswith(" trained, fork 0")
    assert "<|act|>go to " in "".join(shown)
    assert shown[-1] == "student expert template trained"


def test_audit_of_a_rollout(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "audit", str(finished), "corrections", "--signals", "degree", "--out", str(tmp_path))
    assert [line.split()[0] for line in shown.splitlines()[2:4]] == ["degree", "random"]
    assert (tmp_path / "tables.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "RUN", "imitation", "--out", "RUN/audit"], "Give longer episodes"),
        (["show", "RUN"], "name a part of the run"),
        (["show", "RUN", "correctons"], "Did you mean 'corrections'?"),
        (["show", "RUN", "corrections", "--index", "99"], "there is no --index 99"),
        (["show", "RUN", "corrections", "--id", "xx"], "0 ids begin with 'xx'"),
        (["show", "RUN", "corrections", "--mask", "expert"], "Did you mean 'expert_steps'?"),
        (["show", "RUN", "expert_first", "--tokens"], "unknown 'expert_first'"),
        (["run", "smoke/household_oec", "--out", "RUN", "--set", "seed=1"], "changed: seed.\nTake --force"),
        (["rollout", "RUN", "correctons"], "Did you mean 'corrections'?"),
    ],
)
def test_what_cannot_be_done_is_explained(
    finished: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([one.replace("RUN", str(finished)) for one in arguments]) == 2
    assert message in capsys.readouterr().err


def test_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "household_oec" in said(capsys, "recipes")
    rows = json.loads(said(capsys, "recipes", "--json"))
    assert {"household_oec", "smoke/household_oec"} <= {row["name"] for row in rows}


def test_quickstart_is_the_main_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quickstart", "--out", str(tmp_path), "--set", "seed=x"]) == 2
    error = capsys.readouterr().err
    assert "household_oec.yaml: seed: 'x': input should be a valid integer" in error


def test_games_are_generated_played_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    games = tmp_path / "games"
    assert said(capsys, "env", "generate", "household", "--out", str(games), "--count", "3") == f"3 games -> {games}\n"
    out = tmp_path / "result"
    result = json.loads(said(capsys, "evaluate", "--games", str(games), "--expert", "--out", str(out), "--json"))
    assert (result["num_tasks"], result["rows"][-1]["num_solved"]) == (3, 3)
    assert json.loads((out / "result.json").read_text()) == result
    again = json.loads(said(capsys, "evaluate", "--games", str(games), "--expert", "--out", str(out), "--json"))
    assert again == result
    assert main(["evaluate", "--games", str(games), "--expert", "--out", str(out), "--max-steps", "9"]) == 2
    assert "'max_steps': 9" in capsys.readouterr().err
    shown = said(capsys, "evaluate", "--games", str(games), "--expert", "--count", "2")
    assert "all (2)" in shown
    student = said(capsys, "evaluate", "--games", str(games), "--model", "builtin:household_tiny", "--max-steps", "3")
    assert "household_tiny" in student


def test_a_broken_game_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    games = tmp_path / "games"
    main(["env", "generate", "household", "--out", str(games), "--count", "1"])
    folder = next(games.rglob("traj_data.json")).parent
    (folder / "initial_state.pddl").write_text("(define (problem")
    assert main(["evaluate", "--games", str(games), "--expert"]) == 2
    assert str(folder / "initial_state.pddl") in capsys.readouterr().err


def test_an_unknown_task_type_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    games = tmp_path / "games"
    main(["env", "generate", "household", "--out", str(games), "--count", "1"])
    file = next(games.rglob("traj_data.json"))
    data = json.loads(file.read_text())
    data["task_type"] = "pick_and_cook"
    file.write_text(json.dumps(data))
    assert main(["evaluate", "--games", str(games), "--expert"]) == 2
    error = capsys.readouterr().err
    assert str(file) in error
    assert "pick_and_cook" in error


def test_an_empty_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--games", str(tmp_path), "--expert"]) == 2
    assert f"{tmp_path}: no game found below it" in capsys.readouterr().err


def test_parity_fails_on_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tutelage.envs.household.engine import Engine
    from tutelage.envs.household.reader import read_game

    main(["env", "generate", "household", "--out", str(tmp_path / "games"), "--count", "1"])
    folder = next((tmp_path / "games").rglob("traj_data.json")).parent
    name = folder.relative_to(tmp_path / "games").as_posix()
    game = read_game(folder)
    engine = Engine(game)
    record = {
        "game": name,
        "episode": 0,
        "task": game.task,
        "intro": engine.reset(),
        "admissible0": list(engine.admissible()),
    }
    feedback = engine.step("look")
    record["steps"] = [["look", feedback, list(engine.admissible()), False]]
    file = tmp_path / "play.jsonl"
    file.write_text(json.dumps(record) + "\n")
    arguments = ["env", "parity", "household", "--transcripts", str(file), "--games", str(tmp_path / "games")]
    assert said(capsys, *arguments) == "1 episodes of 1 games, 1 steps, 0 differences\n"
    record["steps"][0][1] = "Another text."  # type: ignore[index]
    file.write_text(json.dumps(record) + "\n")
    shown = said(capsys, *arguments, code=1)
    assert "1 differences" in shown
    assert "original: 'Another text.'" in shown
    assert json.loads(said(capsys, *arguments, "--json", code=1))["num_differences"] == 1


def test_play(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("go to cabinet 1\nquit\n"))
    shown = said(capsys, "play", "--seed", "3", "--hints")
    assert shown.startswith("-= Welcome to TextWorld, ALFRED! =-")
    assert "\n  [go to " in shown
    assert shown.endswith("You left the game.\n")


def test_student_new_and_pretrain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, warm = tmp_path / "new", tmp_path / "warm"
    assert said(capsys, "student", "new", str(new), "--hidden", "32", "--layers", "1", "--heads", "2") == f"{new}\n"
    settings = ["--set", "num_tokens=3000", "--set", "batch_tokens=1024"]
    shown = said(capsys, "student", "pretrain", str(new), str(warm), *settings)
    assert shown.endswith(f"-> {warm}\n")
    assert (warm / "model.safetensors").is_file()
    assert main(["student", "pretrain", str(new), str(warm), "--set", "num_tokens=many"]) == 2
    assert "--set num_tokens: " in capsys.readouterr().err
