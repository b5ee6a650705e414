"""Recipes as files: where they are, how they are read, overridden, and checked for misspelt keys.

In: a path or a name, and overrides. Out: plain data, before any model of `recipe.py` has seen it. Every error tells the
file, and the line or the full dotted key.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel

from tutelage.errors import ConfigError


def recipes_dir() -> Path:
    """Folder of the recipes that travel with the package; in a checkout, its `recipes/`."""
    packaged = Path(__file__).parent / "recipes"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "recipes"


def recipe_names() -> list[str]:
    """Names of the packaged recipes, e.g. ``household_oec`` and ``smoke/household_oec``."""
    root = recipes_dir()
    return sorted(str(path.relative_to(root).with_suffix("")) for path in root.rglob("*.yaml"))


def find_recipe(recipe: str | Path) -> Path:
    """A path as it stands, or the name of a packaged recipe."""
    path = Path(recipe)
    if path.is_file():
        return path
    packaged = recipes_dir() / path.with_suffix(".yaml")
    if packaged.is_file() and not path.is_absolute():
        return packaged
    if path.suffix in (".yaml", ".yml") and len(path.parts) > 1:
        raise ConfigError(f"{path}: no such recipe file. Packaged recipes: {', '.join(recipe_names())}.")
    raise ConfigError.unknown("recipe", str(recipe), recipe_names())


class _UniqueKeyLoader(yaml.SafeLoader):
    """A key that stands twice is a mistake, never the later one winning."""


def _construct_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"key {key!r} stands twice (lines {seen[key]} and {key_node.start_mark.line + 1})",
                key_node.start_mark,
            )
        seen[key] = key_node.start_mark.line + 1
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that holds one mapping."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}).") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', None) or error}.") from None
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: holds {type(data).__name__}, expected a mapping of sections (name, env, rollouts, ...)."
        )
    return data


def parse_override(text: str) -> tuple[str, Any]:
    """``train.lr=1e-3`` -> (``train.lr``, value read as YAML)."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"--set {text}: expected KEY=VALUE, e.g. --set train.lr=0.001")
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {text}: the value is not valid YAML. Quote it, e.g. --set '{key}=\"...\"'.") from None


def apply_override(data: dict[str, Any], key: str, value: Any) -> None:
    """Set one dotted key in place; a number is a position in a list. Missing sections are made, and checked later."""
    place: Any = data
    parts = key.split(".")
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        where = f"--set {key}: '{'.'.join(parts[:index])}'"
        if isinstance(place, list):
            if not part.isdigit() or int(part) >= len(place):
                raise ConfigError(
                    f"{where} is a list of {len(place)}; '{part}' is not one of its positions 0 to {len(place) - 1}."
                )
            step: Any = int(part)
        elif isinstance(place, dict):
            step = part
            if not last and place.get(part) is None:
                place[part] = {}
        else:
            raise ConfigError(f"{where} is {place!r}, a single value; it has no key '{part}'.")
        if last:
            place[step] = value
        else:
            place = place[step]


def check_keys(section: type, data: Any, where: str, prefix: str) -> None:
    """Raise on the first key that a section does not know, with the nearest one that it does."""
    if not isinstance(data, Mapping):
        return
    known = _annotations(section)
    open_ended = issubclass(section, BaseModel) and section.model_config.get("extra") == "allow"
    for key, value in data.items():
        if key not in known:
            if open_ended:
                continue
            raise unknown_key(where, prefix, str(key), known)
        kind, inner = _inner_section(known[key])
        if inner is None:
            continue
        if kind is dict and isinstance(value, Mapping):
            for name, entry in value.items():
                check_keys(inner, entry, where, f"{prefix}{key}.{name}.")
        elif kind is list and isinstance(value, list):
            for index, entry in enumerate(value):
                check_keys(inner, entry, where, f"{prefix}{key}.{index}.")
        elif kind is None:
            check_keys(inner, value, where, f"{prefix}{key}.")


def _annotations(section: type) -> dict[str, Any]:
    """Key -> type, of a model or a dataclass."""
    if issubclass(section, BaseModel):
        return {name: field.annotation for name, field in section.model_fields.items()}
    assert is_dataclass(section)
    return {one.name: one.type for one in fields(section)}


def _inner_section(annotation: Any) -> tuple[type | None, type | None]:
    """The section inside an annotation: ``dict[str, RolloutSection]`` -> (dict, RolloutSection)."""
    if isinstance(annotation, type) and (is_dataclass(annotation) or issubclass(annotation, BaseModel)):
        return None, annotation
    origin = get_origin(annotation)
    for argument in get_args(annotation):
        _, inner = _inner_section(argument)
        if inner is not None:
            return (origin if origin in (dict, list) else None), inner
    return None, None


def unknown_key(where: str, prefix: str, key: str, known: Iterable[str]) -> ConfigError:
    """The error of a misspelt key: full dotted key, nearest known one, all known ones."""
    options = list(known)
    near = difflib.get_close_matches(key, options, n=1, cutoff=0.5)
    hint = f" Did you mean '{prefix}{near[0]}'?" if near else ""
    place = f"in '{prefix.rstrip('.')}'" if prefix else "at the top"
    return ConfigError(f"{where}: unknown key '{prefix}{key}'.{hint} Known {place}: {', '.join(options) or 'none'}.")


def build_named(
    where: str, key: str, name: str, options: Mapping[str, Any], makers: Mapping[str, Callable[..., Any]]
) -> Any:
    """Make what a recipe names, e.g. a switch rule, and blame the right key if that cannot be.

    makers: name -> class or function whose keyword arguments are the options.
    """
    if name not in makers:
        near = difflib.get_close_matches(name, list(makers), n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"{where}: {key}: unknown name '{name}'.{hint} Known: {', '.join(sorted(makers))}.")
    check_options(where, key, options, makers[name])
    try:
        return makers[name](**options)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {key} ({name}): {error}") from None


def check_options(where: str, key: str, options: Mapping[str, Any], maker: Callable[..., Any]) -> None:
    """Refuse options that `maker` has no keyword argument for."""
    parameters = inspect.signature(maker).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            raise unknown_key(where, f"{key}.", str(option), parameters)
