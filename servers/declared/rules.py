"""What the form of a spec cannot show: names that lead nowhere, arguments that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from servers.declared.arguments import schema_problems
from servers.declared.records import is_reserved, ref_target, type_name
from servers.declared.spec import (
    CreateOperation,
    EntitySpec,
    FindOperation,
    GetOperation,
    Operation,
    ServiceSpec,
    Showing,
    ToolSpec,
    TransitionOperation,
    UnavailableOperation,
    UpdateOperation,
)
from servers.errors import Problem, suggest


def find_problems(spec: ServiceSpec) -> list[Problem]:
    """Find everything that is wrong with a spec."""
    problems = [
        Problem("duplicate_name", f"{part}.{name}", "the name is used twice")
        for part, names in (
            ("entities", [e.name for e in spec.entities]),
            ("tools", [t.name for t in spec.tools]),
        )
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    entities = {entity.name: entity for entity in spec.entities}
    for entity in spec.entities:
        problems += _entity(spec, entity, entities)
    for tool in spec.tools:
        problems += _tool(tool, entities)
    return problems


# ---------------------------------------------------------------------- entities


def _entity(spec: ServiceSpec, entity: EntitySpec, entities: Mapping[str, EntitySpec]) -> Iterator[Problem]:
    where = f"entities.{entity.name}"
    seen: dict[str, str] = {}
    for name in (entity.key, *(name for name in entity.fields if name != entity.key)):
        if is_reserved(name):
            yield Problem(
                "reserved_name",
                f"{where}.fields.{name}",
                "a field cannot have this name",
                "Choose another one.",
            )
        if seen.setdefault(name.casefold(), name) != name:
            yield Problem(
                "duplicate_name",
                f"{where}.fields.{name}",
                "differs from another field only in upper and lower case",
            )
    key = entity.fields.get(entity.key)
    if key is not None and key.type != "string":
        yield Problem("wrong_type", f"{where}.fields.{entity.key}.type", "the key of a record is a string")
    for name, field in entity.fields.items():
        here = f"{where}.fields.{name}"
        if field.enum is not None and field.type != "string":
            yield Problem("wrong_type", f"{here}.enum", "only strings can have a fixed list of values")
        if field.format is not None and field.type not in {"string", "any"}:
            yield Problem("wrong_type", f"{here}.format", "only strings have a format")
        if field.ref is not None:
            if field.type not in {"string", "list"}:
                yield Problem("wrong_type", f"{here}.ref", "only strings and lists of strings refer to records")
            if ref_target(spec.name, field.ref).split(".")[0] == spec.name:
                local = field.ref.split(".")[-1]
                if local not in entities:
                    known = [type_name(spec.name, other) for other in entities]
                    yield Problem(
                        "unknown_entity",
                        f"{here}.ref",
                        f"there is no entity {local!r}",
                        suggest(local, known),
                    )
    yield from _cycle(entity, where)
    for name in entity.span or ():
        yield from _known(entity, [name], f"{where}.span")


def _cycle(entity: EntitySpec, where: str) -> Iterator[Problem]:
    cycle = entity.lifecycle
    if cycle is None:
        return
    field = entity.fields.get(cycle.field)
    if field is None:
        yield from _known(entity, [cycle.field], f"{where}.lifecycle.field")
    elif field.type != "string":
        yield Problem("wrong_type", f"{where}.lifecycle.field", "the status of a lifecycle is a string")
    elif field.enum is not None:
        yield Problem(
            "twice",
            f"{where}.fields.{cycle.field}.enum",
            "the lifecycle lists the statuses already",
            "Leave it out.",
        )


def _known(entity: EntitySpec, names: Iterable[str], where: str) -> Iterator[Problem]:
    fields = {entity.key, *entity.fields}
    for name in names:
        if name not in fields:
            yield Problem("unknown_field", where, f"{entity.name} has no field {name!r}", suggest(name, fields))


# ---------------------------------------------------------------------- tools


def _tool(tool: ToolSpec, entities: Mapping[str, EntitySpec]) -> Iterator[Problem]:
    where = f"tools.{tool.name}"
    wrong = schema_problems(tool.input_schema, f"{where}.input_schema")
    yield from wrong
    does = tool.does
    if wrong or isinstance(does, UnavailableOperation):
        return
    entity = entities.get(does.entity)
    if entity is None:
        yield Problem(
            "unknown_entity",
            f"{where}.does.entity",
            f"there is no entity {does.entity!r}",
            suggest(does.entity, entities),
        )
        return
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    used = list(_used(does, entity))
    for name in used:
        if name not in properties:
            yield Problem(
                "unknown_argument",
                f"{where}.does",
                f"the tool has no argument {name!r}",
                suggest(name, properties),
            )
    for name in properties:
        if name not in used and not (_fills(does) and name in entity.fields):
            yield Problem(
                "unused_argument",
                f"{where}.input_schema.properties.{name}",
                "nothing reads this argument",
                "Map it to a field or a filter, or list it under does.ignore.",
            )
    yield from _names(does, entity, entities, f"{where}.does")
    if isinstance(does, CreateOperation):
        yield from _fillable(tool, does, entity, where)


def _fills(does: Operation) -> bool:
    return isinstance(does, CreateOperation | UpdateOperation | TransitionOperation)


def _used(does: Operation, entity: EntitySpec) -> Iterator[str]:
    """The arguments that an operation names."""
    if isinstance(does, UnavailableOperation):
        return
    yield from does.ignore
    if isinstance(does, FindOperation):
        for item in does.filters:
            yield item.argument
            if item.days is not None:
                yield item.days
        if does.query is not None:
            yield does.query.argument
        if does.limit is not None and does.limit.argument is not None:
            yield does.limit.argument
        return
    if not isinstance(does, CreateOperation):
        yield does.target.argument
    if isinstance(does, GetOperation) and does.items is not None and does.items.limit.argument is not None:
        yield does.items.limit.argument
    if isinstance(does, CreateOperation | UpdateOperation | TransitionOperation):
        yield from (source.argument for source in does.set.values() if source.argument is not None)
    if isinstance(does, TransitionOperation) and does.to_argument is not None:
        yield does.to_argument


def _names(does: Operation, entity: EntitySpec, entities: Mapping[str, EntitySpec], where: str) -> Iterator[Problem]:
    """Every field that an operation names has to be there."""
    if isinstance(does, UnavailableOperation):
        return
    if isinstance(does, FindOperation):
        yield from _filters(does, entity, where)
        yield from _known(entity, (item.field for item in does.order), f"{where}.order")
        yield from _known(entity, () if does.query is None else does.query.fields, f"{where}.query.fields")
    elif not isinstance(does, CreateOperation):
        yield from _known(entity, does.target.by, f"{where}.target.by")
    if isinstance(does, GetOperation) and does.items is not None:
        yield from _known(entity, [does.items.field], f"{where}.items.field")
    if isinstance(does, CreateOperation | UpdateOperation | TransitionOperation):
        yield from _known(entity, does.set, f"{where}.set")
    if isinstance(does, TransitionOperation):
        yield from _status(does, entity, where)
    if isinstance(does, Showing):
        yield from _shown(does, entity, entities, where)


def _filters(does: FindOperation, entity: EntitySpec, where: str) -> Iterator[Problem]:
    for index, item in enumerate(does.filters):
        here = f"{where}.filters[{index}]"
        yield from _known(entity, item.fields, f"{here}.fields")
        for value, conditions in item.cases.items():
            names = [name for one in conditions for name in (one.field, one.than) if name is not None]
            yield from _known(entity, names, f"{here}.cases.{value}")
        for value in (*item.all, *item.cases):
            if value != value.casefold():
                message = f"{value!r} is compared in lower case"
                yield Problem("not_lower_case", here, message, "Write it in lower case.")


def _status(does: TransitionOperation, entity: EntitySpec, where: str) -> Iterator[Problem]:
    cycle = entity.lifecycle
    if does.field is not None:
        yield from _known(entity, [does.field], f"{where}.field")
    elif cycle is None:
        yield Problem(
            "no_lifecycle", f"{where}.field", f"{entity.name} has no lifecycle, so name the status field here"
        )
    if cycle is not None and does.to is not None and does.field in {None, cycle.field} and does.to not in cycle.states:
        yield Problem(
            "unknown_status", f"{where}.to", f"there is no status {does.to!r}", suggest(does.to, cycle.states)
        )


def _shown(does: Showing, entity: EntitySpec, entities: Mapping[str, EntitySpec], where: str) -> Iterator[Problem]:
    yield from _known(entity, does.show or (), f"{where}.show")
    if not entity.open:
        yield from _known(entity, does.hide, f"{where}.hide")
    for index, item in enumerate(does.related):
        here = f"{where}.related[{index}]"
        other = entities.get(item.entity)
        if other is None:
            yield Problem(
                "unknown_entity",
                f"{here}.entity",
                f"there is no entity {item.entity!r}",
                suggest(item.entity, entities),
            )
            continue
        yield from _known(other, [item.field, *(item.show or ())], here)
        yield from _known(entity, [item.equals] if item.equals is not None else [], f"{here}.equals")


def _fillable(tool: ToolSpec, does: CreateOperation, entity: EntitySpec, where: str) -> Iterator[Problem]:
    """Every required field of a new record has to come from somewhere."""
    required = set(cast("list[str]", tool.input_schema.get("required", [])))
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    for name, field in entity.fields.items():
        if not field.required or name == entity.key:
            continue
        source = does.set.get(name)
        argument = name if source is None else source.argument
        if argument is not None and argument not in required and "default" not in properties.get(argument, {}):
            yield Problem(
                "missing_value",
                f"{where}.does.set",
                f"{entity.name}.{name} is required, but a call need not give it",
                "Make the argument required, give it a default, or set the field here.",
            )
