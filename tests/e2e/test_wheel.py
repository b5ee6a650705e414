"""The wheel alone, in an empty folder, runs the main job: recipes, students and templates travel in it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

TINY = {
    "rollouts.expert_first.tasks.count": 4,
    "rollouts.expert_second.tasks.count": 4,
    "rollouts.corrections.tasks.count": 6,
    "rollouts.corrections.switch.high": 3,
    "limits.on_student_limit": "switch",
    "models.imitation_double.data.1.count": 1,
    "models.corrected.data.1.count": 1,
    "train.budget": 1,
    "models.imitation.train.budget": 1,
    "train.budget_unit": "updates",
    "evaluate.tasks.count": 2,
    "workers": 1,
}


def test_quickstart_from_the_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))) as wheel:
        wheel.extractall(site)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = subprocess.run(
        [sys.executable, "-c", "import tutelage; print(tutelage.__file__)"],
        cwd=empty, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()) == site / "tutelage" / "__init__.py"
    assert (site / "tutelage" / "cli" / "templates" / "environment" / "pyproject.toml.txt").is_file()
    overrides = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    done = subprocess.run(
        [sys.executable, "-m", "tutelage", "quickstart", *overrides],
        cwd=empty, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "report  -> runs/household_oec/report.html"
    assert (empty / "runs" / "household_oec" / "report.html").is_file()
