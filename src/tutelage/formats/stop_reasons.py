"""Exit statuses of other scaffolds as our stop reasons. An end at a limit is truncated, whatever was handed in with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tutelage.types import StopReason

SWE_AGENT: Final[Mapping[str, StopReason]] = {
    "submitted": StopReason.COMPLETED,
    "exit_forfeit": StopReason.COMPLETED,
    "exit_command": StopReason.COMPLETED,
    "exit_cost": StopReason.MAX_STEPS,
    "exit_total_cost": StopReason.MAX_STEPS,
    "exit_token_budget": StopReason.MAX_STEPS,
    "exit_context": StopReason.CONTEXT_OVERFLOW,
    "exit_format": StopReason.PARSE_ERROR,
    "exit_command_timeout": StopReason.TIMEOUT,
    "exit_total_execution_time": StopReason.TIMEOUT,
    "exit_environment_error": StopReason.ENV_ERROR,
    "exit_error": StopReason.ENV_ERROR,
    "exit_api": StopReason.POLICY_ERROR,
    "early_exit": StopReason.INTERRUPTED,
    "skipped": StopReason.INTERRUPTED,
}
"""``submitted (exit_cost)`` is what the scaffold handed in at a limit; the limit counts."""

MINI_SWE_AGENT: Final[Mapping[str, StopReason]] = {
    "submitted": StopReason.COMPLETED,
    "limitsexceeded": StopReason.MAX_STEPS,
    "timeexceeded": StopReason.TIMEOUT,
    "repeatedformaterror": StopReason.PARSE_ERROR,
    "formaterror": StopReason.PARSE_ERROR,
    "contextwindowexceedederror": StopReason.CONTEXT_OVERFLOW,
    "userinterruption": StopReason.INTERRUPTED,
    "keyboardinterrupt": StopReason.INTERRUPTED,
    "apierror": StopReason.POLICY_ERROR,
    "ratelimiterror": StopReason.POLICY_ERROR,
    "authenticationerror": StopReason.POLICY_ERROR,
    "badrequesterror": StopReason.POLICY_ERROR,
    "timeout": StopReason.POLICY_ERROR,
    "timeoutexpired": StopReason.ENV_ERROR,
    "calledprocesserror": StopReason.ENV_ERROR,
}
"""Lower case; other names are of exceptions that nobody expected."""


def swe_agent_stop(status: str | None) -> StopReason:
    """Example: ``submitted (exit_context)`` -> CONTEXT_OVERFLOW; an unknown status or none -> INTERRUPTED"""
    text = (status or "").strip().lower()
    inside = re.fullmatch(r"submitted\s*\((.+)\)", text)
    return SWE_AGENT.get(inside[1] if inside else text, StopReason.INTERRUPTED)


def mini_stop(status: str | None) -> StopReason:
    """Example: ``LimitsExceeded`` -> MAX_STEPS; none -> INTERRUPTED; an exception of another name -> ENV_ERROR"""
    text = (status or "").strip().lower()
    return MINI_SWE_AGENT.get(text, StopReason.ENV_ERROR) if text else StopReason.INTERRUPTED
