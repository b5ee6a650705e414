"""A chat renderer out of the files of a model folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tutelage.errors import ConfigError
from tutelage.rendering.chat import ChatRenderer
from tutelage.rendering.chat_template import ChatTemplate, read_json, special_tokens
from tutelage.rendering.chat_tokens import ChatTokens
from tutelage.types import Action


def chat_renderer(
    folder: Path,
    source: str,
    options: Mapping[str, Any],
    *,
    instructions: str | None = None,
    text_of: Callable[[Action], str] | None = None,
) -> ChatRenderer:
    """The renderer of a folder with the chat template `source`.

    `options`: what the template is told beside the messages; None: not told. Raises ConfigError for an option that the
    template does not ask for.
    """
    told = {name: value for name, value in options.items() if value is not None}
    if unasked := [name for name in told if name not in source]:
        raise ConfigError(f"{folder}: {' and '.join(unasked)} given, but its chat template does not ask for it.")
    tokens = ChatTokens((folder / "tokenizer.json").read_text(encoding="utf-8"), source, where=str(folder))
    named = special_tokens(folder)
    ids = {name: tokens.vocabulary.get(text) for name, text in named.items()}
    return ChatRenderer(
        ChatTemplate(source, {"tools": None, **named, **told}, where=str(folder)),
        tokens,
        eos_token_ids=_eos_token_ids(folder, ids.get("eos_token")),
        pad_token_id=ids.get("pad_token"),
        instructions=instructions,
        text_of=text_of,
    )


def _eos_token_ids(folder: Path, named: int | None) -> list[int]:
    """Every id that ends a text, from the generation settings, the model's and the tokenizer's."""
    ids: list[int] = []
    for name in ("generation_config.json", "config.json"):
        given = read_json(folder / name).get("eos_token_id")
        ids += given if isinstance(given, list) else [] if given is None else [given]
    return [*ids, *([] if named is None else [named])]
