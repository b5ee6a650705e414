"""A disk that is full at any stage: one clear error with file and remedy, nothing lost, and the run goes on afterwards."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from tutelage.cli.main import main
from tutelage.pipeline.run import run
from tutelage.recipe import load_recipe
from tutelage.run_dir import RunDir, read_json

RECIPE = ["smoke/household_oec", "--set", "student.start=builtin:household_tiny", "--workers", "1"]


def run_with_largest_file(num_bytes: int, out: Path) -> tuple[int, str]:
    """Run in a child in which every write beyond this size fails as on a full disk; exit code and standard error."""
    errors = out.with_suffix(".err")
    child = os.fork()
    if child == 0:
        try:
            with errors.open("w") as file:
                os.dup2(file.fileno(), 2)
                sys.stderr = os.fdopen(2, "w", closefd=False)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
            code = main(["run", *RECIPE, "--out", str(out), "--quiet"])
            sys.stderr.flush()
            os._exit(code)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), errors.read_text()


# Every limit is met by another stage: trajectories, samples, checkpoint or model.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_full_disk_at_several_stages(tmp_path: Path) -> None:
    out = tmp_path / "run"
    met = []
    for num_bytes in (8_000, 60_000, 600_000):
        code, errors = run_with_largest_file(num_bytes, out)
        assert code == 2, errors
        assert errors.startswith("StoreError: ")
        assert "Traceback" not in errors
        assert "File too large" in errors
        assert "run the same command again" in errors or "run again" in errors
        started = [path.stem for path in (out / "stages").rglob("*.json") if read_json(path)["state"] == "started"]
        assert len(started) == 1
        met += started
    assert met == ["expert_first", "imitation", "imitation"]

    recipe = load_recipe(RECIPE[0], set=[RECIPE[2]])
    directory = run(recipe, out).dir
    unbroken = run(recipe, tmp_path / "unbroken").dir
    for arm in recipe.evaluated:
        assert read_json(directory.result_path(arm)) == read_json(unbroken.result_path(arm))
        assert read_json(directory.sample_ledger_path(arm)) == read_json(unbroken.sample_ledger_path(arm))
    for rollout in recipe.rollouts:
        assert read_json(directory.ledger_path(rollout)) == read_json(unbroken.ledger_path(rollout))
    assert RunDir(out).record("rollout:expert_first").goes == 2  # type: ignore[union-attr]
