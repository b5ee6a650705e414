"""verl rows for reinforcement learning: one task per row, everything that rebuilds it in `extra_info` as strings of JSON.

A row carries no episode and nothing trained: verl plays the task with the agent loop that `agent_name` names.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tutelage.errors import FormatError, MissingExtra
from tutelage.store import from_json, to_json
from tutelage.types import Task

AGENT_NAME: Final = "tutelage"
"""The name under which an agent loop of verl is registered."""


def verl_row(task: Task, index: int) -> dict[str, Any]:
    """``data_source`` is the environment, ``prompt`` the goal; the loop shows the environment's own first observation."""
    return {
        "data_source": task.env,
        "prompt": [{"role": "user", "content": task.goal}],
        "ability": task.kind,
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {
            "index": index,
            "split": task.split.value,
            "task_id": task.task_id,
            "task": json.dumps(to_json(task), ensure_ascii=False),
        },
        "agent_name": AGENT_NAME,
    }


def reread_verl(row: dict[str, Any]) -> Task:
    """The task of a row, as an agent loop rebuilds it. Raises FormatError where the columns contradict the task."""
    task = from_json("task", json.loads(row["extra_info"]["task"]), where="extra_info.task")
    assert isinstance(task, Task)
    told = (row["data_source"], row["extra_info"]["split"], row["extra_info"]["task_id"], row["prompt"][0]["content"])
    if told != (task.env, task.split.value, task.task_id, task.goal):
        raise FormatError(f"the columns say {told}, the task in extra_info says otherwise")
    return task


def verl_schema() -> Any:
    """The Arrow schema of the rows, with no column that could become all null. Raises MissingExtra without pyarrow."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise MissingExtra("Parquet", "data") from error
    text = pa.string()
    return pa.schema(
        [
            ("data_source", text),
            ("prompt", pa.list_(pa.struct([("role", text), ("content", text)]))),
            ("ability", text),
            ("reward_model", pa.struct([("style", text), ("ground_truth", text)])),
            ("extra_info", pa.struct([("index", pa.int64()), ("split", text), ("task_id", text), ("task", text)])),
            ("agent_name", text),
        ]
    )
