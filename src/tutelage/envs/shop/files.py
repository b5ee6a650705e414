"""The original's files: items (`items_shuffle*.json`), attributes (`items_ins_v2*.json`), goals of people.

In: a folder that holds them. Out: a catalogue, and what the files ask shoppers to buy. Nothing is downloaded; users who
have the files give the folder. Left out, as in the original: ids `nan` or longer than 10, and repeated ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from tutelage.envs.shop.catalogue import Catalogue, Item, priced
from tutelage.errors import FormatError

ITEMS: Final = "items_shuffle*.json"
ATTRIBUTES: Final = "items_ins_v2*.json"
HUMAN_GOALS: Final = "items_human_ins.json"
"""Patterns of the file names. Of several the one with the shortest name is read, which is the full file."""

MAX_ID: Final = 10

_AMOUNT = re.compile(r"\$\s*([\d,]+(?:\.\d+)?|\.\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the files ask for, before a price bound is drawn."""

    instruction: str
    attributes: tuple[str, ...]
    options: Mapping[str, str] | tuple[str, ...] | None
    """A list or map of values for goals of people. None: a synthetic request, to be asked with options of the item."""


def read_catalogue(root: Path, num_products: int | None = None, price_seed: int = 0) -> Catalogue:
    """The catalogue of a folder: its first `num_products` records, or all.

    Raises FormatError where a file is absent or not of the expected form.
    """
    path = _find(root, ITEMS)
    records = _load(path)
    if not isinstance(records, list):
        raise FormatError(f"{path}: a {type(records).__name__}, expected a list of products.")
    attributes_path = _find(root, ATTRIBUTES)
    attributes = _table(attributes_path)
    items: dict[str, Item] = {}
    for index, record in enumerate(records[:num_products]):
        item = _item(record, attributes, f"{path}, product {index}", price_seed)
        if item is not None:
            items.setdefault(item.item_id, item)
    if not items:
        raise FormatError(
            f"{path}: no product that can be sold among {len(records)}. Copy the files from their release."
        )
    return Catalogue(items.values())


def read_requests(root: Path, source: str) -> dict[str, list[Request]]:
    """Id of the target -> what is asked for. source: ``human`` or ``synthetic``. Requests without attributes are left out."""
    if source == "human":
        path = _find(root, HUMAN_GOALS)
        rows = ((item_id, row) for item_id, entries in _table(path).items() for row in entries or ())
    else:
        path = _find(root, ATTRIBUTES)
        rows = ((item_id, entry) for item_id, entry in _table(path).items())
    requests: dict[str, list[Request]] = {}
    for item_id, row in rows:
        try:
            request = _request(row, source)
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"{path}, product {item_id}: {type(error).__name__}: {error}.") from None
        if request.attributes and request.instruction:
            requests.setdefault(item_id.upper(), []).append(request)
    return requests


def _request(row: Mapping[str, Any], source: str) -> Request:
    text = row["instruction"] if source == "human" else row.get("instruction")
    options: Any = row["instruction_options"] if source == "human" else None
    return Request(
        instruction=(text or "").strip("."),
        attributes=tuple(row.get("instruction_attributes") or ()),
        options=dict(options) if isinstance(options, Mapping) else None if options is None else tuple(options),
    )


def _item(record: Any, attributes: Mapping[str, Any], where: str, price_seed: int) -> Item | None:
    """None: a record that the original leaves out too."""
    try:
        item_id = record["asin"]
        if item_id == "nan" or len(item_id) > MAX_ID:
            return None
        price, price_tag = priced(amounts_of(record.get("pricing")), item_id, price_seed)
        bullets = record.get("small_description") or ()
        return Item(
            item_id=item_id.upper(),
            title=record["name"],
            price=price,
            price_tag=price_tag,
            query=record["query"].lower().strip(),
            category=record["category"],
            product_category=record["product_category"],
            description=record.get("full_description") or "",
            bullets=(bullets,) if isinstance(bullets, str) else tuple(bullets),
            attributes=tuple((attributes.get(item_id) or {}).get("attributes") or ()),
            options=tuple(_options(record.get("customization_options") or {})),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{where}: {type(error).__name__}: {error}; expected an object with asin, name, query, category, product_category, "
            "pricing, small_description, full_description, customization_options."
        ) from None


def amounts_of(pricing: str | None) -> tuple[float, ...]:
    """At most two amounts of dollars. Example: ``$1,299.00 to $1,499.00`` is (1299.0, 1499.0); empty is ()."""
    return tuple(float(amount.replace(",", "")) for amount in _AMOUNT.findall(pricing or "")[:2])


def _options(groups: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    merged: dict[str, tuple[str, ...]] = {}
    for name, values in groups.items():
        if values is not None:
            merged[name.lower()] = tuple(value["value"].strip().replace("/", " | ").lower() for value in values)
    yield from merged.items()


def _find(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern), key=lambda path: (len(path.name), path.name))
    if not found:
        raise FormatError(f"{root}: no file {pattern}. Give the folder that holds the original's files.")
    return found[0]


def _load(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise FormatError(f"{path}: no JSON ({error}). Copy it from its release.") from None


def _table(path: Path) -> Mapping[str, Any]:
    table = _load(path)
    if not isinstance(table, dict):
        raise FormatError(f"{path}: a {type(table).__name__}, expected an object with one entry per product id.")
    return table
