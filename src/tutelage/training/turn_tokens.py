"""How the turns of a new student's texts are marked: its special tokens and its chat template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tutelage.rendering.role_tokens import ACT, BOS, CHAT_TEMPLATE, END, OBSERVATION, PAD, SYSTEM


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnTokens:
    """One way to mark turns. The special tokens have the first ids, in the order of `special`."""

    bos: str
    end: str
    """Ends an action; generation stops there."""
    pad: str
    others: tuple[str, ...]
    chat_template: str

    @property
    def special(self) -> tuple[str, ...]:
        """Each once: padding, start, the others, end."""
        return tuple(dict.fromkeys((self.pad, self.bos, *self.others, self.end)))


ROLE_TURNS: Final = TurnTokens(
    bos=BOS, end=END, pad=PAD, others=(SYSTEM, OBSERVATION, ACT), chat_template=CHAT_TEMPLATE
)
"""One token per role, then plain text (`rendering.role_tokens`)."""

CHATML_TURNS: Final = TurnTokens(
    bos="<|im_start|>",
    end="<|im_end|>",
    pad="<|endoftext|>",
    others=(),
    chat_template=(
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
)
"""The layout of Qwen2.5 and SmolLM2, without a system message of its own."""
