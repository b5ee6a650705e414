"""The life of an environment: reset once, steps until an end, then closed. What every `Env` checks before it acts."""

from __future__ import annotations

from tutelage.errors import EnvError
from tutelage.types import Task


class Lifetime:
    """Refuses what the contract of `Env` forbids, and counts steps against the limit.

    Example:
      ``begin()`` in reset; ``check_step()``, the action, ``truncated = count_step(terminated)`` in step; ``close()`` in close
    """

    def __init__(self, task: Task, max_steps: int | None) -> None:
        self.task_id = task.task_id
        self.max_steps = max_steps
        """None: the world has a limit of its own."""
        self.num_steps = 0
        self.closed = False
        self._may_reset = True
        self._may_step = False

    def begin(self, *, ready: bool = True) -> None:
        """The reset. Raises EnvError at a second one, or after close. ready: steps may follow at once, without `ready`."""
        if not self._may_reset:
            raise EnvError("reset a second time or after close; make a new environment", task_id=self.task_id)
        self._may_reset, self._may_step = False, ready

    def ready(self) -> None:
        """A slow reset is done: steps may follow, unless it was closed meanwhile."""
        self._may_step = not self.closed

    def check_step(self) -> None:
        """Raises EnvError where no step may be made."""
        if not self._may_step:
            raise EnvError(
                "step before reset, after the end of the episode, after a failure or after close",
                task_id=self.task_id,
                step=self.num_steps,
            )

    def hold(self) -> None:
        """No step may follow until this one is counted: for worlds that cannot go on after a failure."""
        self._may_step = False

    def count_step(self, terminated: bool, *, truncated: bool = False) -> bool:
        """Count a step that was made. Whether a limit ended the episode by it: this one, or another (`truncated`)."""
        self.num_steps += 1
        at_limit = self.max_steps is not None and self.num_steps >= self.max_steps
        cut = not terminated and (truncated or at_limit)
        self._may_step = not (terminated or cut or self.closed)
        return cut

    def moment(self) -> tuple[int, bool]:
        """What `go_to` takes: steps made, and whether another may follow."""
        return self.num_steps, self._may_step

    def go_to(self, moment: tuple[int, bool]) -> None:
        """Back to an earlier moment. Raises EnvError after close."""
        if self.closed:
            raise EnvError("restore after close; make a new environment", task_id=self.task_id)
        self.num_steps, self._may_step = moment

    def close(self) -> None:
        """No reset and no step from here on; again is harmless."""
        self._may_reset = self._may_step = False
        self.closed = True
