"""Ways to write an action as text, and to read it back.

In: an action as its author wrote it. Out: the same action with `command`, `call` and `parse` filled. The text is kept:
it is what was said, and what is trained. Nothing readable in it is an outcome (`MALFORMED`), never an exception.

  TagFormat          ... <search>who wrote Emma</search>
  ThinkActionFormat  <think>...</think><action>open fridge 1</action>, where a command is text
  FunctionFormat     ... <function=bash><parameter=command>ls</parameter></function>
  ToolCallFormat     ... <tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>
  JsonFormat         {"thought": "...", "name": "bash", "arguments": {"command": "ls"}}

What all promise: `apply` reads out of `write(call)` the same call, value for value; a call that a format cannot say
exactly is a ConfigError of `write`, and `fit` gives the nearest call that it can say.
"""

from tutelage.envs.action_formats.base import (
    ACT,
    ActionFormat,
    action_format_of,
    action_of,
    call_of,
    command_of,
    malformed,
)
from tutelage.envs.action_formats.convert import executed, reasoning_of, text_in
from tutelage.envs.action_formats.functions import FunctionFormat
from tutelage.envs.action_formats.json_object import JsonFormat
from tutelage.envs.action_formats.tags import TagFormat, ThinkActionFormat, last_boxed
from tutelage.envs.action_formats.tool_calls import ToolCallFormat

__all__ = [
    "ACT",
    "ActionFormat",
    "FunctionFormat",
    "JsonFormat",
    "TagFormat",
    "ThinkActionFormat",
    "ToolCallFormat",
    "action_format_of",
    "action_of",
    "call_of",
    "command_of",
    "executed",
    "last_boxed",
    "malformed",
    "reasoning_of",
    "text_in",
]
