"""The tokenizer of a chat model, with control tokens and text kept apart.

In: text as a chat template writes it, where control strings that stood in a message were hidden first. Out: ids that
equal the tokenizer's own of the whole text, but for the hidden strings, which are encoded as ordinary text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from tutelage.errors import RenderError
from tutelage.rendering.base import vocabulary_id

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Place = Literal["start", "section", "within"]
"""Where a run of text stands: at the start of all, after a control token, or after other text."""

_BLOCKS: Final = range(0x100000, 0x10FF00, 256)
"""Blocks of private characters; one that no message uses is taken to hide things in."""
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE_MARK = "\u2581"


@dataclass(frozen=True, slots=True)
class Hiding:
    """Private characters that stand for others while a template is rendered, so that it sees no control string."""

    first_letters: str
    """First letters of the control strings; letter number n is hidden as the character ``base + n``."""
    base: int

    def hide(self, text: str, pattern: re.Pattern[str]) -> str:
        """The text, with the first letter of each match replaced. As long as before, and no match is left."""

        def hidden(found: re.Match[str]) -> str:
            return chr(self.base + self.first_letters.index(found[0][0])) + found[0][1:]

        while pattern.search(text):  # matches may overlap
            text = pattern.sub(hidden, text)
        return text

    def show(self, text: str) -> str:
        """The text as it was."""
        return text.translate({self.base + number: letter for number, letter in enumerate(self.first_letters)})

    def marker(self, number: int) -> str:
        """A short string of private characters that no message contains.

        Number 18 is written in letters of base 16: ``( 1 2 )``.
        """
        digits = "".join(chr(self.base + 0xE0 + int(digit, 16)) for digit in f"{number:x}")
        return f"{chr(self.base + 0xFE)}{digits}{chr(self.base + 0xFF)}"


class ChatTokens:
    """Text to ids and back.

    *Specials* are the added tokens that are declared special. *Controls* are these and every other added token that the
    template writes, e.g. ``<tool_response>``. Other added tokens are ordinary vocabulary.
    """

    def __init__(self, tokenizer_json: str, template_source: str, *, where: str) -> None:
        """`where` names the tokenizer in messages. Raises RenderError if the bytes of its tokens cannot be told."""
        self.where = where
        from tokenizers import Tokenizer

        # Settings of whoever saved the file would cut long texts, or fill up short ones, without a word.
        settings = json.loads(tokenizer_json) | {"truncation": None, "padding": None}
        self._whole: Tokenizer = Tokenizer.from_str(json.dumps(settings))
        self.vocabulary: dict[str, int] = self._whole.get_vocab(with_added_tokens=True)
        self.vocab_size = max(self.vocabulary.values()) + 1
        self.vocabulary_id = vocabulary_id(self.vocabulary)
        added = {one["content"]: one for one in settings["added_tokens"]}
        self.specials = frozenset(content for content, one in added.items() if one["special"])
        self.controls: dict[str, int] = {
            content: one["id"]
            for content, one in added.items()
            if one["special"] or (content.strip() and content in template_source)
        }
        if not self.controls:
            raise RenderError(f"{where}: no special token in tokenizer.json, expected those of a chat template.")
        self._strips = {content: (one["lstrip"], one["rstrip"]) for content, one in added.items()}
        self.control_pattern = any_of(self.controls)
        self._first_letters = "".join(sorted({content[0] for content in self.controls}))
        self._control_ids = frozenset(self.controls.values())
        self._plain = _plain_tokenizer(settings, self.controls, where)
        first_only, self.prepends_space = _prepending(settings)
        bare = _without_prefix(settings)
        self._within = self._plain if bare == settings else _plain_tokenizer(bare, self.controls, where)
        self._section = self._within if first_only else self._plain
        self._bytes = {index: _token_bytes(token, settings, added) for token, index in self.vocabulary.items()}
        # Texts of a world repeat over and over; encoding them is the slow part of rendering.
        self._run_ids = lru_cache(maxsize=16384)(self._encode_run)

    def hiding(self, contents: Iterable[str]) -> Hiding:
        """Private characters that none of the contents uses."""
        used = {ord(letter) >> 8 for text in contents for letter in text if ord(letter) >= _BLOCKS.start}
        base = next((block for block in _BLOCKS if block >> 8 not in used), None)
        if base is None:
            raise RenderError(f"{self.where}: the messages use private characters of every block; one must be free.")
        return Hiding(self._first_letters, base)

    def encode(self, text: str, hiding: Hiding, *, place: Place = "section") -> list[int]:
        """The ids of a text from a template, its controls as such. `place`: where the text begins."""
        ids: list[int] = []
        for run, control, begins in self._parts(text, place):
            ids += self._run_ids(_SURROGATE.sub("\ufffd", hiding.show(run)), begins)
            if control is not None:
                ids.append(self.controls[control])
        return ids

    def encode_whole(self, text: str) -> list[int]:
        """What the tokenizer itself makes of a whole text: the reference for `encode`."""
        ids: list[int] = self._whole.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids, special tokens spelled out. An id without a token, which a model may have, is U+FFFD."""
        return b"".join(self._bytes.get(index, b"\xef\xbf\xbd") for index in token_ids).decode("utf-8", "replace")

    def _parts(self, text: str, place: Place) -> Iterator[tuple[str, str | None, Place]]:
        """Runs of text, each with the control after it (None at the end) and where it begins."""
        position = 0
        for found in self.control_pattern.finditer(text):
            if found.start() < position:  # eaten by a control that takes the white space after it
                continue
            run = text[position : found.start()]
            left, right = self._strips[found[0]]
            yield run.rstrip() if left else run, found[0], place
            position, place = found.end(), "section"
            while right and position < len(text) and text[position].isspace():
                position += 1
        yield text[position:], None, place

    def _encode_run(self, run: str, place: Place) -> tuple[int, ...]:
        if not run:
            return ()
        tokenizer = {"start": self._plain, "section": self._section, "within": self._within}[place]
        ids: list[int] = tokenizer.encode(run, add_special_tokens=False).ids
        if not self._control_ids.isdisjoint(ids):
            # A vocabulary may hold control strings among its pieces: no piece reaches over a cut.
            cut = self._cut(run)
            ids = [index for part in cut for index in self._within.encode(part, add_special_tokens=False).ids]
        return tuple(ids)

    def _cut(self, run: str) -> list[str]:
        """The run in parts that end one letter into each control string. ``a</s>b`` -> ``a<``, ``/s>b``"""
        ends = [found.start() + 1 for found in self.control_pattern.finditer(run)]
        return [run[start:end] for start, end in zip([0, *ends], [*ends, len(run)], strict=True)]


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Matches any of the words, the longest one where several fit; nothing if there is none."""
    options = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(options or r"(?!)")


def _plain_tokenizer(settings: Mapping[str, Any], controls: Mapping[str, int], where: str) -> Tokenizer:
    """The same tokenizer without its control tokens; every other id stays.

    A control that is a piece of the model is no added token any more. One with an id of its own gets a name that no text
    has, since the ids after it are counted from it.
    """
    from tokenizers import Tokenizer

    pieces = settings["model"]["vocab"]
    pieces = set(pieces) if isinstance(pieces, dict) else {piece for piece, _ in pieces}
    kept = []
    for one in settings["added_tokens"]:
        if one["content"] not in controls:
            kept.append(one)
        elif one["content"] not in pieces:
            kept.append({**one, "content": f"\U0010fffd{one['id']}\U0010fffd", "special": False})
    tokenizer: Tokenizer = Tokenizer.from_str(json.dumps({**settings, "added_tokens": kept, "post_processor": None}))
    for one in kept:
        if tokenizer.token_to_id(one["content"]) != one["id"]:
            raise RenderError(f"{where}: added token {one['content']!r} has no id of its own ({one['id']} expected).")
    return tokenizer


def _prepending(settings: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether a space is put before the first run only, and whether it is put before every run."""
    parts = [*_flat(settings.get("normalizer")), *_flat(settings.get("pre_tokenizer"))]
    schemes = {part.get("prepend_scheme") for part in parts}
    every = "always" in schemes or any(part["type"] == "Prepend" or part.get("add_prefix_space") for part in parts)
    return "first" in schemes, every


