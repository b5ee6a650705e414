"""What a trainer learns from tokenised rows: by the published rule, and by TRL's own collator and packer where installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from tutelage.errors import FormatError
from tutelage.formats.row_files import arrow_table, quiet_datasets

_BATCH: Final = 8


def reread_trl(row: Mapping[str, Any]) -> tuple[list[int], frozenset[int]]:
    """The ids and the positions whose label is not -100. A label other than its id would teach another token."""
    if not len(row["input_ids"]) == len(row["labels"]) == len(row["attention_mask"]):
        raise FormatError("input_ids, labels and attention_mask differ in length")
    positions = frozenset(index for index, label in enumerate(row["labels"]) if label != -100)
    wrong = [index for index in sorted(positions) if row["labels"][index] != row["input_ids"][index]]
    if wrong or not all(row["attention_mask"]):
        raise FormatError(f"labels {wrong[:3]} differ from their ids, or a token is masked from attention")
    return list(row["input_ids"]), positions


def reread_verl_sft(row: Mapping[str, Any]) -> tuple[list[int], frozenset[int]]:
    """The ids and the positions in the loss mask that attention sees."""
    if len({len(row[name]) for name in ("input_ids", "attention_mask", "position_ids", "loss_mask")}) != 1:
        raise FormatError("the columns of a row differ in length")
    if list(row["position_ids"]) != list(range(len(row["input_ids"]))):
        raise FormatError("position_ids do not count from 0")
    on = [
        index
        for index, (mask, seen) in enumerate(zip(row["loss_mask"], row["attention_mask"], strict=True))
        if mask and seen
    ]
    return list(row["input_ids"]), frozenset(on)


def has_trl() -> bool:
    """Whether TRL itself can be asked."""
    return find_spec("trl") is not None and find_spec("datasets") is not None


def trl_batches(rows: Sequence[Mapping[str, Any]], pad_token_id: int) -> Iterator[frozenset[int]]:
    """Per row, the positions that TRL's own collator leaves in the loss; padding included in what it looks at."""
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    collator = DataCollatorForLanguageModeling(pad_token_id=pad_token_id)
    for first in range(0, len(rows), _BATCH):
        batch = collator([dict(row) for row in rows[first : first + _BATCH]])
        for labels in batch["labels"].tolist():
            yield frozenset(index for index, label in enumerate(labels) if label != -100)


def trl_packed_count(rows: Sequence[Mapping[str, Any]], pad_token_id: int, seq_length: int | None = None) -> int:
    """How many tokens TRL trains after its packer and its padding-free collator. `seq_length`: of a pack, None: the longest row.

    The packer restarts positions at each row, and the first token of a row is never trained.
    """
    from datasets import Dataset
    from trl.data_utils import pack_dataset
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    length = max(len(row["input_ids"]) for row in rows) if seq_length is None else seq_length
    with quiet_datasets():
        packed = pack_dataset(Dataset(arrow_table([dict(row) for row in rows])), length, "bfd").to_list()
    collator = DataCollatorForLanguageModeling(pad_token_id=pad_token_id, padding_free=True)
    total = 0
    for first in range(0, len(packed), _BATCH):
        total += int((collator(packed[first : first + _BATCH])["labels"] != -100).sum())
    return total
