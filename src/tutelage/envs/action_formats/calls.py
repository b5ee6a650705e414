"""What the formats of structured calls have in common: `FormatOfCalls`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tutelage.envs.action_formats.base import is_scalar, known_arguments, with_call
from tutelage.types import Action, ParsedCall


@dataclass(frozen=True, kw_only=True)
class FormatOfCalls(ABC):
    """A format that writes one call of some tools. Argument values are JSON scalars and keep their type."""

    tools: Mapping[str, Sequence[str]]
    """Tool -> its arguments. Which of them a call needs is the environment's business."""
    help: str
    name: str
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """Tool -> what it does, for a model that is given a list of tools."""

    @property
    def calls(self) -> Mapping[str, Sequence[str]]:
        return self.tools

    def apply(self, action: Action) -> Action:
        return with_call(action, self, self._find)

    def fit(self, call: ParsedCall) -> ParsedCall | None:
        known = known_arguments(self.tools, call) and all(map(is_scalar, call.arguments.values()))
        return call if known else None

    @abstractmethod
    def write(self, call: ParsedCall, thought: str = "") -> str: ...

    @abstractmethod
    def thought(self, text: str) -> str: ...

    @abstractmethod
    def _find(self, text: str) -> ParsedCall | None:
        """The call in a text. None: there is none."""
