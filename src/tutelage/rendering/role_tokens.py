"""The format of small students: one special token per role, then plain text.

    <|bos|> <|obs|> first observation <|act|> command <|end|> <|obs|> second observation <|act|> ...

In: a model folder whose tokenizer has these special tokens. Loads without torch and without transformers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from tutelage.errors import RenderError
from tutelage.rendering.base import plain_text, vocabulary_id
from tutelage.types import Action, Observation, ParseOutcome

PAD, BOS, SYSTEM, OBSERVATION, ACT, END = "<|pad|>", "<|bos|>", "<|system|>", "<|obs|>", "<|act|>", "<|end|>"
SPECIAL_TOKENS: Final = (PAD, BOS, SYSTEM, OBSERVATION, ACT, END)
"""In the order of their ids, from 0."""

CHAT_TEMPLATE: Final = (
    "{{ '" + BOS + "' }}{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '" + ACT + "' }}"
    "{% generation %}{{ message['content'] }}{{ '" + END + "' }}{% endgeneration %}"
    "{% elif message['role'] == 'system' %}{{ '" + SYSTEM + "' + message['content'] }}"
    "{% else %}{{ '" + OBSERVATION + "' + message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + ACT + "' }}{% endif %}"
)
"""The same format for chat tools. Unlike the renderer, it reads special tokens written in a text as special tokens."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_LONE_SURROGATE = re.compile("([\ud800-\udfff]+)")


class RoleTokenRenderer:
    """Renderer of the role-token format over a `tokenizers` tokenizer. Text survives byte for byte.

    Example: ``action_ids(Action.of("go to drawer 3"))`` is ``[go to , drawer 3, <|end|>]``: three ids.
    """

    name = "role_tokens"
    rewrites_history = False

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        where: str = "tokenizer",
        instructions: str | None = None,
        text_of: Callable[[Action], str] | None = None,
    ) -> None:
        """Raises RenderError if a special token is missing; `where` names the tokenizer in the message.

        `instructions` open every conversation, as a system message. `text_of`: the text of an action that the model did
        not sample; None: its bare command.
        """
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        if missing := [token for token in SPECIAL_TOKENS if token not in vocabulary]:
            raise RenderError(
                f"{where}: no {', '.join(missing)} in the vocabulary, expected the special tokens of the role-token "
                "format. Make a student with `tutelage student new`."
            )
        self._tokenizer = tokenizer
        self._instructions = instructions
        self._text_of = plain_text if text_of is None else text_of
        # Without this, text that spells a special token would become one (and could fake a turn).
        self._tokenizer.encode_special_tokens = True
        self._role_ids = {"system": vocabulary[SYSTEM]}
        self._bos, self._observation, self._act = vocabulary[BOS], vocabulary[OBSERVATION], vocabulary[ACT]
        self.stop_token_id = vocabulary[END]
        self.stop_token_ids: tuple[int, ...] = (self.stop_token_id,)
        self.pad_token_id = vocabulary[PAD]
        self.vocab_size = max(vocabulary.values()) + 1
        self.vocabulary_id = vocabulary_id(vocabulary)
        self._byte_ids = [vocabulary[f"<0x{byte:02X}>"] for byte in range(256)]
        self._bytes = {index: _token_bytes(token) for token, index in vocabulary.items()}
        # Texts of a game repeat over and over; encoding them is the slow part of rendering.
        self._encode_cached = lru_cache(maxsize=65536)(self._encode)

    @classmethod
    def from_folder(
        cls, model_dir: Path, *, instructions: str | None = None, text_of: Callable[[Action], str] | None = None
    ) -> RoleTokenRenderer:
        """Over the `tokenizer.json` of a model folder."""
        tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        return cls(tokenizer, where=str(model_dir), instructions=instructions, text_of=text_of)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, none of them special. `decode` gives the text back, whatever it is."""
        return list(self._encode_cached(text))

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        ids = [self._bos] if after is None else []
        if after is None and self._instructions is not None:
            ids += [self._role_ids["system"], *self._encode_cached(self._instructions)]
        for message in observation.messages:
            ids.append(self._role_ids.get(message.role, self._observation))
            ids += self._encode_cached(message.content)
        ids.append(self._act)
        return ids

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        """Sampled ids must come from this vocabulary. Another author's action is written as its bare command."""
        if action.token_ids is not None:
            return list(action.token_ids)
        return [*self._encode_cached(self._text_of(action)), self.stop_token_id]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self.decode(token_ids[:-1] if stopped else token_ids)
        command = text.strip()
        if not command:
            return Action(text=text, parse=ParseOutcome.MALFORMED, token_ids=tuple(token_ids))
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=command, parse=outcome, token_ids=tuple(token_ids))

    def decode(self, token_ids: Sequence[int]) -> str:
        data = b"".join(self._bytes[index] for index in token_ids)
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # sampled bytes need not be text
            return data.decode("utf-8", "replace")

    def _encode(self, text: str) -> tuple[int, ...]:
        if not _LONE_SURROGATE.search(text):
            return tuple(self._plain_ids(text))
        ids: list[int] = []
        for part in _LONE_SURROGATE.split(text):
            if _LONE_SURROGATE.match(part):
                ids += [self._byte_ids[byte] for byte in part.encode("utf-8", "surrogatepass")]
            else:
                ids += self._plain_ids(part)
        return tuple(ids)

    def _plain_ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def has_role_tokens(folder: Path) -> bool:
    """Whether the tokenizer of a folder has the special tokens of this format."""
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    return all(token in text for token in SPECIAL_TOKENS)


def _token_bytes(token: str) -> bytes:
    found = _BYTE_TOKEN.fullmatch(token)
    return bytes.fromhex(found[1]) if found else token.encode("utf-8")
