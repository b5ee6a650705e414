"""Kept keys and values: slots, cut-backs, growth, and attention over ragged slots against the plain formula."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.policies.kv_cache import Feed, Part, Run, SlotTable, common_prefix, group_parts, run_mask

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [([], [1], 0), ([1, 2, 3], [1, 2, 4, 5], 2), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 2], 2), ([9], [1], 0)],
)
def test_common_prefix(left: list[int], right: list[int], shared: int) -> None:
    assert common_prefix(left, right) == shared


def fed(table: SlotTable, owner: str, token_ids: list[int]) -> Part:
    """Open a slot and note the new tokens as stored."""
    part = table.open(owner, token_ids)
    table.extend(part.slot, token_ids[part.start :])
    return part


def test_open_keeps_the_shared_prefix_only() -> None:
    table = SlotTable(max_slots=4, max_length=64)
    assert fed(table, "a", [1, 2, 3, 4]) == Part(slot=0, start=0, count=4)
    assert fed(table, "a", [1, 2, 3, 4, 5, 6]) == Part(slot=0, start=4, count=2)
    # The context changed at index 2: everything after it is fed again.
    assert fed(table, "a", [1, 2, 9, 9, 9]) == Part(slot=0, start=2, count=3)
    assert table.held("a") == (1, 2, 9, 9, 9)
    # The same context again: the last token is fed once more, for its logits.
    assert fed(table, "a", [1, 2, 9, 9, 9]) == Part(slot=0, start=4, count=1)
    # A shorter one.
    assert fed(table, "a", [1, 2]) == Part(slot=0, start=1, count=1)
    assert table.held("a") == (1, 2)


def test_released_slots_are_reused_lowest_first() -> None:
    table = SlotTable(max_slots=8, max_length=64)
    assert [fed(table, owner, [1]).slot for owner in "abcd"] == [0, 1, 2, 3]
    table.release("c")
    table.release("a")
    table.release("never seen")
    assert len(table) == 2
    assert [fed(table, owner, [7]) for owner in "efg"] == [Part(0, 0, 1), Part(2, 0, 1), Part(4, 0, 1)]
    assert table.num_slots == 5


def test_the_one_idle_longest_gives_way() -> None:
    table = SlotTable(max_slots=2, max_length=64)
    fed(table, "a", [1, 2])
    fed(table, "b", [1, 2])
    fed(table, "a", [1, 2, 3])
    assert fed(table, "c", [5]) == Part(slot=1, start=0, count=1)
    assert table.held("b") == ()
    assert table.held("a") == (1, 2, 3)
    assert table.num_slots == 2


def test_group_parts_joins_neighbours_with_equal_counts() -> None:
    parts = [Part(0, 10, 1), Part(1, 12, 1), Part(3, 11, 1), Part(4, 5, 7), Part(5, 9, 7), Part(6, 9, 2)]
    assert group_parts(parts) == [
        Run(0, (Part(0, 10, 1), Part(1, 12, 1))),
        Run(2, (Part(3, 11, 1),)),
        Run(3, (Part(4, 5, 7), Part(5, 9, 7))),
        Run(17, (Part(6, 9, 2),)),
    ]


def test_group_parts_splits_where_padding_is_dearer_than_a_call() -> None:
    short, long = Part(1, 100, 1), Part(0, 2000, 1)
    assert [len(run.parts) for run in group_parts([long, short])] == [1, 1]
    assert [len(run.parts) for run in group_parts([Part(0, 100, 1), Part(1, 2000, 1)])] == [1, 1]
    assert [len(run.parts) for run in group_parts([Part(0, 600, 1), short])] == [2]


def test_run_mask_by_hand() -> None:
    hide = -torch.inf
    like = torch.zeros(1)
    one_slot = run_mask(Run(0, (Part(0, 2, 2),)), None, 1, like)
    assert one_slot is not None
    assert one_slot.tolist() == [[[[0, 0, 0, hide], [0, 0, 0, 0]]]]
    # Two query heads share a key head: the queries of the second follow those of the first.
    shared_head = run_mask(Run(0, (Part(0, 0, 2),)), None, 2, like)
    assert shared_head is not None
    assert shared_head.tolist() == [[[[0, hide], [0, 0], [0, hide], [0, 0]]]]
    ragged = run_mask(Run(0, (Part(0, 2, 1), Part(1, 0, 1))), None, 1, like)
    assert ragged is not None
    assert ragged.tolist() == [[[[0, 0, 0]]], [[[0, hide, hide]]]]
    window = run_mask(Run(0, (Part(0, 3, 1),)), 2, 1, like)
    assert window is not None
    assert window.tolist() == [[[[hide, hide, 0, 0]]]]
    assert run_mask(Run(0, (Part(0, 3, 1), Part(1, 3, 1))), None, 1, like) is None


def plain_attention(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, window: int | None) -> torch.Tensor:
    """[heads, n, d] queries, the last n of [heads, t, d] keys: the formula, without any kernel."""
    count, length = query.shape[1], keys.shape[1]
    scores = query @ keys.transpose(1, 2) / query.shape[-1] ** 0.5
    for row in range(count):
        place = length - count + row
        scores[:, row, place + 1 :] = -torch.inf
        if window is not None:
            scores[:, row, : max(0, place - window + 1)] = -torch.inf
    return scores.softmax(-1) @ values


@settings(max_examples=40, deadline=None)
@given(
    passes=st.lists(
        st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1),
        min_size=1,
        max_size=6,
    ),
    window=st.sampled_from([None, 3]),
    seed=st.integers(0, 99),
)
def test_attention_over_slots_equals_the_formula(
    passes: list[dict[int, tuple[int, int]]], window: int | None, seed: int
) -> None:
    """Owners join when first named; each pass cuts some tokens off and feeds some, over 2 layers of 4 heads on 2."""
    generator = torch.Generator().manual_seed(seed)
    table = SlotTable(max_slots=8, max_length=64)
    ids: dict[int, list[int]] = {}
    kept: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
    next_id = 0
    for one_pass in passes:
        parts, owners = [], {}
        for owner, (cut, count) in one_pass.items():
            start = max(0, len(ids.get(owner, [])) - cut)
            ids[owner] = ids.get(owner, [])[:start] + list(range(next_id, next_id + count))
            next_id += count
            part = table.open(str(owner), ids[owner])
            assert (part.start, part.count) == (start, count)
            parts.append(part)
            owners[part.slot] = owner
        parts.sort(key=lambda part: part.slot)
        feed = Feed(table, parts, CPU)
        for layer in range(2):
            total = feed.num_tokens
            query = torch.randn(1, 4, total, 8, generator=generator, dtype=torch.float64)
            key, value = (torch.randn(1, 2, total, 8, generator=generator, dtype=torch.float64) for _ in range(2))
            got = feed.attend(layer, query, key, value, None, window)
            assert got.shape == (1, total, 4, 8)
            first = 0
            for part in parts:
                rows = slice(first, first + part.count)
                empty = key.new_zeros(2, 0, 8)
                before = kept.get((owners[part.slot], layer), (empty, empty))
                keys, values = (
                    torch.cat([old[:, : part.start], new[0, :, rows]], 1)
                    for old, new in zip(before, (key, value), strict=True)
                )
                kept[owners[part.slot], layer] = (keys, values)
                expected = plain_attention(
                    query[0, :, rows], keys.repeat_interleave(2, 0), values.repeat_interleave(2, 0), window
                )
                torch.testing.assert_close(got[0, rows], expected.transpose(0, 1))
                first += part.count
        for part in parts:
            table.extend(part.slot, ids[owners[part.slot]][part.start :])


def test_buffers_grow_by_doubling_and_keep_what_they_hold() -> None:
    table = SlotTable(max_slots=4, max_length=200)
    key = torch.arange(70, dtype=torch.float32).reshape(1, 1, 70, 1)
    first = table.open("a", list(range(60)))
    Feed(table, [first], CPU).attend(0, key[:, :, :60], key[:, :, :60], key[:, :, :60], None, None)
    assert table.num_bytes == 2 * 1 * 64 * 4
    table.extend(first.slot, list(range(60)))
    parts = [table.open("a", list(range(70))), table.open("b", [5]), table.open("c", [6])]
    feed = Feed(table, parts, CPU)
    new = torch.cat([key[:, :, 60:], key[:, :, :2]], 2)
    feed.attend(0, new, new, new, None, None)
    assert table.num_bytes == 2 * 4 * 128 * 4
    assert table._buffers[0][0][0, 0, :70, 0].tolist() == list(range(70))
    # Never beyond the longest context.
    table.reserve(200)
    assert table._positions == 200
