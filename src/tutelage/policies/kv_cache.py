"""Keys and values of many live episodes, kept over their turns and read in place.

Each episode owns one slot of two buffers per layer, [slots, kv_heads, positions, head_dim]. A forward pass is one
packed row of only the new tokens of all episodes; `kept_attention`, registered with transformers, stores their keys
and values in the slots and attends to what each slot holds. So nothing is padded, nothing is copied, and any model
that takes its attention from the transformers registry works.

Example, slot 0 holds 5 tokens and gets 2, slot 1 holds 3 and gets 1:
  input_ids     [[a, b, c]]
  position_ids  [[5, 6, 3]]
  last          [1, 2]       where the next-token logits of each slot are read
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

ATTENTION = "tutelage_kept_kv"
"""Name under which the attention is registered with transformers."""

NOT_DONE = ("softcap", "s_aux", "position_bias")
"""Options of the transformers registry that change the scores: capped scores, attention sinks, learned biases."""

PADDING_PER_CALL = 512
"""Masked key positions that cost about as much as one more attention call (one core, 4 heads of 32)."""


@dataclass(frozen=True, slots=True)
class Part:
    """New tokens of one slot in a forward pass."""

    slot: int
    start: int
    """Tokens the slot holds already."""
    count: int
    """New tokens, at least 1."""

    @property
    def end(self) -> int:
        return self.start + self.count


class SlotTable:
    """Which episode owns which slot, which token ids each slot holds, and the buffers.

    At most `max_slots` episodes are kept; beyond that the one idle longest is forgotten and fed again if it returns.
    Buffers double when they must grow, up to `max_length` positions.
    """

    def __init__(self, *, max_slots: int, max_length: int) -> None:
        self.max_slots = max_slots
        self.max_length = max_length
        self._slot_of: dict[str, int] = {}
        """Owner -> slot, idle longest first."""
        self._held: list[list[int]] = []
        self._free: list[int] = []
        self._positions = min(64, max_length)
        self._buffers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __len__(self) -> int:
        """Number of episodes kept."""
        return len(self._slot_of)

    @property
    def num_slots(self) -> int:
        """Slots ever opened; stays at the largest number of episodes that were live together."""
        return len(self._held)

    @property
    def num_bytes(self) -> int:
        """Memory of all buffers."""
        return sum(buffer.nbytes for pair in self._buffers.values() for buffer in pair)

    def held(self, owner: str) -> tuple[int, ...]:
        """Token ids kept for an episode; empty for an unknown one."""
        slot = self._slot_of.get(owner)
        return () if slot is None else tuple(self._held[slot])

    def open(self, owner: str, token_ids: Sequence[int]) -> Part:
        """Cut the owner's slot back to the longest prefix it shares with `token_ids`; returns what is to be fed.

        At least the last token is fed again, since its logits are not kept. Example:
          held 1 2 3 4, token_ids 1 2 9 9 9 -> Part(start=2, count=3)
        """
        slot = self._slot_of.pop(owner, None)
        if slot is None:
            slot = self._take_slot()
        self._slot_of[owner] = slot
        held = self._held[slot]
        start = min(common_prefix(held, token_ids), len(token_ids) - 1)
        del held[start:]
        return Part(slot, start, len(token_ids) - start)

    def extend(self, slot: int, token_ids: Sequence[int]) -> None:
        """Note the ids of tokens that a forward pass has just stored."""
        self._held[slot].extend(token_ids)

    def release(self, owner: str) -> None:
        """Free the owner's slot for another episode. Unknown owners are fine."""
        slot = self._slot_of.pop(owner, None)
        if slot is not None:
            self._held[slot].clear()
            # The lowest free slot is taken first: neighbours are attended in one call.
            heapq.heappush(self._free, slot)

    def _take_slot(self) -> int:
        if not self._free and len(self._held) == self.max_slots:
            self.release(next(iter(self._slot_of)))
        if self._free:
            return heapq.heappop(self._free)
        self._held.append([])
        return len(self._held) - 1

    def reserve(self, length: int) -> None:
        """Make room for `length` positions in each slot."""
        while self._positions < length:
            self._positions = min(2 * self._positions, self.max_length)

    def store(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write keys and values [tokens, kv_heads, head_dim] of a layer to their places; returns its two buffers."""
        pair = self._buffers.get(layer)
        if pair is None or pair[0].shape[0] < len(self._held) or pair[0].shape[2] < self._positions:
            pair = self._grow(layer, pair, keys, values)
        pair[0][slots, :, positions] = keys
        pair[1][slots, :, positions] = values
        return pair

    def _grow(
        self, layer: int, old: tuple[torch.Tensor, torch.Tensor] | None, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        slots = 1 if old is None else old[0].shape[0]
        while slots < len(self._held):
            slots = min(2 * slots, self.max_slots)
        # Zeros, not empty: masked positions still take part in 0 * value, and 0 * nan is nan.
        new = (
            keys.new_zeros(slots, keys.shape[1], self._positions, keys.shape[2]),
            values.new_zeros(slots, values.shape[1], self._positions, values.shape[2]),
        )
        if old is not None:
            for source, target in zip(old, new, strict=True):
                target[: source.shape[0], :, : source.shape[2]] = source
        self._buffers[layer] = new
        return new


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Number of leading ids that are equal.

    Example: ``common_prefix([1, 2, 3], [1, 2, 4, 5]) == 2``
    """
    shared = min(len(left), len(right))
    if left[:shared] == right[:shared]:
        return shared
    return next(index for index in range(shared) if left[index] != right[index])


@dataclass(frozen=True)
class Run:
    """Parts of neighbouring slots with equal counts: one attention call."""

    first_token: int
    """Of the packed row."""
    parts: tuple[Part, ...]

    @property
    def count(self) -> int:
        return self.parts[0].count

    @cached_property
    def num_keys(self) -> int:
        """Key positions that are read from each slot."""
        return max(part.end for part in self.parts)


def group_parts(parts: Sequence[Part]) -> list[Run]:
    """Join parts of neighbouring slots while the padding this brings is cheaper than another call.

    Example, counts all 1: slots 0, 1, 3 holding 10, 12, 11 tokens -> runs of slots (0, 1) and (3,)
    """
    runs: list[Run] = []
    members: list[Part] = []
    first_token = next_token = 0
    longest = 0
    for part in parts:
        padding = max(longest - part.end, (part.end - longest) * len(members))
        joins = members and part.slot == members[-1].slot + 1 and part.count == members[-1].count
        if not joins or padding > PADDING_PER_CALL:
            if members:
                runs.append(Run(first_token, tuple(members)))
            members, first_token, longest = [], next_token, 0
        members.append(part)
        longest = max(longest, part.end)
        next_token += part.count
    runs.append(Run(first_token, tuple(members)))
    return runs


class Feed:
    """One forward pass: which new tokens go to which slots. `parts` are in order of their slots.

    The model gets it as `kept_kv`, `positions[None]` as its position ids, and `last` as the logits to keep.
    """

    def __init__(self, table: SlotTable, parts: Sequence[Part], device: torch.device) -> None:
        self.table = table
        self.runs = group_parts(parts)
        self.num_tokens = sum(part.count for part in parts)
        slots = [part.slot for part in parts for _ in range(part.count)]
        positions = [position for part in parts for position in range(part.start, part.end)]
        last, total = [], 0
        for part in parts:
            total += part.count
            last.append(total - 1)
        self.slots = torch.tensor(slots, device=device)
        self.positions = torch.tensor(positions, device=device)
        """[tokens] place of each new token in its own episode."""
        self.last = torch.tensor(last, device=device)
        """[parts] place of each part's last token in the packed row."""
        self._masks: dict[tuple[int | None, int], list[torch.Tensor | None]] = {}
        table.reserve(max(part.end for part in parts))

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float | None,
        window: int | None,
    ) -> torch.Tensor:
        """Store the new keys and values, then attend; [1, heads, tokens, dim] -> [1, tokens, heads, dim]."""
        keys, values = self.table.store(
            layer, key[0].transpose(0, 1), value[0].transpose(0, 1), self.slots, self.positions
        )
        heads, kv_heads = query.shape[1], key.shape[1]
        packed = query[0].transpose(0, 1)
        outputs = []
        for run, mask in zip(self.runs, self._masks_for(window, heads // kv_heads, query), strict=True):
            rows, count, slot = len(run.parts), run.count, run.parts[0].slot
            tokens = packed[run.first_token : run.first_token + rows * count]
            # Heads that share a key head become further queries of it, so keys are never repeated.
            folded = tokens.view(rows, count, heads, -1).transpose(1, 2).reshape(rows, kv_heads, -1, query.shape[-1])
            attended = scaled_dot_product_attention(
                folded,
                keys[slot : slot + rows, :, : run.num_keys],
                values[slot : slot + rows, :, : run.num_keys],
                attn_mask=mask,
                scale=scaling,
            )
            unfolded = attended.reshape(rows, heads, count, -1).transpose(1, 2)
            outputs.append(unfolded.reshape(rows * count, heads, -1))
        return (outputs[0] if len(outputs) == 1 else torch.cat(outputs))[None]

    def _masks_for(self, window: int | None, repeats: int, like: torch.Tensor) -> list[torch.Tensor | None]:
        """One mask per run, made once per forward pass and shared by layers of a kind."""
        if (window, repeats) not in self._masks:
            self._masks[window, repeats] = [run_mask(run, window, repeats, like) for run in self.runs]
        return self._masks[window, repeats]


def run_mask(run: Run, window: int | None, repeats: int, like: torch.Tensor) -> torch.Tensor | None:
    """[rows or 1, 1, repeats * count, keys], 0 where a query may look and -inf elsewhere. None: it may look everywhere.

    Example, one slot that holds 2 and gets 2:
      0 0 0 -inf
      0 0 0 0
    """
    starts = sorted({part.start for part in run.parts})
    if len(starts) == 1 and run.count == 1 and (window is None or run.num_keys <= window):
        return None
    if len(starts) > 1:
        starts = [part.start for part in run.parts]
    steps = torch.arange(run.count, device=like.device).repeat(repeats)
    queries = torch.tensor(starts, device=like.device)[:, None, None] + steps[:, None]
    keys = torch.arange(run.num_keys, device=like.device)
    hidden = keys > queries
    if window is not None:
        hidden |= keys <= queries - window
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)[:, None]


def kept_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    kept_kv: Feed,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of a packed row over the slots; the signature is that of the transformers registry.

    Raises NotImplementedError for what scaled dot-product attention cannot do.
    """
    if unknown := [name for name in NOT_DONE if others.get(name) is not None]:
        raise NotImplementedError(f"its attention uses {', '.join(unknown)}")
    layer: int = module.layer_idx  # type: ignore[assignment]
    return kept_kv.attend(layer, query, key, value, scaling, sliding_window), None


AttentionInterface.register(ATTENTION, kept_attention)
