"""The pieces put together: a spec becomes a service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial

from servers.declared.arguments import argument_parser
from servers.declared.operations import Kit, compile_operation
from servers.declared.records import entity_model
from servers.declared.rules import find_problems
from servers.declared.selection import Table, make_table
from servers.declared.spec import ServiceSpec, ToolSpec
from servers.declared.times import read_moment
from servers.errors import Problem, SpecError
from servers.records import Record
from servers.tools import Effect, Service, Tool
from servers.world import World

_EFFECTS: Mapping[str, Effect] = {
    "list": "read",
    "search": "read",
    "get": "read",
    "unavailable": "read",
    "create": "write",
    "append": "write",
    "update": "write",
    "transition": "write",
    "delete": "destroy",
}


def declared_service(spec: ServiceSpec) -> Service:
    """Make a service of a spec. Equal specs give the same service, so a workplace of them is compiled once.

    Raises:
        SpecError: With every problem of the spec and its path.
    """
    return _declared(spec.model_dump_json())


@lru_cache(maxsize=1024)
def _declared(text: str) -> Service:
    spec = ServiceSpec.model_validate_json(text)
    problems = find_problems(spec)
    if problems:
        raise SpecError(problems)
    models = {entity.name: entity_model(spec.name, entity, f"entities.{entity.name}") for entity in spec.entities}
    tables = {entity.name: make_table(entity, models[entity.name]) for entity in spec.entities}
    kit = Kit(spec.name, tables)
    return Service(
        name=spec.name,
        title=spec.title,
        summary=spec.summary,
        records=tuple(models.values()),
        tools=tuple(_tool(kit, tool) for tool in spec.tools),
        check=partial(_check, tables),
        prepare=partial(_prepare, tables),
    )


def _tool(kit: Kit, spec: ToolSpec) -> Tool:
    effect = _EFFECTS[spec.does.operation]
    return Tool(
        name=spec.name,
        description=spec.description,
        input_schema=spec.input_schema,
        parse=argument_parser(spec.name, spec.input_schema),
        run=compile_operation(kit, spec),
        effect=effect,
        idempotent=spec.does.operation not in {"create", "append"},
        latency=spec.latency,
    )


def _check(tables: Mapping[str, Table], records: Mapping[str, Mapping[str, Record]], start: int) -> list[Problem]:
    """Find ends that come before their beginnings."""
    problems: list[Problem] = []
    for table in tables.values():
        if table.spec.span is None:
            continue
        name = table.model.type_name
        first, last = table.spec.span
        for index, record in enumerate(records.get(name, {}).values()):
            begin, end = (read_moment(getattr(record, field), "UTC") for field in (first, last))
            if begin is not None and end is not None and end.seconds < begin.seconds:
                problems.append(Problem("impossible_time", f"records.{name}[{index}].{last}", f"lies before {first}"))
    return problems


def _prepare(tables: Mapping[str, Table], world: World) -> None:
    """Let the numbers of new ids go on after those of the records."""
    for table in tables.values():
        prefix = table.spec.id_prefix
        if prefix is None:
            continue
        style = re.compile(re.escape(prefix) + r"(\d{1,15})")
        read = table.readers[table.spec.key]
        numbers = [int(found[1]) for row in world.rows(table.everything) if (found := style.fullmatch(str(read(row))))]
        if numbers:
            world.set_number(table.model.type_name, max(numbers))
