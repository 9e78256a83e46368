"""Opaque cursors and page caps, as real services have them.

``Page`` cuts one page out of a result; the cursor of the next page is opaque, belongs to one query and is refused with
any other, so an agent cannot skip ahead by guessing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from servers.tools import Call

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a longer result."""

    items: Sequence[T]
    next_cursor: str | None
    total: int


def page(call: Call, scope: str, items: Sequence[T], *, size: int, cursor: str | None) -> Page[T]:
    """Cut the page that ``cursor`` stands for out of ``items``.

    Args:
        call: The running call.
        scope: Everything that the result depends on, such as the search text; a cursor is good for one scope.
        items: The whole result in order.
        size: Most items on a page.
        cursor: What an earlier page gave, None for the first page.

    Raises:
        ToolError: The cursor was made for another query or is none of ours.
    """
    scope = f"{call.tool}\0{call.person.email}\0{scope}"
    begin = 0 if cursor is None else _read(call, scope, cursor)
    end = begin + size
    return Page(items[begin:end], _write(scope, end) if end < len(items) else None, len(items))


def _write(scope: str, offset: int) -> str:
    body = offset.to_bytes(4) + hashlib.blake2b(f"{scope}\0{offset}".encode(), digest_size=8).digest()
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def _read(call: Call, scope: str, cursor: str) -> int:
    try:
        body = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except ValueError:
        body = b""
    offset = int.from_bytes(body[:4])
    if cursor != _write(scope, offset):
        raise call.refuse("the cursor does not belong to this query. Start again without a cursor.")
    return offset
