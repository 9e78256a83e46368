"""What declared tools do: each operation of a spec becomes the ``run`` function of an ordinary tool.

All functions here are given a ``Kit`` (the tables of the service) when the service is made, and a call and
its parsed arguments when a tool runs. They refuse with ``ToolError`` whatever the caller got wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import sqlalchemy as sa
from pydantic import ValidationError

from servers.declared.ranking import best, flat
from servers.declared.records import ref_target
from servers.declared.selection import Row, Table, as_list, compile_filter, ordered
from servers.declared.showing import Show, compile_show
from servers.declared.spec import (
    CreateOperation,
    DeleteOperation,
    FilterSpec,
    FindOperation,
    GetOperation,
    LimitSpec,
    TargetSpec,
    ToolSpec,
    TransitionOperation,
    UnavailableOperation,
    UpdateOperation,
    ValueSpec,
    WriteOperation,
)
from servers.declared.times import check_text, read_instant, read_moment
from servers.errors import suggest
from servers.records import Record, record_type
from servers.sql import Statement
from servers.sql import table as sql_table
from servers.tools import Call, JsonObject, argument_errors

Run = Callable[[Call, JsonObject], JsonObject]
SEVERAL = 8
"""Most options that a refusal lists."""


@dataclass(frozen=True, slots=True, eq=False)
class Kit:
    """The tables of one service."""

    service: str
    tables: Mapping[str, Table]
    """By entity name."""


def compile_operation(kit: Kit, tool: ToolSpec) -> Run:
    """The ``run`` function of a tool."""
    does = tool.does
    if isinstance(does, UnavailableOperation):
        return partial(_unavailable, does.reason)
    table = kit.tables[does.entity]
    if isinstance(does, DeleteOperation):
        return partial(_delete, table, does.target)
    show = compile_show(kit.tables, does.entity, does)
    if isinstance(does, FindOperation):
        return partial(_find, table, does, show)
    if isinstance(does, GetOperation):
        return partial(_get, table, does, show)
    return _compile_writing(Writer(kit, tool, table, _sources(tool, table, does), show, does.result), does)


# ---------------------------------------------------------------------- reading


def _find(table: Table, does: FindOperation, show: Show, call: Call, arguments: JsonObject) -> JsonObject:
    everything = table.rows(call)
    rows = everything
    active: list[FilterSpec] = []
    for spec in does.filters:
        test = compile_filter(call, table, spec, arguments)
        if test is not None:
            rows = [row for row in rows if test(row)]
            active.append(spec)
    rows = ordered(call, table, rows, does.order)
    if does.query is not None and arguments.get(does.query.argument) is not None:
        readers = {name: table.readers[name] for name in does.query.fields}
        query = flat(arguments[does.query.argument])
        rows = best(
            query,
            rows,
            lambda row: {name: flat(read(row)) for name, read in readers.items()},
            does.query.fields,
        )
    shown = rows if does.limit is None else rows[: _limit(call, does.limit, arguments)]
    answer: JsonObject = {
        does.result: [show(call, table.decode(row)) for row in shown],
        "total": len(rows),
    }
    if not rows and everything and active:
        answer["note"] = _why_empty(table, everything, active, arguments)
    return answer


def _limit(call: Call, spec: LimitSpec, arguments: JsonObject) -> int:
    value = arguments.get(spec.argument) if spec.argument is not None else None
    if value is None:
        return spec.default
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 1:
        raise call.refuse(f"{spec.argument} must be 1 or more (got {value!r:.40}).")
    return int(min(value, spec.most))


def _why_empty(table: Table, rows: Sequence[Row], active: Sequence[FilterSpec], arguments: JsonObject) -> str:
    """Say which values would have found something; an agent that guessed a status learns the real ones."""
    parts: list[str] = []
    for spec in active:
        value = flat(arguments[spec.argument]).replace("\n", ", ")[:60]
        if spec.op in {"equals", "any_of"}:
            held = [table.readers[name](row) for name in spec.fields for row in rows]
            items = [item for value in held for item in as_list(value) if isinstance(item, str | bool | int)]
            known = sorted({str(item) for item in items} - {""}) + sorted(spec.cases)
            parts.append(f"{spec.argument} {value!r} (there are: {', '.join(known[:SEVERAL]) or 'none'})")
        else:
            parts.append(f"{spec.argument} {value!r}")
    return f"Nothing fits {' and '.join(parts)}; there are {len(rows)} records without these filters."


def _get(table: Table, does: GetOperation, show: Show, call: Call, arguments: JsonObject) -> JsonObject:
    record = _target(table, does.target, call, arguments)
    shown = show(call, record)
    if does.items is not None:
        name = does.items.field
        values = record.__dict__
        held = values.get(name)
        items = cast("list[Any]", held) if isinstance(held, list) else []
        shown = {
            table.spec.key: values[table.spec.key],
            name: items[: _limit(call, does.items.limit, arguments)],
            "total": len(items),
        }
    return shown if does.result is None else {does.result: shown}


def _unavailable(reason: str, call: Call, _arguments: JsonObject) -> JsonObject:
    raise call.refuse(reason)


# ---------------------------------------------------------------------- the record that a tool is about


def _target(table: Table, spec: TargetSpec, call: Call, arguments: JsonObject) -> Record:
    wanted = arguments.get(spec.argument)
    if wanted is None:
        raise call.refuse(f"{spec.argument} is required.")
    wanted = str(wanted)
    by = spec.by or [table.spec.key]
    if table.spec.key in by:
        record = call.world.get(table.model, wanted)
        if record is not None:
            return record
    normal = _NORMAL[spec.match]
    key = table.readers[table.spec.key]
    rows = table.rows(call)
    for name in by:
        read = table.readers[name]
        found = [row for row in rows if normal(flat(read(row))) == normal(wanted)]
        if len(found) == 1:
            return table.decode(found[0])
        if found:
            options = ", ".join(str(key(row)) for row in found[:SEVERAL])
            raise call.refuse(f"{spec.argument} {wanted!r:.80} fits several: {options}. Use the {table.spec.key}.")
    raise _nothing(call, table, spec.argument, wanted, [flat(table.readers[by[0]](row)) for row in rows])


def _nothing(call: Call, table: Table, argument: str, wanted: str, known: list[str]) -> Exception:
    noun = table.spec.name.replace("_", " ")
    return call.refuse(f"there is no {noun} with {argument} {wanted!r:.80}. {suggest(wanted[:80], known, SEVERAL)}")


def _exact(text: str) -> str:
    return text


def _fold(text: str) -> str:
    return text.strip().casefold()


def _url(text: str) -> str:
    address = text.strip().partition("#")[0].rstrip("/")
    for start in ("https://", "http://", "www."):
        address = address[len(start) :] if address.casefold().startswith(start) else address
    host, slash, path = address.partition("/")
    return host.casefold() + slash + path


_NORMAL: Mapping[str, Callable[[str], str]] = {"exact": _exact, "fold": _fold, "url": _url}


# ---------------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True, eq=False)
class Writer:
    """What the writing operations share: the table, where values come from, and what the answer shows."""

    kit: Kit
    tool: ToolSpec
    table: Table
    sources: tuple[tuple[str, ValueSpec], ...]
    show: Show
    result: str | None

    def values(self, call: Call, arguments: JsonObject) -> JsonObject:
        """The values that this call gives to fields."""
        values: JsonObject = {}
        for name, source in self.sources:
            if source.argument is not None:
                if arguments.get(source.argument) is None:
                    continue
                values[name] = self._read(call, name, source.argument, arguments[source.argument])
            elif source.now is not None:
                values[name] = self._now(call, name, source.now)
            elif source.caller is not None:
                values[name] = call.person.email if source.caller == "email" else call.person.name
            else:
                values[name] = source.value
        return values

    def _now(self, call: Call, name: str, form: str) -> str | int:
        spec = self.table.spec.fields.get(name)
        if spec is not None and spec.type == "instant":
            return call.now
        text = call.local(call.now)
        return text[:10] if form == "date" else text.replace("+00:00", "Z")

    def _read(self, call: Call, name: str, argument: str, value: Any) -> Any:  # noqa: ANN401 - JSON in and out
        spec = self.table.spec.fields.get(name)
        if spec is None:
            return value
        if value == "" and not spec.required and (spec.ref is not None or spec.format is not None):
            return None
        if spec.type == "instant":
            return read_instant(call, str(value), argument)
        if spec.format is not None:
            check_text(call, value, spec.format, argument)
        if spec.ref is not None:
            self._check_refs(call, spec.ref, argument, value)
        return value

    def _check_refs(self, call: Call, ref: str, argument: str, value: object) -> None:
        target = ref_target(self.kit.service, ref)
        derived = call.world.image.workplace.types.get(target)
        for item in as_list(value):
            if derived is None:
                raise call.refuse(f"{argument}: there are no records of type {target} in this workplace.")
            if call.world.get(derived.model, str(item)) is None:
                key = derived.key
                keys = Statement(lambda model=derived.model, key=key: sa.select(sql_table(model).c[key]))
                known = [str(value) for (value,) in call.world.rows(keys)]
                noun = target.split(".")[1].replace("_", " ")
                hint = suggest(str(item)[:80], known, SEVERAL)
                raise call.refuse(f"{argument}: there is no {noun} {str(item)!r:.80}. {hint}")

    def answer(self, call: Call, record: Record) -> JsonObject:
        """The record as the tool shows it."""
        shown = self.show(call, record)
        return shown if self.result is None else {self.result: shown}

    def check_span(self, call: Call, values: Mapping[str, Any]) -> None:
        """Refuse an end that comes before its beginning."""
        if self.table.spec.span is None:
            return
        begin, end = (read_moment(values.get(name), call.person.timezone) for name in self.table.spec.span)
        if begin is not None and end is not None and end.seconds < begin.seconds:
            first, last = self.table.spec.span
            raise call.refuse(f"{last} lies before {first}; the end has to come after the beginning.")

    def check_status(self, call: Call, record: Record, values: Mapping[str, Any]) -> None:
        """Refuse a transition that the lifecycle does not allow."""
        cycle = self.table.spec.lifecycle
        if cycle is None or cycle.field not in values:
            return
        current, wanted = getattr(record, cycle.field), values[cycle.field]
        follow = cycle.transitions.get(current, [])
        if wanted != current and wanted not in follow:
            valid = f"From there it can become {' or '.join(follow)}." if follow else "That is final."
            raise call.refuse(f"{cycle.field} is {current} and cannot become {wanted!r:.60}. {valid}")

    def change(self, call: Call, record: Record, values: JsonObject) -> Record:
        """Check and write new values of a record."""
        self.check_status(call, record, values)
        self.check_span(call, {**record.__dict__, **values})
        try:
            return call.world.update(record, **values)
        except ValidationError as error:
            raise call.refuse(_mistakes(call, error, self.tool)) from None


def _compile_writing(writer: Writer, does: WriteOperation) -> Run:
    if isinstance(does, CreateOperation):
        return partial(_create, writer)
    if isinstance(does, UpdateOperation):
        return partial(_update, writer, does.target)
    return partial(_transition, writer, does)


def _sources(tool: ToolSpec, table: Table, does: WriteOperation) -> tuple[tuple[str, ValueSpec], ...]:
    """Where fields get their values; an argument fills the field of its name unless it is used otherwise."""
    taken = {source.argument for source in does.set.values()} | set(does.ignore)
    if not isinstance(does, CreateOperation):
        taken.add(does.target.argument)
    if isinstance(does, TransitionOperation):
        taken.add(does.to_argument)
    sources = dict(does.set)
    for name in tool.input_schema.get("properties", {}):
        if name in table.spec.fields and name not in taken:
            sources.setdefault(name, ValueSpec(argument=name))
    return tuple(sources.items())


def _create(writer: Writer, call: Call, arguments: JsonObject) -> JsonObject:
    spec = writer.table.spec
    values = writer.values(call, arguments)
    if values.get(spec.key) is None:
        values[spec.key] = new_key(call, writer.table)
    writer.check_span(call, values)
    try:
        record = record_type(writer.table.model).model.model_validate(values)
    except ValidationError as error:
        raise call.refuse(_mistakes(call, error, writer.tool)) from None
    cycle = spec.lifecycle
    if cycle is not None and getattr(record, cycle.field) != cycle.initial:
        raise call.refuse(f"a new {spec.name.replace('_', ' ')} begins with {cycle.field} {cycle.initial}.")
    call.world.insert(record)
    return writer.answer(call, record)


def new_key(call: Call, table: Table) -> str:
    """A fresh key of an entity: the prefix and the next number, or an opaque id."""
    kind = table.model.type_name
    if table.spec.id_prefix is None:
        return call.new_id(kind)
    return f"{table.spec.id_prefix}{call.world.next_number(kind):0{table.spec.id_width}d}"


def _update(writer: Writer, target: TargetSpec, call: Call, arguments: JsonObject) -> JsonObject:
    record = _target(writer.table, target, call, arguments)
    changeable = [source.argument for _, source in writer.sources if source.argument is not None]
    if changeable and all(arguments.get(name) is None for name in changeable):
        raise call.refuse(f"nothing to change. Give at least one of {', '.join(changeable)}.")
    return writer.answer(call, writer.change(call, record, writer.values(call, arguments)))


def _transition(writer: Writer, does: TransitionOperation, call: Call, arguments: JsonObject) -> JsonObject:
    record = _target(writer.table, does.target, call, arguments)
    wanted = does.to if does.to_argument is None else arguments.get(does.to_argument)
    if wanted is None:
        raise call.refuse(f"{does.to_argument} is required.")
    cycle = writer.table.spec.lifecycle
    field = does.field or (cycle.field if cycle is not None else "status")
    return writer.answer(call, writer.change(call, record, {**writer.values(call, arguments), field: wanted}))


def _delete(table: Table, target: TargetSpec, call: Call, arguments: JsonObject) -> JsonObject:
    record = _target(table, target, call, arguments)
    call.world.delete(record)
    return {table.spec.key: record.__dict__[table.spec.key], "deleted": True}


def _mistakes(call: Call, error: ValidationError, tool: ToolSpec) -> str:
    return argument_errors(call.tool, error, tool.input_schema).removeprefix(f"{call.tool}: ")
