"""Cursors over a result that changes between two pages."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.errors import ToolError
from servers.paging import Page, page
from servers.tools import Call
from servers.world import World
from tests.servers.notebook import notebook


def a_call(seed: str = "one") -> Call:
    world = World.open(notebook(seed=seed))
    return Call(world, "notes_list", world.people[world.image.principal], world.now)


CALL = a_call()
relaxed = settings(max_examples=60, deadline=None)


def cut(items: list[int], cursor: str | None, size: int = 3, call: Call = CALL) -> Page[int]:
    return page(call, "", items, key=int, size=size, cursor=cursor)


@relaxed
@given(st.integers(1, 30), st.integers(1, 5), st.lists(st.integers(0, 3), max_size=30))
def test_what_arrives_on_top_between_pages_neither_repeats_nor_hides_anything(
    length: int, size: int, arriving: list[int]
) -> None:
    items, shown, cursor, fresh = list(range(length)), list[int](), None, -1
    while True:
        part = cut(items, cursor, size)
        shown += part.items
        if (cursor := part.next_cursor) is None:
            break
        for _ in range(arriving.pop() if arriving else 0):
            items.insert(0, fresh)
            fresh -= 1
    assert shown == list(range(length))


@relaxed
@given(st.integers(1, 30), st.integers(1, 5), st.data())
def test_archiving_what_was_shown_hides_nothing(length: int, size: int, data: st.DataObject) -> None:
    items, shown, cursor = list(range(length)), list[int](), None
    while True:
        part = cut(items, cursor, size)
        shown += part.items
        if (cursor := part.next_cursor) is None:
            break
        gone = data.draw(st.sets(st.sampled_from(shown)))
        items = [item for item in items if item not in gone]
    assert shown == list(range(length))


def test_an_item_that_moves_to_the_top_does_not_take_the_page_along() -> None:
    cursor = cut([1, 2, 3, 4, 5, 6], None).next_cursor
    assert cut([3, 1, 2, 4, 5, 6], cursor).items == [4, 5, 6]
    assert cut([4, 1, 2, 3, 5, 6], cursor).items == [5, 6]


def test_where_both_neighbours_are_gone_the_old_place_counts() -> None:
    cursor = cut([1, 2, 3, 4, 5, 6], None).next_cursor
    assert cut([1, 2, 5, 6], cursor).items == [6]
    assert cut([], cursor).items == []


def test_cursors_of_another_world_and_made_up_ones_are_refused() -> None:
    cursor = cut([1, 2, 3, 4], None).next_cursor
    assert cursor is not None
    raw = bytearray(base64.urlsafe_b64decode(cursor))
    raw[3] += 1
    forged = [base64.urlsafe_b64encode(bytes(raw)).decode(), cursor[:-1], cursor + "A", "", "é", "AAAA"]
    for bad in forged:
        with pytest.raises(ToolError, match="does not belong"):
            cut([1, 2, 3, 4], bad)
    with pytest.raises(ToolError, match="does not belong"):
        cut([1, 2, 3, 4], cursor, call=a_call("two"))
