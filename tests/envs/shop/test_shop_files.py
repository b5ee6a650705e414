"""The original's files, in small ones of their form made for these tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tutelage.envs.shop.files import Request, amounts_of, read_catalogue, read_requests
from tutelage.errors import FormatError

FILES = Path(__file__).parents[2] / "fixtures" / "shop"


def test_products_are_read_and_those_that_the_original_leaves_out_are() -> None:
    catalogue = read_catalogue(FILES)
    assert [item.item_id for item in catalogue.items] == ["B0TEST0001", "B0TEST0002", "B0TEST0003", "B0TEST0004"]
    jacket = catalogue["B0TEST0001"]
    assert jacket.price_tag == "$1049.99 to $1060.0"
    assert 1049.99 <= jacket.price <= 1060.0
    assert jacket.options == (("color", ("navy | white", "red")), ("size", ("small", "x-large")))
    assert jacket.query == "women's jackets"
    assert jacket.bullets == ("Machine wash", "Two pockets")
    assert jacket.attributes == ("machine wash", "quilted")
    kettle = catalogue["B0TEST0002"]
    # The first of two records with one id.
    assert (kettle.title, kettle.price) == ("Harken Steel Tea Kettle", 24.5)
    assert (kettle.description, kettle.bullets, kettle.options) == ("", ("Easy to clean",), ())
    candle = catalogue["B0TEST0003"]
    assert (candle.price, candle.price_tag) == (100.0, "$100.0")
    assert catalogue["B0TEST0004"].attributes == ()
    assert catalogue.search("quilted jacket red") == ("B0TEST0001",)


def test_prices_hang_on_their_seed_and_not_on_what_else_is_read() -> None:
    price = read_catalogue(FILES)["B0TEST0001"].price
    assert read_catalogue(FILES, 1)["B0TEST0001"].price == price
    assert len(read_catalogue(FILES, 1)) == 1
    assert read_catalogue(FILES, None, 1)["B0TEST0001"].price != price


def test_requests_of_people_and_synthetic_ones() -> None:
    human = read_requests(FILES, "human")
    assert human == {
        "B0TEST0001": [
            Request(
                instruction="i need a quilted rain jacket for women in red, size x-large",
                attributes=("machine wash",),
                options=("red", "x-large"),
            )
        ],
        "B0TEST0002": [
            Request(
                instruction="looking for a steel tea kettle that is easy to clean",
                attributes=("easy clean",),
                options={},
            )
        ],
        "B0TEST0004": [
            Request(instruction="get me a wool throw blanket", attributes=("wool",), options={"color": "white"})
        ],
        "B0TEST0099": [Request(instruction="something that is not in the catalogue", attributes=("x",), options=())],
    }
    synthetic = read_requests(FILES, "synthetic")
    assert sorted(synthetic) == ["B0TEST0001", "B0TEST0003", "B0TEST0099"]
    assert synthetic["B0TEST0003"] == [
        Request(instruction="Find me long lasting candles", attributes=("long lasting",), options=None)
    ]


def test_amounts_of_dollars() -> None:
    assert amounts_of("$1,299.00 to $1,499.50") == (1299.0, 1499.5)
    assert amounts_of("$.99") == (0.99,)
    assert amounts_of("$5") == (5.0,)
    assert amounts_of("$1.0 $2.0 $3.0") == (1.0, 2.0)
    assert amounts_of("") == amounts_of(None) == amounts_of("free") == ()


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no file items_shuffle\*\.json"):
        read_catalogue(tmp_path)
    items = tmp_path / "items_shuffle.json"
    items.write_text("{}")
    with pytest.raises(FormatError, match=r"items_shuffle\.json: a dict, expected a list"):
        read_catalogue(tmp_path)
    items.write_text(json.dumps([{"asin": "B1"}]))
    with pytest.raises(FormatError, match=r"no file items_ins_v2\*\.json"):
        read_catalogue(tmp_path)
    (tmp_path / "items_ins_v2.json").write_text("{}")
    with pytest.raises(FormatError, match=r"product 0: KeyError: 'name'"):
        read_catalogue(tmp_path)
    items.write_text(json.dumps([{"asin": "nan"}]))
    with pytest.raises(FormatError, match="no product that can be sold among 1"):
        read_catalogue(tmp_path)
    items.write_text("[")
    with pytest.raises(FormatError, match="no JSON"):
        read_catalogue(tmp_path)
    (tmp_path / "items_human_ins.json").write_text(json.dumps({"B1": [{"instruction": "x"}]}))
    with pytest.raises(FormatError, match="product B1: KeyError: 'instruction_options'"):
        read_requests(tmp_path, "human")
    (tmp_path / "items_human_ins.json").write_text("[]")
    with pytest.raises(FormatError, match="a list, expected an object"):
        read_requests(tmp_path, "human")


def test_the_full_file_is_taken_where_a_part_lies_beside_it(tmp_path: Path) -> None:
    for name in ("items_shuffle_tiny.json", "items_ins_v2_tiny.json"):
        (tmp_path / name).write_bytes((FILES / name).read_bytes())
    records = json.loads((FILES / "items_shuffle_tiny.json").read_text())
    (tmp_path / "items_shuffle.json").write_text(json.dumps(records[1:2]))
    assert [item.item_id for item in read_catalogue(tmp_path).items] == ["B0TEST0002"]
