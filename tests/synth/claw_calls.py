"""Calls for the tools of an imported task, made from their schemas and the task's own records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from servers.declared.spec import EntitySpec, ServiceSpec, ToolSpec
from servers.desk import Desk, agent_desk
from servers.world import World
from synth.importers.claw_eval import ImportedTask, import_task, to_environment
from tests.any_arguments import any_arguments

DAY = "2026-03-10"
PERSON = "first@example.com"


@lru_cache(maxsize=64)
def read(folder: Path) -> ImportedTask:
    """A task, read once for all tests; nothing changes it."""
    return import_task(folder)


def open_desk(task: ImportedTask) -> Desk:
    """The agent's desk in a fresh world of a task."""
    environment = to_environment(task)
    return agent_desk(World.open(environment.image), environment.exposed)


def ask(desk: Desk, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that has to succeed; gives its result."""
    result = desk.call(tool, arguments)
    assert result.ok, result.text
    assert result.value is not None
    return result.value


def refuse(desk: Desk, tool: str, **arguments: Any) -> str:
    """Call a tool that has to refuse; gives its words."""
    result = desk.call(tool, arguments)
    assert not result.ok, result.text
    return result.text


def call_at_random(task: ImportedTask, data: st.DataObject) -> None:
    """A broken tool raises ServiceFault here; a refusal is an answer."""
    desk = open_desk(task)
    tools = [tool for _, tool in tools_of(task)]
    for _ in range(8 if tools else 0):
        tool = data.draw(st.sampled_from(tools))
        arguments = data.draw(any_arguments(tool.input_schema))
        desk.call(tool.name, arguments)


def tools_of(task: ImportedTask) -> Iterator[tuple[ServiceSpec, ToolSpec]]:
    """All tools of a task with their services."""
    for service in task.services:
        for tool in service.tools:
            yield service, tool


def entity_of(service: ServiceSpec, tool: ToolSpec) -> EntitySpec:
    """The entity that a tool is about."""
    return next(entity for entity in service.entities if entity.name == tool.does.entity)  # type: ignore[union-attr]


def valid_arguments(task: ImportedTask, service: ServiceSpec, tool: ToolSpec, *, all_arguments: bool) -> dict[str, Any]:
    """Arguments that fit the schema and name records that exist."""
    required = tool.input_schema.get("required", [])
    return {
        name: _value(task, service, tool, name, schema)
        for name, schema in tool.input_schema.get("properties", {}).items()
        if all_arguments or name in required
    }


def _value(task: ImportedTask, service: ServiceSpec, tool: ToolSpec, name: str, schema: dict[str, Any]) -> Any:
    target = getattr(tool.does, "target", None)
    entity = entity_of(service, tool)
    if target is not None and target.argument == name:
        return _keys(task, service, entity.name)[0]
    field = entity.fields.get(name)
    if field is not None and field.ref is not None:
        keys = _keys(task, service, field.ref)
        return keys[:2] if schema.get("type") == "array" else keys[0]
    kind = schema.get("type")
    if kind == "string":
        return _text(task, service, entity, name)
    simple: dict[str, Any] = {"integer": 3, "number": 3, "boolean": True, "array": [PERSON], "object": {}}
    return schema.get("default", simple[kind])


def _text(task: ImportedTask, service: ServiceSpec, entity: EntitySpec, name: str) -> str:
    if name == "user":
        return PERSON
    if any(part in {"date", "time", "since", "deadline"} for part in name.split("_")):
        return DAY if "time" not in name else f"{DAY}T{'11' if 'end' in name else '10'}:00:00"
    for record in task.records.get(f"{service.name}.{entity.name}", []):
        if isinstance(record.get(name), str):
            return record[name]
    return "something"


def _keys(task: ImportedTask, service: ServiceSpec, entity: str) -> list[str]:
    key = next(item.key for item in service.entities if item.name == entity)
    return [record[key] for record in task.records[f"{service.name}.{entity}"]]
