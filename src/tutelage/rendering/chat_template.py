"""The chat template of a model folder, rendered as transformers renders it, without transformers.

In: messages. Out: text. The template is foreign code and runs in a sandbox.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tutelage.errors import FormatError, RenderError

TEMPLATE_DAY = datetime.date(2024, 7, 26)
"""The day that templates are told, whenever they ask: the same episode gives the same tokens on every day."""

ROLES = ("system", "user", "tool")
"""Roles of the messages of an observation that a template may know."""


class ChatTemplate:
    """A template and the special tokens that it may name."""

    def __init__(self, source: str, variables: Mapping[str, Any], *, where: str) -> None:
        """`variables`: what it may name beside the messages, e.g. ``bos_token``, ``tools``, ``enable_thinking``."""
        self.source = source
        self.where = where
        self._variables = dict(variables)
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise RenderError(f"{where}: the chat template cannot be read: {error}") from error

    def render(self, messages: Sequence[Mapping[str, Any]], *, prompt: bool = True) -> str:
        """The text of a conversation; `prompt`: with what asks for an answer at the end.

        Raises RenderError where the template refuses the messages.
        """
        try:
            return self._template.render(messages=list(messages), add_generation_prompt=prompt, **self._variables)
        except (jinja2.TemplateError, TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
            roles = ", ".join(message["role"] for message in messages)
            raise RenderError(f"{self.where}: the chat template refuses messages of {roles}: {error}") from error


def read_template(folder: Path) -> str | None:
    """The template of a model folder, from any of the places where it is kept. None: there is none."""
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    for name in ("tokenizer_config.json", "chat_template.json"):
        found = read_json(folder / name).get("chat_template")
        if isinstance(found, list):  # several by name
            found = {one["name"]: one["template"] for one in found}.get("default")
        if found is not None:
            return str(found)
    return None


def read_json(path: Path) -> dict[str, Any]:
    """An object from a file; empty if there is no file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise FormatError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise FormatError(f"{path}: a {type(content).__name__}, expected an object")
    return content


def special_tokens(folder: Path) -> dict[str, str]:
    """The tokens that a template may name, e.g. ``{"bos_token": "<s>", "eos_token": "</s>"}``."""
    settings = read_json(folder / "special_tokens_map.json") | read_json(folder / "tokenizer_config.json")
    named = {name: settings.get(name) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    texts = {name: one["content"] if isinstance(one, dict) else one for name, one in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, LoopControlExtension]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = TEMPLATE_DAY.strftime
    return environment


class _Generation(Extension):
    """``{% generation %}`` marks what others train on; here it is only its content."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
