"""How a trained model reads and writes, kept in its folder, so that it is played as it was taught wherever it goes.

`student.json` holds its instructions, the name of its action format, and what its chat template was told.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tutelage.envs.action_formats import ActionFormat, text_in
from tutelage.envs.action_formats.named import format_named
from tutelage.errors import ConfigError
from tutelage.rendering.base import Renderer
from tutelage.rendering.load import load_renderer

if TYPE_CHECKING:
    from tutelage.policies.local import LocalPolicy

STUDENT_FILE: Final = "student.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class StudentText:
    """What `student.json` says. All None: a bare model."""

    instructions: str | None = None
    action_format: str | None = None
    """A name of `FORMAT_NAMES`. None: it writes as the environment reads."""
    enable_thinking: bool | None = None

    def write(self, folder: Path) -> None:
        """Put it into a model folder, in place of what the model was started from. A bare model gets no file."""
        path = folder / STUDENT_FILE
        if self == StudentText():
            path.unlink(missing_ok=True)
        else:
            path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def read(cls, folder: Path) -> StudentText:
        """Of a model folder; of one without the file, a bare model's. Raises ConfigError where it cannot be read."""
        path = folder / STUDENT_FILE
        if not path.is_file():
            return cls()
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{path}: {error}. Expected the keys {', '.join(cls.__slots__)}; remove it to go without."
            ) from None

    def format_in(self, env_format: ActionFormat | None) -> ActionFormat | None:
        """Its action format in an environment that reads `env_format`. None: the environment's."""
        return None if self.action_format is None else format_named(self.action_format, env_format, STUDENT_FILE)

    def renderer(self, folder: Path, env_format: ActionFormat | None) -> Renderer:
        """The renderer of a model folder that reads so. Small students of ours see bare commands unless a format is named."""
        from tutelage.rendering.role_tokens import has_role_tokens

        shown = self.format_in(env_format) or (None if has_role_tokens(folder) else env_format)
        return load_renderer(
            folder,
            instructions=self.instructions,
            text_of=None if shown is None else partial(text_in, shown),
            enable_thinking=self.enable_thinking,
        )


def taught_policy(folder: Path, env_format: ActionFormat | None, **options: Any) -> LocalPolicy:
    """A model folder as a policy that reads and writes as it was taught. options: of `LocalPolicy`.

    env_format: how the environment that it will play reads actions; None: plain commands.
    """
    from tutelage.policies.local import LocalPolicy

    text = StudentText.read(folder)
    return LocalPolicy(
        folder, renderer=text.renderer(folder, env_format), action_format=text.format_in(env_format), **options
    )
