"""The records of a world and what became of them: the part of a world that services use.

* ``get``, ``select``, ``first`` and ``rows`` read; ``insert``, ``update`` and ``delete`` write, and log each row's
  before and after under the number of the running call. There is no other way to write, so the log is complete.
* ``new_id`` and ``next_number`` are the seeded streams of ids.
* ``journal``, ``row_changes``, ``changes``, ``dump`` and ``state_hash`` tell what happened.

``servers.world.World`` adds the door, time and events. Not promised: anything about who may do what; tools see to
rights.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic_core import from_json

from servers.errors import ToolError, WorldClosed
from servers.image import HASH_BITS, Image, hash_row, row_text
from servers.journal import Actor, ActorKind, JournalEntry, RowChange, net_changes
from servers.people import Person
from servers.records import Record, RecordType, record_type
from servers.sql import Query, Statement
from servers.tools import JsonObject

R = TypeVar("R", bound=Record)


class Store:
    """Records in a connection of their own, with the log of their changes."""

    __slots__ = ("_connection", "_hash", "_hashed", "_seq", "image", "people")

    def __init__(self, image: Image, connection: sqlite3.Connection) -> None:
        """The records of ``image`` as they are in ``connection`` at the very beginning."""
        self.image = image
        self.people: Mapping[str, Person] = image.people
        self._connection: sqlite3.Connection | None = connection
        self._seq = 0
        self._hash = image.records_hash
        self._hashed = 0

    # ------------------------------------------------------------------ records, for services

    def get(self, model: type[R], key: str) -> R | None:
        """The record with this key, or None."""
        derived = record_type(model)
        row = self._live().execute(derived.get_sql, (key,)).fetchone()
        return None if row is None else cast("R", derived.decode(row))

    def select(self, query: Query[R], **params: Any) -> list[R]:  # noqa: ANN401 - values of any column type
        """All records that a query selects."""
        decode = record_type(query.model).decode
        rows = self._live().execute(*query.compile(params)).fetchall()
        return [cast("R", decode(row)) for row in rows]

    def first(self, query: Query[R], **params: Any) -> R | None:  # noqa: ANN401
        """The first record that a query selects, or None."""
        row = self._live().execute(*query.compile(params)).fetchone()
        return None if row is None else cast("R", record_type(query.model).decode(row))

    def rows(self, statement: Statement, **params: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401
        """Plain rows of any statement."""
        return self._live().execute(*statement.compile(params)).fetchall()

    def insert(self, record: Record) -> None:
        """Add a record.

        Raises:
            ToolError: A record with this key is there already.
        """
        derived = record_type(type(record))
        row = derived.encode(record)
        try:
            self._live().execute(derived.insert_sql, row)
        except sqlite3.IntegrityError:
            raise ToolError(f"{derived.name} {getattr(record, derived.key)!r} exists already") from None
        self._log(derived, getattr(record, derived.key), None, row)

    def update(self, record: R, **values: Any) -> R:  # noqa: ANN401
        """Change fields of a record; gives the new record. Values are validated as when records are loaded.

        Raises:
            pydantic.ValidationError: A value does not fit; a tool should have refused it before.
            KeyError: There is no such record.
        """
        derived = record_type(type(record))
        key = getattr(record, derived.key)
        before = self._row(derived, key)
        current = cast("R", derived.decode(before))
        changed = cast(
            "R", derived.model.model_validate({**current.__dict__, **(current.__pydantic_extra__ or {}), **values})
        )
        after = derived.encode(changed)
        if after != before:
            self._live().execute(derived.update_sql, (*after, key))
            self._log(derived, key, before, after)
        return changed

    def delete(self, record: Record) -> None:
        """Remove a record.

        Raises:
            KeyError: There is no such record.
        """
        derived = record_type(type(record))
        key = getattr(record, derived.key)
        before = self._row(derived, key)
        self._live().execute(derived.delete_sql, (key,))
        self._log(derived, key, before, None)

    def _row(self, derived: RecordType, key: str) -> tuple[Any, ...]:
        row = self._live().execute(derived.get_sql, (key,)).fetchone()
        if row is None:
            raise KeyError(f"{derived.name} {key}")
        return cast("tuple[Any, ...]", row)

    def _log(
        self, derived: RecordType, key: str, before: tuple[Any, ...] | None, after: tuple[Any, ...] | None
    ) -> None:
        self._live().execute(
            "INSERT INTO _changes (call, type, key, before, after) VALUES (?, ?, ?, ?, ?)",
            (
                self._seq + 1,
                derived.name,
                key,
                None if before is None else row_text(before),
                None if after is None else row_text(after),
            ),
        )

    def new_id(self, kind: str) -> str:
        """A fresh opaque id of 16 hex digits from the seeded stream of ``kind``."""
        number = self.next_number(kind)
        return hashlib.blake2b(f"{self.image.seed}\0{kind}\0{number}".encode(), digest_size=8).hexdigest()

    def next_number(self, kind: str) -> int:
        """The next number of a counter: 1, 2, 3 ... unless ``set_number`` moved it."""
        row = (
            self._live()
            .execute("INSERT INTO _ids VALUES (?, 1) ON CONFLICT (kind) DO UPDATE SET n = n + 1 RETURNING n", (kind,))
            .fetchone()
        )
        return cast("int", row[0])

    def set_number(self, kind: str, last: int) -> None:
        """Let a counter go on after ``last``; for ``Service.prepare``."""
        self._live().execute(
            "INSERT INTO _ids VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET n = excluded.n", (kind, last)
        )

    # ------------------------------------------------------------------ what happened

    @property
    def journal_length(self) -> int:
        """Number of the last journal entry."""
        return self._seq

    def journal(self, after: int = 0) -> list[JournalEntry]:
        """All calls after number ``after``, in order; do not change what is in them."""
        rows = self._live().execute(
            "SELECT seq, at, kind, person, tool, arguments, result, error, event FROM _journal "
            "WHERE seq > ? ORDER BY seq",
            (after,),
        )
        return [
            JournalEntry(
                seq,
                at,
                Actor(cast("ActorKind", kind), person),
                tool,
                _parsed(arguments),
                None if result is None else _parsed(result),
                error,
                event,
            )
            for seq, at, kind, person, tool, arguments, result, error, event in rows
        ]

    def row_changes(self, after: int = 0) -> list[RowChange]:
        """Every row change of calls after number ``after``, in order; do not change what is in them."""
        types = self.image.workplace.types
        rows = self._live().execute(
            "SELECT call, type, key, before, after FROM _changes WHERE call > ? ORDER BY seq", (after,)
        )
        return [
            RowChange(
                call,
                name,
                key,
                None if before is None else _change(types[name], before),
                None if after_ is None else _change(types[name], after_),
            )
            for call, name, key, before, after_ in rows
        ]

    def changes(self) -> list[RowChange]:
        """The net change set since the image: one change per row that is not as it was."""
        return net_changes(self.row_changes())

    def dump(self, name: str) -> list[JsonObject]:
        """All records of a type as JSON values (instants in ISO UTC), in the order in which they were added.

        Equal rows may be one and the same object: do not change what you get.

        Raises:
            KeyError: No such record type.
        """
        derived = self.image.workplace.types[name]
        rows = self._live().execute(f'SELECT * FROM "{derived.table.name}" ORDER BY rowid')  # noqa: S608 - our own names
        return [_shown(derived, row) for row in rows]

    def state_hash(self) -> str:
        """A hash of all records (not of clock or journal); costs the rows changed since it was last asked for.

        Equal for equal records, whatever the order of the calls that led to them.
        """
        rows = self._live().execute(
            "SELECT seq, type, before, after FROM _changes WHERE seq > ? ORDER BY seq", (self._hashed,)
        )
        for seq, name, before, after in rows:
            if before is not None:
                self._hash -= hash_row(name, before)
            if after is not None:
                self._hash += hash_row(name, after)
            self._hashed = seq
        self._hash %= 1 << HASH_BITS
        return f"{self._hash:064x}"

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Free the memory; every later use raises ``WorldClosed``."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise WorldClosed("this workplace is closed: the episode has ended")
        return self._connection


@lru_cache(maxsize=4096)
def _shown(derived: RecordType, row: tuple[Any, ...]) -> JsonObject:
    """A row as JSON values; gradings of one environment ask for the same rows again and again."""
    return derived.decode(row).model_dump(mode="json")


@lru_cache(maxsize=1024)
def _change(derived: RecordType, values: str) -> JsonObject:
    return derived.from_change(values)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> JsonObject:
    return from_json(text)
