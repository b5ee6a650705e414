"""The targets of an export, one line each: how a row is written, and by which rules it is read back.

To add a target: a writer, a reader by its trainer's published rules, and a line in `TARGETS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tutelage.formats import (
    reread_atif,
    reread_chat,
    reread_parquet,
    reread_sharegpt,
    reread_swift,
    reread_tokens,
    write_chat,
    write_parquet,
    write_sharegpt,
    write_swift,
    write_tokens,
)
from tutelage.formats.write_messages import Conversation
from tutelage.supervision.samples import Layout


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One kind of file that `export` writes."""

    help: str
    kinds: tuple[str, ...] = ("jsonl",)
    row: Callable[[Conversation], dict[str, Any]] | None = None
    """A conversation -> its one row."""
    rows: Callable[[Conversation], list[tuple[dict[str, Any], Conversation]]] | None = None
    """A conversation -> rows, each with what is meant by it."""
    reread: Callable[[dict[str, Any]], reread_chat.Reading] | None = None
    sample_row: Callable[..., dict[str, Any]] | None = None
    """A training sample -> its row: for tokenised targets."""
    reread_sample: Callable[[dict[str, Any]], tuple[list[int], frozenset[int]]] | None = None
    loses: tuple[str, ...] = ()
    """What the format has no place for and training does not need: ``ids``, ``null``, ``layout``."""
    layout: Layout = "whole"
    """How our samples are cut so that one is compared with one row."""
    schema: Callable[[], Any] | None = None
    note: str | None = None
    """What its trainer does beyond messages and flags, for the ledger."""
    config: str | None = None
    """Lines that the user of the trainer needs, with {path} and {name}."""
    config_suffix: str = ".yaml"
    whole: bool = False
    """A record: it carries untrained episodes, weights of any size and the last observation."""


_TURN_LOSSES: Final = ("ids", "null", "layout")

_NEWLINE: Final = "where its template writes a newline after the stop token, this trainer learns the newline too; tokenised rows do not"

TARGETS: Final[dict[str, Target]] = {
    "openai": Target(help="chat JSONL with weight 0/1", row=write_chat.openai_row, reread=reread_chat.reread_openai),
    "mistral": Target(help="chat JSONL with weight 0/1", row=write_chat.openai_row, reread=reread_chat.reread_openai),
    "axolotl": Target(
        help="chat JSONL with train true/false",
        row=write_chat.axolotl_row,
        reread=reread_chat.reread_axolotl,
        config=write_chat.AXOLOTL_CONFIG,
    ),
    "swift": Target(
        help="ms-swift messages with loss true/false",
        row=write_swift.swift_row,
        reread=reread_swift.reread_swift,
        loses=_TURN_LOSSES,
    ),
    "slime": Target(
        help="chat JSONL with loss 0/1",
        row=write_chat.slime_row,
        reread=reread_chat.reread_slime,
        note=_NEWLINE,
    ),
    "tinker": Target(
        help="chat JSONL with trainable true/false",
        row=write_chat.tinker_row,
        reread=reread_chat.reread_tinker,
        config=write_chat.TINKER_CONFIG,
    ),
    "llama_factory": Target(
        help="ShareGPT, one row per trained turn, history masked",
        rows=write_sharegpt.llama_factory_rows,
        reread=reread_sharegpt.reread_llama_factory,
        loses=_TURN_LOSSES,
        layout="per_step",
        note=_NEWLINE,
        config=write_sharegpt.LLAMA_FACTORY_CONFIG,
        config_suffix=".config.txt",
    ),
    "sharegpt": Target(
        help="plain ShareGPT, for episodes of which every action is trained",
        rows=write_sharegpt.sharegpt_rows,
        reread=reread_sharegpt.reread_sharegpt,
        loses=_TURN_LOSSES,
    ),
    "parquet": Target(
        help="Parquet of messages and tools, with train true/false",
        kinds=("parquet",),
        row=write_parquet.parquet_row,
        reread=reread_parquet.reread_parquet,
        schema=write_parquet.messages_schema,
    ),
    "trl": Target(
        help="tokenised rows: input_ids, labels, attention_mask",
        kinds=("jsonl", "parquet", "datasets"),
        sample_row=write_tokens.trl_row,
        reread_sample=reread_tokens.reread_trl,
    ),
    "verl_sft": Target(
        help="tokenised rows: input_ids, attention_mask, position_ids, loss_mask",
        kinds=("parquet", "jsonl"),
        sample_row=write_tokens.verl_sft_row,
        reread_sample=reread_tokens.reread_verl_sft,
    ),
    "atif": Target(
        help="ATIF 1.8 documents, one per episode",
        kinds=("jsonl", "folder"),
        reread=reread_atif.reread_atif,
        whole=True,
    ),
}
"""Name -> target. `native` and `verl` are in `export_records`."""
