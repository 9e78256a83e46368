"""What happened in a world: journal entries and row changes, and the net change set between two moments.

A world logs every row's before and after, with the number of the running call, in the same transaction as the row
itself, so a service gets diffing without writing any. Rolled-back calls leave no changes.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import from_json, to_json

ActorKind = Literal["agent", "user", "coworker"]
JsonObject = dict[str, Any]
_DEEP = 100
"""Brackets from which on a text might be nested too deeply; the reader stops at 200."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who calls: what kind of actor, and with whose rights."""

    kind: ActorKind
    person: str
    """Mail address of the person who acts, or for whom the agent works."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One call, in order."""

    seq: int
    at: int
    """Simulated time at which the call ran, seconds since 1970 UTC."""
    actor: Actor
    tool: str
    arguments: JsonObject
    result: JsonObject | None
    """None when the call failed."""
    error: str | None
    event: str | None
    """Id of the event whose action this was."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row that one call changed. ``before`` is None for an insert, ``after`` for a delete."""

    call: int
    """``seq`` of the journal entry."""
    type: str
    """Record type, such as ``mail.message``."""
    key: str
    before: JsonObject | None
    after: JsonObject | None

    @property
    def operation(self) -> Literal["created", "updated", "deleted"]:
        """What happened to the row."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "updated"

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that differ, sorted."""
        before, after = self.before or {}, self.after or {}
        return tuple(name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))


def argument_text(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Arguments as the journal keeps them, and why the call must be refused; empty if it need not.

    What an agent sends may be no JSON (half of a surrogate pair) or so deep that nobody reads it back. The
    journal then keeps an excerpt under ``unreadable``.
    """
    try:
        text = to_json(arguments).decode()
        if text.count("[") + text.count("{") >= _DEEP:
            from_json(text)
    except ValueError:
        excerpt = ascii(reprlib.repr(dict(arguments)))
        return to_json({"unreadable": excerpt}).decode(), "the arguments are no valid JSON, or nested too deeply"
    return text, ""


def net_changes(changes: Iterable[RowChange]) -> list[RowChange]:
    """Fold changes in order into one per row: first before, last after; rows that end as they began drop out.

    The result is in the order in which rows were first touched; ``call`` is the last call that touched the row.
    """
    rows: dict[tuple[str, str], RowChange] = {}
    for change in changes:
        row = (change.type, change.key)
        first = rows.get(row)
        before = change.before if first is None else first.before
        rows[row] = RowChange(change.call, change.type, change.key, before, change.after)
    return [change for change in rows.values() if change.before != change.after]
