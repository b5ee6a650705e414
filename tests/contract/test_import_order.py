"""Imports point one way along the flow, the core needs no torch, and importing costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tutelage

SOURCE = Path(tutelage.__file__).parent

ORDER = (
    ("errors",),
    ("types",),
    ("record_json",),
    ("store",),
    ("students",),
    ("rendering",),
    ("envs",),
    ("tasks",),
    ("policies",),
    ("rollout",),
    ("selection",),
    ("supervision",),
    ("formats",),
    ("training",),
    ("evaluation",),
    ("analysis",),
    ("reports",),
    ("recipe", "recipe_checks", "recipe_file", "run_dir", "pipeline"),
    ("cli", "__main__"),
)
"""A package imports from its own line and the lines above it."""

LOADS_TORCH = (
    "training",
    "policies.local",
    "policies.kv_cache",
    "policies.native_dtype",
    "policies.packed_attention",
    "policies.scorer",
    "rendering.role_tokens",
    "rendering.load",
)
"""Modules that may need torch, transformers or tokenizers; nothing else imports these at the top of a file."""

HEAVY = (
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "peft",
    "safetensors",
    "textworld",
    "alfworld",
    "matplotlib",
    "httpx",
)


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


def place(dotted: str) -> int | None:
    """Line of a module in the order, from ``tutelage.rollout.switch``. None: testing, or the package itself."""
    parts = dotted.split(".")
    if len(parts) < 2:
        return None
    return next((index for index, names in enumerate(ORDER) if parts[1] in names), None)


def imports(path: Path, *, top_only: bool) -> list[str]:
    """Full names of the modules that a file imports; `top_only` leaves out imports inside functions and for types."""
    tree = ast.parse(path.read_text())
    found: list[str] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            if node.module == "tutelage" or node.module.startswith("tutelage."):
                found.extend(f"{node.module}.{alias.name}" for alias in node.names)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        only_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not (top_only and (inside or only_types)):
            for child in ast.iter_child_nodes(node):
                visit(child)

    visit(tree)
    return found


def name_of(path: Path) -> str:
    parts = ("tutelage", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_package_has_a_place() -> None:
    first = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in modules()}
    known = {name for names in ORDER for name in names}
    assert first - known == {"__init__", "testing"}


def test_imports_point_one_way() -> None:
    wrong = []
    for path in modules():
        mine = place(name_of(path))
        if mine is None:
            continue
        for imported in imports(path, top_only=False):
            theirs = place(imported) if imported.startswith("tutelage.") else None
            if theirs is not None and theirs > mine:
                wrong.append(f"{name_of(path)} imports {imported}")
    assert wrong == []


def test_nothing_imports_the_fakes() -> None:
    users = [
        name_of(path)
        for path in modules()
        if any(one.startswith("tutelage.testing") for one in imports(path, top_only=False))
    ]
    assert [one for one in users if not one.startswith("tutelage.testing")] == []


def test_the_core_imports_no_torch() -> None:
    wrong = []
    for path in modules():
        name = name_of(path).removeprefix("tutelage.")
        if any(name == one or name.startswith(f"{one}.") for one in LOADS_TORCH):
            continue
        wrong += [f"{name} imports {one}" for one in imports(path, top_only=True) if one.split(".")[0] in HEAVY]
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "import tutelage",
        "import tutelage.cli.main",
        "import tutelage; tutelage.load_recipe('household_oec')",
        "import tutelage; tutelage.load_tasks('household', 'train', count=2)",
        "from tutelage.pipeline.run import Run",
        "import tutelage.reports.html",
    ],
)
def test_no_torch_is_loaded(code: str) -> None:
    check = f"import sys; {code}; print([one for one in {HEAVY!r} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
