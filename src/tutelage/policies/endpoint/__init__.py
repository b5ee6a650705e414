"""Models behind OpenAI-compatible servers and hosted APIs: as policies, as scorers, as clients for judges."""

from tutelage.policies.endpoint.client import EndpointClient
from tutelage.policies.endpoint.completion import Completion, ToolCall
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.failures import REASONS

__all__ = ["REASONS", "Completion", "EndpointClient", "EndpointConfig", "ToolCall"]
