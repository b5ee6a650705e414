"""Every error a user can meet, with what it carries.

TutelageError
  ConfigError (ValueError)        a recipe or an argument: file, key, what to write instead
    RunStopped                    every further episode would meet it; what was played is stored
      RunBudgetSpent              an endpoint may cost no more in this run
      EndpointRefused             an endpoint knows neither key nor model, or is out of money
  MissingExtra (ImportError)      an optional dependency is absent: which extra brings it
  FormatError (ValueError)        a file that cannot be read: file, line or byte, reason
  StoreError                      a run directory that cannot go on: path, reason, remedy
  RenderError                     template, message index
  EnvError                        task_id, step
  PolicyError                     role, attempt
    ContextOverflow               trajectory_ids whose context is full; ends those episodes, not the run
    EndpointError                 endpoint, reason, request_id: a server that gave no answer
      EpisodeBudgetSpent          the episode may cost no more; ends it as a limit does
  SupervisionError (ValueError)   trajectory_id, step
  TeacherError (ValueError)       a teacher that cannot be trusted or asked as wanted: its name
  TrainingError                   update_index, component
  ExportError                     a file that its trainer would read otherwise than meant: row, message

A message says where, what came, what was expected, and what to do. Errors of the first kind are the user's to
mend and end a command with exit code 2 and one paragraph; a wrong assumption of ours is an assert.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any


class TutelageError(Exception):
    """Base of all errors that tutelage raises on purpose."""


class ConfigError(TutelageError, ValueError):
    """A recipe, an override or an argument does not say something we can do."""

    @classmethod
    def unknown(cls, where: str, name: str, known: Iterable[str]) -> ConfigError:
        """An unknown name or key, with the nearest known one as a suggestion.

        Example: ``recipes/oec.yaml: unknown key 'swich'. Did you mean 'switch'?``
        """
        options = sorted(known)
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        return cls(f"{where}: unknown {name!r}.{hint} Known: {', '.join(options)}.")


class RunStopped(ConfigError):
    """Something that every further episode would meet. The run ends, with what was played stored, and can go on once it is
    mended."""


class RunBudgetSpent(RunStopped):
    """The budget of an endpoint for the whole run is spent."""


class EndpointRefused(RunStopped):
    """An endpoint does not accept the key, does not know the model, or wants money."""


class MissingExtra(TutelageError, ImportError):
    """Something optional was asked for and its packages are not installed."""

    def __init__(self, what: str, extra: str) -> None:
        brings = ", ".join(packages_of(extra))
        told = f" ({brings})" if brings else ""
        super().__init__(f"{what} needs the extra '{extra}'{told}. Run: pip install \"tutelage[{extra}]\"")
        self.extra = extra


def packages_of(extra: str) -> list[str]:
    """The packages that an extra of tutelage brings, each with its bound, e.g. ``alfworld==0.4.2``."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        wanted = requires("tutelage") or []
    except PackageNotFoundError:  # run from a source tree
        return []
    named = re.compile(rf"\s*;\s*extra == ['\"]{re.escape(extra)}['\"]")
    return [line[: found.start()] for line in wanted if (found := named.search(line))]


class FormatError(TutelageError, ValueError):
    """A file does not hold what its kind promises."""


class StoreError(TutelageError):
    """A run directory cannot be written or resumed as asked."""


class RenderError(TutelageError):
    """Messages and tokens cannot be mapped to each other without loss."""


class EnvError(TutelageError):
    """The environment's own machinery failed (not: the agent acted badly)."""

    def __init__(self, message: str, *, task_id: str = "", step: int | None = None) -> None:
        where = f"task {task_id}" if task_id else "environment"
        at = f", step {step}" if step is not None else ""
        super().__init__(f"{where}{at}: {message}")
        self.task_id = task_id
        self.step = step


class PolicyError(TutelageError):
    """A policy could not give an action (not: it gave a bad one)."""

    def __init__(self, message: str, *, role: str = "", attempt: int | None = None) -> None:
        at = f" (attempt {attempt})" if attempt is not None else ""
        super().__init__(f"{role or 'policy'}{at}: {message}")
        self.role = role
        self.attempt = attempt


class ContextOverflow(PolicyError):
    """The rendered context and one more action no longer fit the policy's context length.

    Raised before anything is computed, and names every such episode of the batch, so that the caller can end these
    (`StopReason.CONTEXT_OVERFLOW`) and ask again for the others.
    """

    def __init__(self, message: str, *, trajectory_ids: tuple[str, ...], role: str = "") -> None:
        super().__init__(message, role=role)
        self.trajectory_ids = trajectory_ids


class EndpointError(PolicyError):
    """A server gave no answer, or none that can be used, after all tries that make sense.

    reason: for counting, one of `policies.endpoint.REASONS`, e.g. ``rate_limit`` or ``malformed_answer``.
    """

    def __init__(
        self, message: str, *, endpoint: str, reason: str, request_id: str = "", status: int | None = None
    ) -> None:
        super().__init__(f"{reason}: {message}", role=f"endpoint '{endpoint}'")
        self.endpoint = endpoint
        self.reason = reason
        self.request_id = request_id
        self.status = status


class EpisodeBudgetSpent(EndpointError):
    """An episode has spent what it may at an endpoint. A limit like that on steps, not a failure of the machinery."""

    def __init__(self, message: str, *, endpoint: str) -> None:
        super().__init__(message, endpoint=endpoint, reason="budget")


class SupervisionError(TutelageError, ValueError):
    """Weights, masks or samples that do not fit the trajectory they name."""

    @classmethod
    def length(
        cls, what: str, *, got: int, expected: int, trajectory_id: str, step: int | None = None
    ) -> SupervisionError:
        at = f", step {step}" if step is not None else ""
        return cls(
            f"trajectory {trajectory_id}{at}: {what} has {got} entries, expected {expected}. "
            "Rebuild the samples from the trajectory (tutelage build)."
        )


class TeacherError(TutelageError, ValueError):
    """A teacher whose scores would be wrong or missing: another vocabulary, too short a context, shifted positions."""

    def __init__(self, message: str, *, name: str = "teacher") -> None:
        super().__init__(f"teacher '{name}': {message}")
        self.name = name


class TrainingError(TutelageError):
    """An update that must not be made."""

    def __init__(
        self, message: str, *, update_index: int | None = None, component: str | None = None, **_: Any
    ) -> None:
        at = f"update {update_index}" if update_index is not None else "training"
        of = f", component {component}" if component else ""
        super().__init__(f"{at}{of}: {message}")
        self.update_index = update_index
        self.component = component


class ExportError(TutelageError):
    """What was written does not read back as it was meant; the file is not left behind."""


MENDABLE = (ConfigError, FormatError, MissingExtra, StoreError, TeacherError)
"""Errors that the user can mend: a command ends with exit code 2. The others mean that a run failed: exit code 1."""
