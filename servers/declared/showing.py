"""What an answer shows of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from servers.declared.selection import Table, as_list, folded
from servers.declared.spec import RelatedSpec, Showing
from servers.records import Record, record_type
from servers.tools import Call, JsonObject

Show = Callable[[Call, Record], JsonObject]


def compile_show(tables: Mapping[str, Table], entity: str, spec: Showing) -> Show:
    """Make the function that shows records of an entity."""
    table = tables[entity]
    derived = record_type(table.model)
    wanted = [column for column in derived.columns if spec.show is None or column.name in spec.show]
    hidden = frozenset(spec.hide)
    plain = tuple(column.name for column in wanted if column.kind != "instant" and column.name not in hidden)
    moments = tuple(column.name for column in wanted if column.kind == "instant" and column.name not in hidden)
    sparse = frozenset(name for name, field in table.spec.fields.items() if field.sparse)
    extras = table.spec.open and spec.show is None
    related = [_related(tables, table, item) for item in spec.related]

    def show(call: Call, record: Record) -> JsonObject:
        values = record.__dict__
        shown = {name: values[name] for name in plain if values[name] is not None or name not in sparse}
        for name in moments:
            if values[name] is not None:
                shown[name] = call.local(values[name])
            elif name not in sparse:
                shown[name] = None
        if extras and record.__pydantic_extra__:
            shown.update((name, value) for name, value in record.__pydantic_extra__.items() if name not in hidden)
        for add in related:
            add(call, values, shown)
        return shown

    return show


def _related(
    tables: Mapping[str, Table], table: Table, spec: RelatedSpec
) -> Callable[[Call, Mapping[str, Any], JsonObject], None]:
    other = tables[spec.entity]
    read = other.readers[spec.field]
    own = spec.equals or table.spec.key
    show = compile_show({spec.entity: other}, spec.entity, Showing(show=spec.show))

    def add(call: Call, values: Mapping[str, Any], shown: JsonObject) -> None:
        wanted = folded(values[own])
        found: list[JsonObject] = []
        for row in other.rows(call):
            held = read(row)
            if any(item is not None and folded(item) == wanted for item in as_list(held)):
                found.append(show(call, other.decode(row)))
        if found:
            shown[spec.name] = found

    return add
