"""The line under every benchmark's table: what it ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def machine(*packages: str) -> str:
    """Processor, Python, the named packages with their versions, cores and load."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    parts = [
        names[0] if names else platform.machine(),
        "one thread",
        f"Python {platform.python_version()}",
        *(f"{name} {version(name)}" for name in packages),
        f"{os.cpu_count()} cores with load {os.getloadavg()[0]:.1f} at the end",
    ]
    return ", ".join(parts)
