"""Which records a list or a search gives, and in which order.

Filters work on raw rows of a table: only what an answer shows is ever decoded. ``Table`` reads single fields
of a row, ``compile_filter`` makes a test of a ``FilterSpec`` and the arguments of a call, ``ordered`` sorts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import sqlalchemy as sa
from pydantic_core import from_json

from servers.declared.ranking import flat
from servers.declared.spec import ConditionSpec, EntitySpec, FilterSpec, OrderSpec
from servers.declared.times import last_day, not_after, not_before, read_bound, read_day, read_moment
from servers.records import Record, record_type
from servers.sql import Query
from servers.tools import Call, JsonObject

Row: TypeAlias = tuple[Any, ...]
Test: TypeAlias = Callable[[Row], bool]
Read: TypeAlias = Callable[[Row], Any]
DAY = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """An entity's records as raw rows, in the order in which they were added."""

    spec: EntitySpec
    model: type[Record]
    everything: Query[Record]
    readers: Mapping[str, Read]
    """Reads a declared field of a row, as JSON holds it; instants as seconds."""

    def rows(self, call: Call) -> list[Row]:
        """All rows."""
        return call.world.rows(self.everything)

    def decode(self, row: Row) -> Record:
        """The record of a row."""
        return record_type(self.model).decode(row)

    def is_moment(self, field: str) -> bool:
        """Whether a field is declared as a moment."""
        spec = self.spec.fields.get(field)
        return spec is not None and (spec.type == "instant" or spec.format is not None)


def make_table(spec: EntitySpec, model: type[Record]) -> Table:
    """The table of an entity and its record class."""
    derived = record_type(model)
    everything: Query[Record] = Query(model, lambda table: sa.select(table).order_by(sa.literal_column("rowid")))
    readers = {column.name: _reader(derived.position[column.name], column.kind) for column in derived.columns}
    return Table(spec, model, everything, readers)


def _reader(position: int, kind: str) -> Read:
    def plain(row: Row) -> Any:  # noqa: ANN401 - a value of any column type
        return row[position]

    def boolean(row: Row) -> bool | None:
        value = row[position]
        return None if value is None else bool(value)

    def json(row: Row) -> Any:  # noqa: ANN401
        value = row[position]
        return None if value is None else from_json(value)

    return {"boolean": boolean, "json": json}.get(kind, plain)


def compile_filter(call: Call, table: Table, spec: FilterSpec, arguments: JsonObject) -> Test | None:
    """The test that a filter amounts to in this call; None when it does not narrow.

    Raises:
        ToolError: The argument cannot be read.
    """
    value = arguments.get(spec.argument)
    if value is None:
        return None
    if isinstance(value, str | bool):
        word = folded(value)
        if word in spec.all:
            return None
        if word in spec.cases:
            return partial(_all_hold, [(condition, table.readers) for condition in spec.cases[word]])
    readers = [table.readers[name] for name in spec.fields]
    return _MAKERS[spec.op](call, spec, value, readers, arguments)


Maker: TypeAlias = Callable[[Call, FilterSpec, Any, list[Read], JsonObject], Test]


def _equals(_call: Call, _spec: FilterSpec, value: object, readers: list[Read], _arguments: JsonObject) -> Test:
    wanted = {folded(item) for item in cast("list[object]", value)} if isinstance(value, list) else {folded(value)}
    return lambda row: any(_has(read(row), wanted) for read in readers)


def _has(value: object, wanted: set[str]) -> bool:
    return any(item is not None and folded(item) in wanted for item in as_list(value))


def _contains(_call: Call, _spec: FilterSpec, value: object, readers: list[Read], _arguments: JsonObject) -> Test:
    words = flat(value).casefold().split()

    def test(row: Row) -> bool:
        for read in readers:
            held = read(row)
            for item in as_list(held):
                text = flat(item).casefold()
                if all(word in text for word in words):
                    return True
        return False

    return test


def _at_least(call: Call, spec: FilterSpec, value: object, readers: list[Read], _arguments: JsonObject) -> Test:
    if _is_number(value):
        return lambda row: any(_is_number(held := read(row)) and held >= value for read in readers)
    bound, timezone = read_bound(call, value, spec.argument), call.person.timezone
    return lambda row: any(
        (moment := read_moment(read(row), timezone)) is not None and not_before(moment, bound) for read in readers
    )


