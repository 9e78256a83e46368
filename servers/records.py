"""One definition per record type.

A record type is a pydantic class below ``Record``. From that one class come the validated record, the SQLite table
with its indexes, the row codec and the JSON schema; no field is ever written twice. Declared
services make such classes at run time (``servers.declared``) and get all of it for nothing.

A record says how its fields are stored and linked with three markers:

* ``Instant``: a moment; an ISO time with offset in files, whole seconds since 1970 UTC inside.
* ``Ref("mail.thread")``: the value is the key of a record of that type. Dangling ids are found when an image is
  built. Lists and optional fields of ids work too.
* ``Index()``: the column gets an index.

Not promised: migrations. An image is made for one version of its record types.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import sqlalchemy as sa
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import from_json, to_json
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from servers.errors import Problem, SpecError, problems_from

# The four slots of a pydantic model, set directly where a row becomes a record: half the time of going through setattr.
_SET_VALUES = BaseModel.__dict__["__dict__"].__set__
_SET_NAMES = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_SET_EXTRA = BaseModel.__dict__["__pydantic_extra__"].__set__
_SET_PRIVATE = BaseModel.__dict__["__pydantic_private__"].__set__

EXTRA = "_extra"
"""Column that keeps the keys an open record type does not know."""


def parse_instant(value: object) -> int:
    """Read an ISO time with offset (or whole seconds since 1970 UTC) as seconds.

    Raises:
        ValueError: The text is no time, or has no offset so that the moment is unknown.
    """
    if isinstance(value, bool):
        raise ValueError("expected an ISO time with offset")  # noqa: TRY004 - pydantic wants ValueError
    if isinstance(value, int):
        return value
    if isinstance(value, datetime):
        moment = value
    else:
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            raise ValueError("expected an ISO time with offset, such as 2026-03-02T09:00:00+01:00") from None
    if moment.tzinfo is None:
        raise ValueError("the time has no offset; write it like 2026-03-02T09:00:00+01:00")
    return int(moment.timestamp())


def iso_utc(instant: int) -> str:
    """Write an instant as ISO time in UTC."""
    return datetime.fromtimestamp(instant, UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class InstantMarker:
    """Marks a field as a moment in time."""


Instant = Annotated[
    int,
    BeforeValidator(parse_instant),
    PlainSerializer(iso_utc, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
    InstantMarker(),
]


@dataclass(frozen=True, slots=True)
class Ref:
    """The value is the key of a record of type ``to``."""

    to: str


@dataclass(frozen=True, slots=True)
class Index:
    """The column gets an index."""


class Record(BaseModel):
    """Base of all record types. Frozen: a changed record is a new one (``World.update``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type_name: ClassVar[str]
    """Full name, ``service.type``, as environments and checks write it."""
    key: ClassVar[str] = "id"
    """The field that identifies a record of this type."""


@dataclass(frozen=True, slots=True)
class Column:
    """How one field is stored."""

    name: str
    kind: str
    """``text``, ``integer``, ``real``, ``boolean``, ``instant`` or ``json``."""
    ref: str | None
    indexed: bool
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class RecordType:
    """What is derived from a record class: table, codec and data definition statements."""

    name: str
    key: str
    model: type[Record]
    columns: tuple[Column, ...]
    table: sa.Table
    position: Mapping[str, int]
    """Place of each field in a row."""
    open: bool
    """Unknown keys are kept, not refused."""
    ddl: tuple[str, ...]
    """Statements that create table and indexes in an empty database."""
    insert_sql: str
    get_sql: str
    update_sql: str
    delete_sql: str
    _decoders: tuple[tuple[int, Callable[[Any], Any]], ...]
    _names: tuple[str, ...]
    _fields: set[str]

    def encode(self, record: Record) -> tuple[Any, ...]:
        """Turn a record into the values of its row."""
        values = record.__dict__
        row = [_to_storage(column.kind, values[column.name]) for column in self.columns]
        if self.open:
            row.append(to_json(record.__pydantic_extra__ or {}).decode())
        return tuple(row)

    def decode(self, row: Sequence[Any]) -> Record:
        """Turn a row back into a record."""
        values = dict(zip(self._names, row))  # noqa: B905 - an open type has one column more
        for index, decoder in self._decoders:
            if row[index] is not None:
                values[self._names[index]] = decoder(row[index])
        extra: dict[str, Any] | None = None
        if self.open:
            extra = from_json(row[len(self._names)])
        # What is in the table was validated when it was written; validating again would triple the cost of a read.
        record = self.model.__new__(self.model)
        _SET_VALUES(record, values)
        _SET_NAMES(record, self._fields)
        _SET_EXTRA(record, extra)
        _SET_PRIVATE(record, None)
        return record

    def from_change(self, values: str) -> dict[str, Any]:
        """Read the row as the change log keeps it: field name to plain JSON value.

        Instants stay whole seconds and lists become lists again; keys of open types are merged in.
        """
        row: list[Any] = from_json(values)
        record = self.decode(row)
        plain = dict(record.__dict__)
        if record.__pydantic_extra__:
            plain.update(record.__pydantic_extra__)
        return plain

    def shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of a change as files and checks have them: instants as ISO time in UTC."""
        times = [column.name for column in self.columns if column.kind == "instant"]
        return {**values, **{name: iso_utc(values[name]) for name in times if values.get(name) is not None}}

    def column(self, field: str) -> Column | None:
        """The column of a field, or None for a key that this type does not declare."""
        index = self.position.get(field)
        return None if index is None else self.columns[index]

    def validate(self, data: Mapping[str, Any], where: str) -> Record:
        """Validate data from outside.

        Raises:
            SpecError: With every problem and its path below ``where``.
        """
        try:
            return self.model.model_validate(dict(data))
        except ValidationError as error:
            raise SpecError(problems_from(error, where)) from None


@lru_cache(maxsize=1024)
def record_type(model: type[Record]) -> RecordType:
    """Derive everything that follows from a record class; once per class and process."""
    columns = tuple(_column(name, info.annotation, info.metadata) for name, info in model.model_fields.items())
    if model.key not in model.model_fields:
        raise TypeError(f"{model.__name__} has no field {model.key!r}, which should identify it")
    is_open = model.model_config.get("extra") == "allow"
    table = _table(model, columns, is_open)
    names = [column.name for column in columns] + ([EXTRA] if is_open else [])
    decoders = {"json": from_json, "boolean": bool}
    assignments = ", ".join(f'"{name}" = ?' for name in names)
    quoted = ", ".join(f'"{name}"' for name in names)
    return RecordType(
        name=model.type_name,
        key=model.key,
        model=model,
        columns=columns,
        table=table,
        position={column.name: index for index, column in enumerate(columns)},
        open=is_open,
        ddl=tuple(_ddl(table)),
        insert_sql=f'INSERT INTO "{table.name}" ({quoted}) VALUES ({", ".join("?" * len(names))})',  # noqa: S608
        get_sql=f'SELECT {quoted} FROM "{table.name}" WHERE "{model.key}" = ?',  # noqa: S608
        update_sql=f'UPDATE "{table.name}" SET {assignments} WHERE "{model.key}" = ?',  # noqa: S608
        delete_sql=f'DELETE FROM "{table.name}" WHERE "{model.key}" = ?',  # noqa: S608
        _decoders=tuple(
            (index, decoders[column.kind]) for index, column in enumerate(columns) if column.kind in decoders
        ),
        _names=tuple(column.name for column in columns),
        _fields=set(model.model_fields),
    )


def dangling(records: Mapping[str, Mapping[str, Record]]) -> list[Problem]:
    """Find references to records that do not exist, in records grouped by type name and key."""
    problems: list[Problem] = []
    for name, group in records.items():
        references: list[Column] | None = None
        for position, record in enumerate(group.values()):
            if references is None:
                references = [column for column in record_type(type(record)).columns if column.ref]
            for column in references:
                known = records.get(column.ref or "", {})
                values = _ids(getattr(record, column.name))
                problems += [_dangling(name, position, column, value, known) for value in values if value not in known]
    return problems


def _dangling(name: str, position: int, column: Column, value: str, known: Mapping[str, Record]) -> Problem:
    from servers.errors import suggest  # noqa: PLC0415 - only on the failing path

    where = f"records.{name}[{position}].{column.name}"
    return Problem("dangling_id", where, f"there is no {column.ref} {value!r}", suggest(value, known))


def _ids(value: object) -> Iterable[str]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return [str(item) for item in typing.cast("list[object]", value)]
    return (str(value),)


def _column(name: str, annotation: Any, metadata: Sequence[Any]) -> Column:  # noqa: ANN401 - a type expression
    optional = False
    markers = list(metadata)
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            markers += annotation.__metadata__
            annotation = annotation.__origin__
            continue
        if origin in (typing.Union, types.UnionType):
            parts = [part for part in typing.get_args(annotation) if part is not types.NoneType]
            if len(parts) == 1:
                optional = True
                annotation = parts[0]
                continue
        break
    kind = {str: "text", int: "integer", float: "real", bool: "boolean"}.get(annotation, "json")
    if typing.get_origin(annotation) is typing.Literal:
        kind = "text"
    if any(isinstance(marker, InstantMarker) for marker in markers):
        kind = "instant"
    if kind == "json":
        for inner in typing.get_args(annotation):
            markers += getattr(inner, "__metadata__", ())
    ref = next((marker.to for marker in markers if isinstance(marker, Ref)), None)
    return Column(name, kind, ref, any(isinstance(marker, Index) for marker in markers), optional)


def _to_storage(kind: str, value: Any) -> Any:  # noqa: ANN401 - a value of any column type
    if value is None:
        return None
    if kind == "json":
        return to_json(value).decode()
    if kind == "boolean":
        return int(value)
    return value


_SQL_TYPES: Mapping[str, type[sa.types.TypeEngine[Any]]] = types.MappingProxyType(
    {
        "text": sa.Text,
        "integer": sa.Integer,
        "instant": sa.Integer,
        "boolean": sa.Integer,
        "real": sa.Float,
        "json": sa.Text,
    }
)


def _table(model: type[Record], columns: Sequence[Column], is_open: bool) -> sa.Table:
    name = model.type_name.replace(".", "$")  # no name of a service or record type holds a dollar sign
    parts: list[sa.schema.SchemaItem] = [
        sa.Column(column.name, _SQL_TYPES[column.kind], primary_key=column.name == model.key) for column in columns
    ]
    if is_open:
        parts.append(sa.Column(EXTRA, sa.Text))
    parts += [sa.Index(f"ix_{name}_{column.name}", column.name) for column in columns if column.indexed]
    return sa.Table(name, sa.MetaData(), *parts)


def _ddl(table: sa.Table) -> Iterable[str]:
    dialect = sqlite.dialect()
    yield str(CreateTable(table).compile(dialect=dialect))
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        yield str(CreateIndex(index).compile(dialect=dialect))
