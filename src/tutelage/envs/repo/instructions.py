"""What a language model is told before the first observation of a software task."""

from __future__ import annotations

from typing import Final

from tutelage.envs.repo.settings import PlaySettings
from tutelage.types import Task

_RULES: Final = """\
You repair a Python repository that lies in /workspace. You are told what is wrong. There is no network, and nobody
answers questions. End every reply with exactly one call of a tool; you may think before it.

bash     runs a shell command. Every call is a new shell: variables are gone, the working directory is kept, and so are
         files. A command is stopped after {seconds:g} seconds; long output loses its middle. The last line of the reply
         says how the command ended and which files changed.
edit     looks at files and changes them. Its parameter `command` is one of
         view         path, and if wanted first_line, last_line; a folder is listed
         create       path, file_text: write a whole file
         str_replace  path, old_str, new_str: old_str must stand in the file exactly once, white space included
         insert       path, insert_line, insert_text: after that line; 0 puts it first
         undo         path: take back the last change that edit made to that file
submit   ends the task. Then the tests are run on what is in /workspace. Test files count as they were: changing them
         changes nothing.

You have {steps} calls."""

_FUNCTION_EXAMPLE: Final = """\
A call is written like this:

<function=edit>
<parameter=command>
str_replace
</parameter>
<parameter=path>
shop/prices.py
</parameter>
<parameter=old_str>
    return price + rebate
</parameter>
<parameter=new_str>
    return price - rebate
</parameter>
</function>"""

_TOOL_CALL_EXAMPLE: Final = """\
A call is written like this:

<tool_call>
{"name": "edit", "arguments": {"command": "str_replace", "path": "shop/prices.py", \
"old_str": "    return price + rebate", "new_str": "    return price - rebate"}}
</tool_call>"""

_EXAMPLES: Final = {"functions": _FUNCTION_EXAMPLE, "tool_calls": _TOOL_CALL_EXAMPLE}


def instructions_of(action_format: str = "functions", max_steps: int = 75, bash_seconds: float = 60.0) -> str:
    """The instructions for an action format, ``functions`` or ``tool_calls``, and the limits of a task."""
    return f"{_RULES.format(steps=max_steps, seconds=bash_seconds)}\n\n{_EXAMPLES[action_format]}"


def instructions_of_task(task: Task, own_format: bool) -> str:
    """`own_format`: calls are written in the task's format. False: nothing is said of how a call is written."""
    settings = PlaySettings.of(task.settings)
    if own_format:
        name = str(task.settings.get("action_format", "functions"))
        return instructions_of(name, settings.max_steps, settings.bash_seconds)
    return _RULES.format(steps=settings.max_steps, seconds=settings.bash_seconds)
