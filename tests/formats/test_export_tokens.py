"""Tokenised rows: in each kind of file, through TRL's own collator and packer (report M9), and for verl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tutelage.formats.export import export
from tutelage.formats.reread_tokens import has_trl, reread_trl, trl_batches, trl_packed_count
from tutelage.formats.row_files import read_rows
from tutelage.formats.write_tokens import trl_row, verl_sft_row
from tutelage.supervision.step_masks import expert_steps
from tutelage.testing.byte_renderer import ByteRenderer
from tutelage.testing.trajectories import make_trajectory
from tutelage.types import LossComponent, TrainingSample

needs_trl = pytest.mark.skipif(not has_trl(), reason="TRL is not installed")
# Libraries below TRL warn of their own affairs.
pytestmark = pytest.mark.filterwarnings("ignore")


def sample(mask: str) -> TrainingSample:
    """Ids from 10 on; ``x`` is trained."""
    on = tuple(letter == "x" for letter in mask)
    return TrainingSample(
        sample_id=mask,
        trajectory_id=mask,
        token_ids=tuple(range(10, 10 + len(mask))),
        token_actors="".join("e" if one else "o" for one in on),
        loss_mask=on,
        loss_weights={LossComponent.SFT: tuple(map(float, on))},
    )


def test_rows_by_hand() -> None:
    assert trl_row(sample("..x.x")) == {
        "input_ids": [10, 11, 12, 13, 14],
        "labels": [-100, -100, 12, -100, 14],
        "attention_mask": [1, 1, 1, 1, 1],
    }
    assert verl_sft_row(sample("..x.x")) == {
        "input_ids": [10, 11, 12, 13, 14],
        "attention_mask": [1, 1, 1, 1, 1],
        "position_ids": [0, 1, 2, 3, 4],
        "loss_mask": [0, 0, 1, 0, 1],
    }


@needs_trl
def test_m9_packing_keeps_every_trained_token() -> None:
    """M9 (trl#3728, #3781, #3705): lengths 7, 5, 9 packed into 12 + 9; a mask that the packer loses trains everything."""
    from datasets import Dataset
    from trl.data_utils import pack_dataset
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    rows = [trl_row(sample(mask)) for mask in ("...xxx.", "..x.x", ".xx....xx")]
    assert [len(reread_trl(row)[1]) for row in rows] == [3, 2, 4]
    assert [len(positions) for positions in trl_batches(rows, pad_token_id=0)] == [3, 2, 4]
    packed = pack_dataset(Dataset.from_list(rows), 12, "bfd").to_list()
    assert sorted(len(one["input_ids"]) for one in packed) == [9, 12]
    batches = [DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)([one]) for one in packed]
    assert sum(int((batch["labels"] != -100).sum()) for batch in batches) == 9
    for batch in batches:
        positions, labels, ids = (batch[key][0].tolist() for key in ("position_ids", "labels", "input_ids"))
        starts = [index for index, position in enumerate(positions) if position == 0]
        assert all(ids[start] == 10 for start in starts)
        assert all(labels[start] == -100 for start in starts)
        assert all(label in (-100, token) for label, token in zip(labels, ids, strict=True))
    assert trl_packed_count(rows, 0, seq_length=12) == 9


@needs_trl
def test_a_pack_that_is_too_short_for_a_row_loses_tokens_and_is_counted() -> None:
    rows = [trl_row(sample("...xxx."))]
    assert trl_packed_count(rows, 0, seq_length=5) == 2


@pytest.mark.parametrize(("name", "kind"), [("rows.jsonl", "jsonl"), ("rows.parquet", "parquet"), ("rows", "datasets")])
def test_each_kind_of_file_holds_the_same_rows(name: str, kind: str, tmp_path: Path) -> None:
    if kind == "datasets":
        pytest.importorskip("datasets")
    given = [make_trajectory("se", task_id="a"), make_trajectory("ee", task_id="b"), make_trajectory("s", task_id="c")]
    renderer = ByteRenderer()
    ledger = export("trl", given, tmp_path / name, supervise=expert_steps, renderer=renderer)
    rows = read_rows(tmp_path / name, kind=kind)
    texts = [renderer.decode([label for label in row["labels"] if label != -100]) for row in rows]
    assert texts == ["act 1<stop>", "act 0<stop>act 1<stop>"]
    assert (ledger.num_read, ledger.num_converted, dict(ledger.skipped)) == (3, 2, {"no_trained_step": 1})
    assert dict(ledger.counts) == {
        "rows": 2, "trained_actions": 3, "tokens": 54, "trained_tokens": 18, "longest_row": 27,
    }  # fmt: skip
    if has_trl():
        assert "TRL's own collator trains the same tokens, padded and packed: 18" in ledger.notes
    assert "trained fraction 0.3333 of the tokens; read back and equal in all 2 rows" in ledger.notes


def test_one_row_per_step(tmp_path: Path) -> None:
    renderer = ByteRenderer()
    export(
        "verl_sft", [make_trajectory("ee")], tmp_path / "rows.parquet", supervise=expert_steps, renderer=renderer,
        layout="per_step",
    )  # fmt: skip
    rows = read_rows(tmp_path / "rows.parquet", kind="parquet")

    def trained(row: dict[str, Any]) -> str:
        return renderer.decode([one for one, on in zip(row["input_ids"], row["loss_mask"], strict=True) if on])

    assert [trained(row) for row in rows] == ["act 0<stop>", "act 1<stop>"]
    assert len(rows[1]["input_ids"]) == 27


def test_parquet_columns_have_declared_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export("trl", [make_trajectory("e")], tmp_path / "a.parquet", supervise=expert_steps, renderer=ByteRenderer())
    assert [str(one.type) for one in parquet.read_schema(tmp_path / "a.parquet")] == ["list<element: int64>"] * 3
