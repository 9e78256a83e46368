"""Workplaces and images: what a world is made of, and a world frozen to bytes.

* ``Workplace``: a set of services, compiled once per process: record types, tools and an empty database.
* ``Image``: all records of one environment in a serialized database, with the facts that never change during an
  episode. Opening an episode copies it (``servers.world.World.open``); nothing is ever rebuilt.

An image is self-contained and byte-identical for the same input in any process.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from servers.errors import Problem, SpecError, suggest
from servers.events import NO_EVENTS, Events, EventSpec, compile_events
from servers.people import Person
from servers.records import Record, RecordType, dangling, iso_utc, record_type
from servers.tools import Service, Tool

if TYPE_CHECKING:
    from servers.world import World

CORE_TABLES = (
    """CREATE TABLE _journal (seq INTEGER PRIMARY KEY, at INTEGER, kind TEXT, person TEXT, tool TEXT, arguments TEXT,
    result TEXT, error TEXT, event TEXT)""",
    "CREATE TABLE _changes (seq INTEGER PRIMARY KEY, call INTEGER, type TEXT, key TEXT, before TEXT, after TEXT)",
    "CREATE TABLE _state (id INTEGER PRIMARY KEY, now INTEGER, turn INTEGER)",
    "CREATE TABLE _ids (kind TEXT PRIMARY KEY, n INTEGER)",
    "CREATE TABLE _pending (seq INTEGER PRIMARY KEY, due INTEGER, event TEXT, bindings TEXT)",
    "CREATE TABLE _armed (event TEXT PRIMARY KEY, remaining INTEGER)",
    "CREATE TABLE _notices (seq INTEGER PRIMARY KEY, at INTEGER, text TEXT, taken INTEGER)",
    "CREATE TABLE _meta (name TEXT PRIMARY KEY, value TEXT)",
)
HASH_BITS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Workplace:
    """A set of services, compiled."""

    services: tuple[Service, ...]
    types: Mapping[str, RecordType]
    """By full name. People are always there."""
    tools: Mapping[str, Tool]
    empty: bytes
    """A database with all tables and no rows."""

    def service_of(self, tool: str) -> str:
        """The name of the service that a tool belongs to."""
        return next(service.name for service in self.services if any(item.name == tool for item in service.tools))


@lru_cache(maxsize=256)
def workplace(services: tuple[Service, ...]) -> Workplace:
    """Compile a set of services; the same set gives the same object.

    Raises:
        SpecError: Two services use the same name for a service, record type or tool.
    """
    models: list[type[Record]] = [Person]
    for service in services:
        models += [model for model in service.records if model is not Person]
    tools = [item for service in services for item in service.tools]
    problems = [
        Problem("duplicate_name", f"services.{name}", "the name is used twice")
        for names in (
            [service.name for service in services],
            [model.type_name for model in models],
            [item.name for item in tools],
        )
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    if problems:
        raise SpecError(problems)
    types = {model.type_name: record_type(model) for model in models}
    connection = sqlite3.connect(":memory:", isolation_level=None)
    # Small pages: a table of a few rows costs one, and an image is copied for every episode.
    connection.execute("PRAGMA page_size = 1024")
    for statement in CORE_TABLES:
        connection.execute(statement)
    for derived in types.values():
        for statement in derived.ddl:
            connection.execute(statement)
    empty = connection.serialize()
    connection.close()
    return Workplace(
        services,
        types,
        {item.name: item for item in tools},
        empty,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A world frozen to bytes."""

    workplace: Workplace
    data: bytes
    """A serialized SQLite database."""
    people: Mapping[str, Person]
    principal: str
    """Mail address of the person for whom the agent works."""
    start: int
    seed: str
    events: Events
    records_hash: int
    """The set hash of all rows, see ``World.state_hash``."""
    next_due: int | None = None
    """When the first timed event falls due."""
    _template: list[sqlite3.Connection] = field(default_factory=list[sqlite3.Connection])

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def copy_into(self, connection: sqlite3.Connection) -> None:
        """Make ``connection`` a database equal to this image; tens of microseconds."""
        if not self._template:
            # Page by page copy from an open connection is five times faster than deserializing the bytes again.
            template = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            template.deserialize(self.data)
            self._template.append(template)
        self._template[0].backup(connection)


