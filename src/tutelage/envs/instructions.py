"""What a language model is told before the first observation: the rules of a task, and how to write an action.

In: a task, and the format its player acts in. Out: the text of a system message. It belongs to who acts: an expert with
native tools reads other words than a student with tags, about the same task.
"""

from __future__ import annotations

from typing import Final, Literal

from tutelage.envs.action_formats import ACT, ActionFormat
from tutelage.envs.registry import action_format_for, find_environment, load_place
from tutelage.types import ParsedCall, Task

NATIVE: Final = "Act by calling a tool: exactly one call in each reply, after what you think. An action written as text does nothing."

NATIVE_PLAIN: Final = f"Give each command as the argument of one call of the tool {ACT}."


def instructions_for(
    task: Task, *, style: Literal["native", "text"] = "text", action_format: ActionFormat | None = None
) -> str | None:
    """The instructions of a task's environment for a player of that style. None: the environment has none.

    `action_format`: in which a player with text acts. None: the environment's own.
    """
    spec = find_environment(task.env, f"task {task.task_id}: environment")
    if spec.instructions is None:
        return None
    env_format = action_format_for(task)
    own = style == "text" and (action_format is None or action_format == env_format)
    if spec.instructions_of is not None:
        text = str(load_place(spec.instructions_of)(task, own))
    else:
        text = str(load_place(spec.instructions))
    if own:
        return text
    if style == "native":
        return f"{text}\n\n{NATIVE_PLAIN if env_format is None else NATIVE}"
    assert action_format is not None
    return f"{text}\n\n{usage_of(action_format)}"


def usage_of(action_format: ActionFormat) -> str:
    """How an action is written in a format: one example, and the calls that there are.

    Example: ``... <think>what you think</think>``, newline, ``<action>the command</action>``
    """
    name, arguments = next(iter(action_format.calls.items()))
    example = action_format.write(
        ParsedCall(name=name, arguments={argument: f"the {argument}" for argument in arguments}), "what you think"
    )
    text = f"Think first, then act. Every reply has this form, with exactly one action:\n\n{example}"
    if len(action_format.calls) == 1:
        return text
    listed = "\n".join(f"{name}({', '.join(arguments)})" for name, arguments in action_format.calls.items())
    return f"{text}\n\nThe actions and their arguments:\n{listed}"
