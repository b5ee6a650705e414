"""What a row of Parquet messages says: nulls mean absent but for a content beside calls, and `train` rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutelage.formats.reread_chat import Reading, reread_axolotl


def reread_parquet(row: Mapping[str, Any]) -> Reading:
    """By the rule of Axolotl's flag; a null is a key that the message does not have."""
    return reread_axolotl({"messages": [_message(message) for message in row["messages"]]})


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if value is not None or key == "content"}
    if kept.get("tool_calls"):
        kept["tool_calls"] = [
            {key: value for key, value in call.items() if value is not None} for call in kept["tool_calls"]
        ]
    else:
        kept.pop("tool_calls", None)
    return kept
