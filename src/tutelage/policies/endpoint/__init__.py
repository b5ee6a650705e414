"""Models behind OpenAI-compatible servers and hosted APIs: as policies, as scorers, as clients for judges.

Names are imported when they are used, since a recipe needs the config alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tutelage.policies.endpoint.client import EndpointClient
    from tutelage.policies.endpoint.completion import Completion, ToolCall
    from tutelage.policies.endpoint.config import EndpointConfig
    from tutelage.policies.endpoint.failures import REASONS
    from tutelage.policies.endpoint.policy import EndpointPolicy
    from tutelage.policies.endpoint.scorer import EndpointScorer

_PLACES = {
    "REASONS": "failures",
    "Completion": "completion",
    "EndpointClient": "client",
    "EndpointConfig": "config",
    "EndpointPolicy": "policy",
    "EndpointScorer": "scorer",
    "ToolCall": "completion",
}

__all__ = ["REASONS", "Completion", "EndpointClient", "EndpointConfig", "EndpointPolicy", "EndpointScorer", "ToolCall"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
