"""Opaque cursors and page caps, as real services have them.

``page`` cuts one page out of a result. The cursor of the next page is opaque, belongs to one query of one person, and
is refused with any other: it is signed with the seed of the world, which no tool shows.

A result may change between two pages. The next page goes on where the last one ended, not at a number: behind the last
item that was shown, or at the first that was not. Mail that arrives on top or is archived on the way therefore makes no
item appear twice or be skipped. Not promised: the same when both of these items are gone, where the old number counts,
or when items change places; then a few may repeat or be missed, as in any real service.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from servers.tools import Call

T = TypeVar("T")

_OFFSET = 4
_NAME = 6
_SEAL = 8


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a longer result."""

    items: Sequence[T]
    next_cursor: str | None
    total: int


@dataclass(frozen=True, slots=True)
class _Seam:
    """Where one page ended and the next begins."""

    offset: int
    last: bytes
    """The name of the last item that was shown."""
    following: bytes
    """The name of the first item that was not."""


def page(
    call: Call, scope: str, items: Sequence[T], *, key: Callable[[T], str | int], size: int, cursor: str | None
) -> Page[T]:
    """Cut the page that ``cursor`` stands for out of ``items``.

    Args:
        call: The running call.
        scope: Everything that the result depends on, such as the search text; a cursor is good for one scope.
        items: The whole result in order.
        key: What tells an item from the others, now and in a later call.
        size: Most items on a page.
        cursor: What an earlier page gave, None for the first page.

    Raises:
        ToolError: The cursor was made for another query or is none of ours.
    """
    scope = f"{call.world.image.seed}\0{call.tool}\0{call.person.email}\0{scope}"
    begin = 0 if cursor is None else _begin(items, key, _read(call, scope, cursor))
    end = begin + size
    following = None
    if end < len(items):
        following = _write(scope, _Seam(end, _name(key(items[end - 1])), _name(key(items[end]))))
    return Page(items[begin:end], following, len(items))


def _begin(items: Sequence[T], key: Callable[[T], str | int], seam: _Seam) -> int:
    """The place at which a page begins: at the seam, wherever that is by now."""
    offset = seam.offset
    if offset < len(items) and _name(key(items[offset - 1])) == seam.last:
        return offset  # nothing has changed before it
    places = [
        place + (name == seam.last)
        for place, name in enumerate(_name(key(item)) for item in items)
        if name in (seam.last, seam.following)
    ]
    # One of the two may have moved elsewhere; the nearer one has not.
    return min(places, key=lambda place: abs(place - offset), default=offset)


def _name(key: str | int) -> bytes:
    return hashlib.blake2b(str(key).encode(), digest_size=_NAME).digest()


def _write(scope: str, seam: _Seam) -> str:
    body = seam.offset.to_bytes(_OFFSET) + seam.last + seam.following
    seal = hashlib.blake2b(scope.encode() + b"\0" + body, digest_size=_SEAL).digest()
    return base64.urlsafe_b64encode(body + seal).decode()


def _read(call: Call, scope: str, cursor: str) -> _Seam:
    try:
        body = base64.urlsafe_b64decode(cursor)
    except ValueError:
        body = b""
    seam = _Seam(
        int.from_bytes(body[:_OFFSET]), body[_OFFSET : _OFFSET + _NAME], body[_OFFSET + _NAME : _OFFSET + 2 * _NAME]
    )
    if cursor != _write(scope, seam):
        raise call.refuse("the cursor does not belong to this query. Start again without a cursor.")
    return seam
