"""Verb `doctor`: what is installed and what clashes, and with ``--endpoint`` what a server can do."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated, Any, Final, cast

import typer

import tutelage

Versions = Mapping[str, str]
"""Package -> installed version."""

WATCHED: Final = (
    "vllm", "sglang", "verl", "tensordict", "ray", "openai", "mlflow", "sweagent", "imitation", "llama-cpp-python", "harbor",
    "fastapi", "uvicorn",
)  # fmt: skip
"""Shown where they are installed, besides the packages of the extras."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Packages that are known not to go together."""

    applies: Callable[[Versions], bool]
    text: str


def _between(versions: Versions, package: str, low: str, below: str) -> bool:
    """Whether a package is installed in a version of [low, below)."""
    return package in versions and release(low) <= release(versions[package]) < release(below)


CONFLICTS: Final = (
    Conflict(
        lambda v: "verl" in v and "transformers" in v and not _between(v, "transformers", "5.5.3", "5.11"),
        "verl 0.9 wants transformers >= 5.5.3 and < 5.11. Give verl an environment of its own.",
    ),
    Conflict(
        lambda v: "verl" in v and _between(v, "tensordict", "0.11", "99"),
        "verl 0.9 wants tensordict <= 0.10.",
    ),
    Conflict(
        lambda v: _between(v, "verifiers", "0.4", "0.5") and _between(v, "openai", "3", "99"),
        'verifiers 0.4 wants openai < 3. Run: pip install "openai<3"',
    ),
    Conflict(
        lambda v: _between(v, "mlflow", "3.17", "3.18") and _between(v, "pyarrow", "26", "99"),
        'mlflow 3.17 wants pyarrow < 26. Run: pip install "pyarrow<26"',
    ),
    Conflict(
        lambda v: "harbor" in v and release(v["python"]) < (3, 12),
        "harbor wants Python 3.12 or later.",
    ),
    Conflict(
        lambda v: "vllm" in v and "transformers" in v,
        "vllm pins transformers and torch narrowly. Serve it from an environment of its own and name it as an endpoint.",
    ),
    Conflict(
        lambda v: "sglang" in v and "transformers" in v,
        "sglang pins transformers and torch narrowly. Serve it from an environment of its own and name it as an endpoint.",
    ),
    Conflict(
        lambda v: "imitation" in v,
        "imitation pins old versions of gymnasium and stable-baselines3.",
    ),
    Conflict(
        lambda v: "transformers" in v and not _between(v, "transformers", "5.0", "6"),
        'tutelage is tested with transformers 5. Run: pip install "transformers>=5,<6"',
    ),
    Conflict(
        lambda v: "trl" in v and not _between(v, "trl", "1.10", "2"),
        'trl before 1.10 lets one missing reward spoil a group. Run: pip install "trl>=1.16"',
    ),
)
"""Known conflicts; `doctor` tells those that apply to what is installed."""


def doctor(
    endpoint: Annotated[str | None, typer.Option("--endpoint", metavar="URL", help="Probe this server too.")] = None,
    model: Annotated[str, typer.Option("--model", help="Model to ask for. Default: the first that it lists.")] = "",
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="NAME", help="Environment variable that holds the key.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what is installed, what is missing for each extra, and known conflicts; probe a server."""
    versions = installed()
    extras = missing_by_extra(versions)
    conflicts = [one.text for one in CONFLICTS if one.applies(versions)]
    found = _probe(endpoint, model, api_key_env) if endpoint is not None else None
    reachable = found is None or any(one["works"] for one in found)
    if as_json:
        data: dict[str, Any] = {"versions": dict(versions), "missing": extras, "conflicts": conflicts}
        print(json.dumps(data | ({} if found is None else {"endpoint": {"url": endpoint, "capabilities": found}})))
    else:
        _show(versions, extras, conflicts)
        if found is not None:
            _show_endpoint(str(endpoint), found)
    if conflicts or not reachable:
        raise typer.Exit(1)


def installed() -> Versions:
    """Versions of Python, of this machine's packages that tutelage can use, and of those it is known to clash with."""
    found = {"tutelage": tutelage.__version__, "python": platform.python_version()}
    for package in dict.fromkeys([*(one for names in extras_of().values() for one in names), *WATCHED]):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def extras_of() -> dict[str, list[str]]:
    """Extra -> names of its packages, as the installed tutelage declares them; under '' those that it always needs."""
    extras: dict[str, list[str]] = {}
    for line in metadata.requires("tutelage") or ():
        name = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", line)
        if name is not None and (extra is None or extra[1] not in ("dev", "bench")):
            extras.setdefault("" if extra is None else extra[1], []).append(name[0].lower())
    return extras


def missing_by_extra(versions: Versions) -> dict[str, list[str]]:
    """Extra -> its packages that are not installed; only extras that lack something."""
    lacking = {extra: [one for one in names if one not in versions] for extra, names in extras_of().items()}
    return {extra: names for extra, names in lacking.items() if names}


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version. Example: ``release("2.13.0+cpu") == (2, 13, 0)``; of a pre-release, those before it."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(one) for one in found[0].split(".")) if found else ()


def _probe(url: str, model: str, api_key_env: str | None) -> list[dict[str, Any]]:
    from tutelage.policies.endpoint.config import EndpointConfig
    from tutelage.policies.endpoint.probe import probe

    config = EndpointConfig(name="probed", url=url, model=model, api_key_env=api_key_env, deadline_seconds=60.0)
    return [asdict(one) for one in probe(config)]


def _show(versions: Versions, extras: Mapping[str, list[str]], conflicts: list[str]) -> None:
    print(
        f"tutelage {versions['tutelage']}, Python {versions['python']}, {platform.platform()}, {os.cpu_count()} cores\n"
    )
    for extra, names in extras_of().items():
        told = ", ".join(f"{one} {versions[one]}" for one in names if one in versions) or "nothing"
        lacks = extras.get(extra)
        remedy = f'; lacks {", ".join(lacks)}. Run: pip install "tutelage[{extra}]"' if lacks else ""
        print(f"{extra or 'core':<11} {told}{remedy}")
    others = [f"{one} {versions[one]}" for one in WATCHED if one in versions]
    if others:
        print(f"{'besides':<11} {', '.join(others)}")
    print("\nknown conflicts: none" if not conflicts else "\nknown conflicts:")
    for text in conflicts:
        print(f"  {text}")


def _show_endpoint(url: str, found: list[dict[str, Any]]) -> None:
    from tutelage.policies.endpoint.probe import Capability, table_of

    print(f"\nendpoint {url}")
    print(table_of([Capability(**cast(Any, one)) for one in found]))
