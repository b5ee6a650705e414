"""Records as JSON values and back, driven by the field types of `types.py`.

Fields that hold their default are left out. JSON has no lone surrogates, no NaN, no integers above 64 bits and no
bytes; such values become marked objects and come back as they were:

    "a\\udc00"     {"$surrogates": "a\\\\udc00"}      (a backslash in such a text is doubled)
    nan           {"$float": "nan"}
    2**65         {"$int": "36893488147419103232"}
    b"\\xff\\x00"   {"$bytes": "ff00"}
    {"$x": 1}     {"$items": [["$x", 1]]}          (a key that begins with $ or holds a surrogate)
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Union

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|u[0-9a-f]{4})")


class Malformed(ValueError):
    """A JSON value that does not fit its field; the message begins with the path to it."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.message = message
        self.path = path

    def under(self, name: str) -> Malformed:
        """The same error, seen from one level up."""
        separator = "" if not self.path or self.path.startswith("[") else "."
        return Malformed(self.message, f"{name}{separator}{self.path}")


def encode_record(record: Any, *, exact: bool) -> dict[str, Any]:
    """`exact` False leaves lone surrogates and large integers as they are, for `orjson` to refuse."""
    encode = _record_encoder(record.__class__, exact)
    return encode(record)


def decode_record(cls: type, data: Any) -> Any:
    """Raises `Malformed`, or what the record's own checks raise."""
    return _decoder(cls)(data)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _optional(hint: Any) -> Any:
    """X of `X | None`; None for any other type."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        assert len(members) == 1, hint
        return members[0]
    return None


# Encoding


@cache
def _encoder(hint: Any, exact: bool) -> Encode:
    """Python value of the type `hint` -> JSON value."""
    inner = _optional(hint)
    if inner is not None:
        encode = _encoder(inner, exact)
        return lambda value: None if value is None else encode(value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _record_encoder(typing.cast(type, hint), exact)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence_encoder(arguments[0], exact)
    if origin is tuple:
        encoders = [_encoder(argument, exact) for argument in arguments]
        return lambda value: [encode(item) for encode, item in zip(encoders, value, strict=True)]
    if origin is frozenset:
        encode = _encoder(arguments[0], exact)
        return lambda value: [encode(item) for item in sorted(value)]
    if origin is Mapping and arguments[1] is not Any:
        encode = _encoder(arguments[1], exact)
        return lambda value: {str(key): encode(item) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return str
    if hint is str:
        return _encode_text if exact else _same
    return {int: _encode_int if exact else int, float: _encode_float, bool: bool}.get(
        hint, _encode_any_exact if exact else _encode_any
    )


@cache
def _record_encoder(cls: type, exact: bool) -> Callable[[Any], dict[str, Any]]:
    hints = typing.get_type_hints(cls)
    fields = [(f.name, _default(f), _encoder(hints[f.name], exact)) for f in dataclasses.fields(cls)]

    def encode_fields(record: Any) -> dict[str, Any]:
        data = {}
        for name, default, encode in fields:
            value = getattr(record, name)
            # The type is compared too: 0 == False == 0.0, but they are not the same value.
            if value is not default and not (type(value) is type(default) and value == default):
                data[name] = encode(value)
        return data

    return encode_fields


def _sequence_encoder(item: Any, exact: bool) -> Encode:
    encode = _encoder(item, exact)
    if item is bool:
        return list
    if item is int and not exact:
        return lambda value: list(map(int, value))
    if item is float:
        return lambda value: list(map(float, value)) if all(map(math.isfinite, value)) else list(map(encode, value))
    return lambda value: [encode(one) for one in value]


def _same(value: Any) -> Any:
    return value


def _encode_text(text: str) -> Any:
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return {"$surrogates": _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text.replace("\\", "\\\\"))}


def _encode_int(value: int) -> Any:
    value = int(value)
    return value if -(2**63) <= value < 2**64 else {"$int": str(value)}


def _encode_float(value: float) -> Any:
    value = float(value)
    return value if math.isfinite(value) else {"$float": str(value)}


def _encode_any(value: Any, text: Encode = _same, integer: Encode = _same) -> Any:
    """Values of open fields (settings, arguments): JSON values, and bytes."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(str(value))
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return _encode_float(value)
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, list | tuple):
        return [_encode_any(item, text, integer) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise Malformed(f"keys must be text, got {sorted(map(repr, value))}")
        items = {key: _encode_any(item, text, integer) for key, item in value.items()}
        if any(key.startswith("$") or not isinstance(text(key), str) for key in items):
            return {"$items": [[text(key), item] for key, item in items.items()]}
        return items
    raise Malformed(f"expected a plain JSON value, got {type(value).__name__} {value!r:.80}")


def _encode_any_exact(value: Any) -> Any:
    return _encode_any(value, _encode_text, _encode_int)


# Decoding


@cache
def _decoder(hint: Any) -> Decode:
    """JSON value -> Python value of the type `hint`. The decoders raise `Malformed`."""
    inner = _optional(hint)
    if inner is not None:
        decode = _decoder(inner)
        return lambda value: None if value is None else decode(value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _record_decoder(typing.cast(type, hint))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        decode = _decoder(arguments[0])
        return lambda value: tuple([_item(decode, index, one) for index, one in enumerate(_list(value))])
    if origin is tuple:
        return lambda value: _fixed_tuple(arguments, value)
    if origin is frozenset:
        decode = _decoder(arguments[0])
        return lambda value: frozenset(map(decode, _list(value)))
    if origin is Mapping and arguments[1] is not Any:
        decode_key, decode_item = _decoder(arguments[0]), _decoder(arguments[1])
        return lambda value: {decode_key(key): decode_item(item) for key, item in _object(value).items()}
    if origin is Mapping:
        return lambda value: _decode_any(_object(value))
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return lambda value: _decode_enum(hint, value)
    scalars: dict[Any, Decode] = {str: _decode_text, int: _decode_int, float: _decode_float, bool: _decode_bool}
    return scalars.get(hint, _decode_any)


def _record_decoder(cls: type) -> Decode:
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    decoders = {name: _decoder(hints[name]) for name in fields}
    required = {name for name, field in fields.items() if _default(field) is dataclasses.MISSING}

    def decode_fields(data: Any) -> Any:
        values = {}
        for name, value in _object(data).items():
            if name not in decoders:
                near = difflib.get_close_matches(name, decoders, n=1, cutoff=0.5)
                hint = f" Did you mean '{near[0]}'?" if near else ""
                raise Malformed(f"unknown field '{name}'.{hint} It may come from a newer version of tutelage.")
            try:
                values[name] = decoders[name](value)
            except Malformed as error:
                raise error.under(name) from None
        missing = sorted(required - values.keys())
        if missing:
            raise Malformed(f"missing field '{missing[0]}' of {cls.__name__}")
        return cls(**values)

    return decode_fields


def _item(decode: Decode, index: int, value: Any) -> Any:
    try:
        return decode(value)
    except Malformed as error:
        raise error.under(f"[{index}]") from None


def _fixed_tuple(hints: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if len(_list(value)) != len(hints):
        raise Malformed(f"has {len(value)} entries, expected {len(hints)}")
    return tuple(
        [_item(_decoder(hint), index, one) for index, (hint, one) in enumerate(zip(hints, value, strict=True))]
    )


def _wrong(expected: str, value: Any) -> Malformed:
    return Malformed(f"got {value!r:.80}, expected {expected}")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong("a list", value)
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong("an object", value)
    return value


def _marked(value: Any, mark: str) -> str | None:
    """Content of `{mark: content}`, else None."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(mark), str):
        content: str = value[mark]
        return content
    return None


def _decode_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    escaped = _marked(value, "$surrogates")
    if escaped is None:
        raise _wrong("text", value)
    return _ESCAPE.sub(lambda match: "\\" if match[1] == "\\" else chr(int(match[1][1:], 16)), escaped)


def _decode_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    digits = _marked(value, "$int")
    if digits is None:
        raise _wrong("an integer", value)
    return int(digits)


def _decode_float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    name = _marked(value, "$float")
    if name is None:
        raise _wrong("a number", value)
    return float(name)


def _decode_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong("true or false", value)
    return value


def _decode_enum(cls: type[enum.StrEnum], value: Any) -> enum.StrEnum:
    try:
        return cls(value)
    except ValueError:
        raise _wrong(f"one of {', '.join(cls)}", value) from None


def _decode_any(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_any(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, content),) = value.items()
        if key == "$items":
            return {_decode_text(name): _decode_any(item) for name, item in map(_list, _list(content))}
        if key == "$bytes" and isinstance(content, str):
            return bytes.fromhex(content)
        if key in ("$surrogates", "$int", "$float"):
            return {"$surrogates": _decode_text, "$int": _decode_int, "$float": _decode_float}[key](value)
    return {key: _decode_any(item) for key, item in value.items()}