def _at_most(call: Call, spec: FilterSpec, value: object, readers: list[Read], _arguments: JsonObject) -> Test:
    if _is_number(value):
        return lambda row: any(_is_number(held := read(row)) and held <= value for read in readers)
    bound, timezone = read_bound(call, value, spec.argument), call.person.timezone
    return lambda row: any(
        (moment := read_moment(read(row), timezone)) is not None and not_after(moment, bound) for read in readers
    )


def _on_day(call: Call, spec: FilterSpec, value: object, readers: list[Read], arguments: JsonObject) -> Test:
    first = read_day(call, value, spec.argument)
    days = arguments.get(spec.days) if spec.days is not None else None
    last = first if days is None else last_day(call, first, int(days), spec.days or "")
    timezone = call.person.timezone
    begins, ends = readers[0], readers[-1]

    def test(row: Row) -> bool:
        begin = read_moment(begins(row), timezone)
        if begin is None:
            return False
        end = begin if ends is begins else read_moment(ends(row), timezone) or begin
        return begin.day <= last and end.day >= first

    return test


def _days_back(call: Call, spec: FilterSpec, value: object, readers: list[Read], _arguments: JsonObject) -> Test:
    if not _is_number(value) or cast("float", value) < 0:
        raise call.refuse(f"{spec.argument} must be a number of days, 0 or more (got {value!r:.40}).")
    timezone = call.person.timezone
    oldest = call.now - int(min(cast("float", value), 36_500) * DAY)
    oldest_day = read_moment(oldest, timezone)

    def test(row: Row) -> bool:
        for read in readers:
            held = read(row)
            moment = read_moment(held, timezone)
            if moment is None:
                continue
            if isinstance(held, str) and len(held) == 10 and oldest_day is not None:
                return moment.day >= oldest_day.day
            return moment.seconds >= oldest
        return False

    return test


_MAKERS: Mapping[str, Maker] = {
    "equals": _equals,
    "any_of": _equals,
    "contains": _contains,
    "at_least": _at_least,
    "at_most": _at_most,
    "on_day": _on_day,
    "days_back": _days_back,
}


def _all_hold(conditions: Sequence[tuple[ConditionSpec, Mapping[str, Read]]], row: Row) -> bool:
    return all(_holds(condition, readers, row) for condition, readers in conditions)


def _holds(condition: ConditionSpec, readers: Mapping[str, Read], row: Row) -> bool:
    held = readers[condition.field](row)
    other = condition.value if condition.than is None else readers[condition.than](row)
    if condition.op in {"equals", "differs"}:
        return (held is not None and folded(held) == folded(other)) == (condition.op == "equals")
    comparable = (_is_number(held) and _is_number(other)) or (isinstance(held, str) and isinstance(other, str))
    return comparable and _COMPARE[condition.op](held, other)


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "above": operator.gt,
    "below": operator.lt,
    "at_least": operator.ge,
    "at_most": operator.le,
}


def as_list(value: object) -> list[object]:
    """The items of a list, or the value itself as the only one."""
    return cast("list[object]", value) if isinstance(value, list) else [value]


def folded(value: object) -> str:
    """A value as filters compare it: text without case and outer spaces, the rest as JSON writes it."""
    if isinstance(value, str):
        return value.strip().casefold()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).casefold()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def ordered(call: Call, table: Table, rows: Iterable[Row], order: Sequence[OrderSpec]) -> list[Row]:
    """Rows sorted by the given fields; equals stay in their order, rows without a value come last."""
    result = list(rows)
    for item in reversed(order):
        read, moment = table.readers[item.field], table.is_moment(item.field)
        keyed = [(_sort_key(read(row), call.person.timezone if moment else None), row) for row in result]
        known = [entry for entry in keyed if entry[0] is not None]
        known.sort(key=lambda entry: cast("tuple[int, Any]", entry[0]), reverse=item.descending)
        result = [row for _, row in known] + [row for key, row in keyed if key is None]
    return result


def _sort_key(value: object, timezone: str | None) -> tuple[int, Any] | None:
    if value is None:
        return None
    if timezone is not None:
        moment = read_moment(value, timezone)
        return None if moment is None else (0, moment.seconds)
    if isinstance(value, int | float):
        return (1, value)
    return (2, flat(value).casefold())