def _without_prefix(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with nothing put before a text."""

    def changed(part: dict[str, Any] | None) -> dict[str, Any] | None:
        if part is None or part["type"] == "Prepend":
            return None
        part = dict(part)
        for key in ("normalizers", "pretokenizers"):
            if key in part:
                part[key] = [one for one in map(changed, part[key]) if one is not None]
        if "prepend_scheme" in part:
            part["prepend_scheme"] = "never"
        if "add_prefix_space" in part:
            part["add_prefix_space"] = False
        return part

    return {**settings, **{key: changed(settings[key]) for key in ("normalizer", "pre_tokenizer") if key in settings}}


def _flat(part: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """A component and, if it is a sequence, its parts."""
    if part is not None:
        yield part
        for key in ("normalizers", "pretokenizers", "decoders"):
            for one in part.get(key, ()):
                yield from _flat(one)


_GPT2_BYTES: Final = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTE_OF: Final = {chr(byte): byte for byte in _GPT2_BYTES} | {
    chr(0x100 + number): byte for number, byte in enumerate(byte for byte in range(256) if byte not in _GPT2_BYTES)
}
"""Letter of a byte-level vocabulary -> byte: printable ones stand for themselves, the others for 256, 257, ..."""


def _token_bytes(token: str, settings: Mapping[str, Any], added: Mapping[str, Any]) -> bytes:
    """What a token adds to a text."""
    if token in added:
        return token.encode("utf-8")
    kinds = {part["type"] for part in _flat(settings.get("decoder"))}
    if "ByteLevel" in kinds:
        return bytes(_BYTE_OF[letter] for letter in token) if set(token) <= _BYTE_OF.keys() else token.encode("utf-8")
    if kinds & {"Metaspace", "Replace"}:
        found = _BYTE_TOKEN.fullmatch(token) if "ByteFallback" in kinds else None
        return bytes.fromhex(found[1]) if found else token.replace(_SPACE_MARK, " ").encode("utf-8")
    raise RenderError(f"tokenizer.json: decoder {sorted(kinds) or None}, expected ByteLevel, Metaspace or Replace.")
