"""What the endpoints of a run were asked and what they cost, from the ledgers in its folder ``endpoints``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutelage.policies.endpoint.ledger import EndpointUsage, usage_by_endpoint
from tutelage.reports.words import thousands

FOLDER = "endpoints"


def endpoint_rows(root: Path) -> list[dict[str, Any]]:
    """One row for each endpoint; none if the run asked none."""
    return [
        {
            "name": name,
            "requests": thousands(usage.requests),
            "answered": thousands(usage.answered),
            "failed": counts(usage.failed),
            "retries": thousands(usage.retries),
            "faults": counts(usage.faults),
            "prompt_tokens": thousands(usage.prompt_tokens),
            "completion_tokens": thousands(usage.completion_tokens),
            "estimated": thousands(usage.estimated),
            "cost": f"{usage.cost:.4f}",
        }
        for name, usage in usage_by_endpoint(root / FOLDER).items()
    ]


def endpoint_line(name: str, usage: EndpointUsage) -> str:
    """One line for the terminal.

    Example: ``endpoint gpt  120 requests (118 answered, auth 2), 14 retries, 30 200 + 4 100 tokens, cost 0.1521``
    """
    failed = f", {counts(usage.failed)}" if usage.failed else ""
    about = " (partly estimated)" if usage.estimated else ""
    return (
        f"endpoint {name}  {thousands(usage.requests)} requests ({thousands(usage.answered)} answered{failed}), "
        f"{thousands(usage.retries)} retries, {thousands(usage.prompt_tokens)} + {thousands(usage.completion_tokens)} "
        f"tokens{about}, cost {usage.cost:.4f}"
    )


def counts(by_reason: Mapping[str, int]) -> str:
    """Example: ``rate_limit 3, timeout 1``; of none, ``none``."""
    return ", ".join(f"{reason} {count}" for reason, count in by_reason.items()) or "none"