def build_image(
    services: Sequence[Service],
    *,
    people: Sequence[Mapping[str, Any] | Person],
    records: Mapping[str, Sequence[Mapping[str, Any]]],
    principal: str,
    start: int,
    seed: str,
    events: Sequence[EventSpec] = (),
) -> Image:
    """Validate records and freeze them into an image.

    Args:
        services: The services of this workplace.
        people: The cast.
        records: Records by full type name, such as ``mail.message``.
        principal: Mail address of the person for whom the agent works.
        start: Simulated time at which an episode begins, seconds since 1970 UTC.
        seed: Root of all random streams of this world.
        events: What happens without the agent.

    Raises:
        SpecError: With every problem found: unknown types and keys, wrong values, dangling ids, impossible times.
    """
    compiled = workplace(tuple(services))
    grouped = _validated(compiled, people, records, start)
    cast = {key: record for key, record in grouped[Person.type_name].items() if isinstance(record, Person)}
    if principal not in cast:
        raise SpecError(
            [Problem("unknown_person", "principal", f"{principal!r} is not in the cast", suggest(principal, cast))]
        )
    armed = compile_events(events, start=start, tools=compiled.tools, people=cast) if events else NO_EVENTS
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.deserialize(compiled.empty)
    connection.execute("BEGIN")
    for name, group in grouped.items():
        derived = compiled.types[name]
        connection.executemany(derived.insert_sql, [derived.encode(record) for record in group.values()])
    connection.execute("INSERT INTO _state VALUES (1, ?, 0)", (start,))
    connection.execute("COMMIT")
    _prepare(connection, compiled, cast, principal, start, seed)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO _pending (due, event, bindings) VALUES (?, ?, '{}')", armed.timed)
    connection.executemany(
        "INSERT INTO _armed VALUES (?, ?)",
        [(spec.id, spec.when.times) for spec in armed.specs.values() if spec.when.after_call is not None],
    )
    meta = {"seed": seed, "start": iso_utc(start), "principal": principal, "services": [s.name for s in services]}
    connection.executemany("INSERT INTO _meta VALUES (?, ?)", [(k, to_json(v).decode()) for k, v in meta.items()])
    # What the build itself wrote is the beginning, not a change.
    connection.execute("DELETE FROM _changes")
    connection.execute("COMMIT")
    # The pages of the deleted log would be copied into every episode.
    connection.execute("VACUUM")
    records_hash = hash_rows(connection, compiled)
    data = connection.serialize()
    connection.close()
    next_due = armed.timed[0][0] if armed.timed else None
    return Image(compiled, data, cast, principal, start, seed, armed, records_hash, next_due)


def _validated(
    compiled: Workplace,
    people: Sequence[Mapping[str, Any] | Person],
    records: Mapping[str, Sequence[Mapping[str, Any]]],
    start: int,
) -> dict[str, dict[str, Record]]:
    problems: list[Problem] = []
    grouped: dict[str, dict[str, Record]] = {name: {} for name in compiled.types}
    everything: list[tuple[str, Sequence[Mapping[str, Any] | Record]]] = [(Person.type_name, people), *records.items()]
    for name, rows in everything:
        derived = compiled.types.get(name)
        where = "cast" if rows is people else f"records.{name}"
        if derived is None:
            problems.append(
                Problem("unknown_type", where, "no service here has such records", suggest(name, compiled.types))
            )
            continue
        for index, row in enumerate(rows):
            try:
                record = row if isinstance(row, Record) else derived.validate(row, f"{where}[{index}]")
            except SpecError as error:
                problems += error.problems
                continue
            key = getattr(record, derived.key)
            if key in grouped[name]:
                problems.append(Problem("duplicate_id", f"{where}[{index}].{derived.key}", f"{key!r} is there twice"))
            grouped[name][key] = record
    if not problems:
        problems += dangling(grouped)
    # Services may follow ids once all of them lead somewhere.
    if not problems:
        for service in compiled.services:
            if service.check is not None:
                problems += service.check(grouped, start)
    if problems:
        raise SpecError(problems)
    return grouped


def _prepare(
    connection: sqlite3.Connection,
    compiled: Workplace,
    cast: Mapping[str, Person],
    principal: str,
    start: int,
    seed: str,
) -> None:
    from servers.world import World  # noqa: PLC0415 - a world is made of an image; only building one needs a world

    world: World = World(Image(compiled, b"", cast, principal, start, seed, NO_EVENTS, 0), connection)
    connection.execute("BEGIN")
    for service in compiled.services:
        if service.prepare is not None:
            service.prepare(world)
    connection.execute("COMMIT")


def hash_rows(connection: sqlite3.Connection, compiled: Workplace) -> int:
    """The set hash of all rows of all record types, from scratch."""
    total = 0
    for name in sorted(compiled.types):
        derived = compiled.types[name]
        for row in connection.execute(f'SELECT * FROM "{derived.table.name}"'):  # noqa: S608 - our own names
            total += hash_row(name, row_text(row))
    return total % (1 << HASH_BITS)


def row_text(row: Sequence[Any]) -> str:
    """A row as the change log and the set hash see it."""
    return to_json(row).decode()


def hash_row(name: str, row: str) -> int:
    """The hash of one row; a state's hash is their sum, so it can follow changes row by row.

    Additive set hash as in Bellare and Micciancio, "A New Paradigm for Collision-Free Hashing" (1997).
    """
    return int.from_bytes(hashlib.blake2b(f"{name}\0{row}".encode(), digest_size=HASH_BITS // 8).digest())
