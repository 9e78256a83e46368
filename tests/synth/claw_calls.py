"""Calls for the tools of an imported task, made from their schemas and the task's own records."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from servers.declared.spec import EntitySpec, ServiceSpec, ToolSpec
from synth.importers.claw_eval import ImportedTask

DAY = "2026-03-10"


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
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("default", 3)
        case "boolean":
            return schema.get("default", True)
        case "array":
            return ["first@example.com"]
        case "object":
            return {}
        case _:
            return _text(task, service, entity, name)


def _text(task: ImportedTask, service: ServiceSpec, entity: EntitySpec, name: str) -> str:
    if any(part in {"date", "time", "since", "deadline"} for part in name.split("_")):
        return DAY if "time" not in name else f"{DAY}T{'11' if 'end' in name else '10'}:00:00"
    for record in task.records.get(f"{service.name}.{entity.name}", []):
        if isinstance(record.get(name), str):
            return record[name]
    return "something"


def _keys(task: ImportedTask, service: ServiceSpec, entity: str) -> list[str]:
    key = next(item.key for item in service.entities if item.name == entity)
    return [record[key] for record in task.records[f"{service.name}.{entity}"]]


def any_arguments(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any arguments at all that fit a schema of an object."""
    required = set(schema.get("required", []))
    properties = schema.get("properties", {})
    return st.fixed_dictionaries(
        {name: _any_value(value) for name, value in properties.items() if name in required},
        optional={name: _any_value(value) for name, value in properties.items() if name not in required},
    )


_TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(string.ascii_letters + " .@:/-#'\"%_*?", max_size=30),
    st.sampled_from(
        ["", "all", DAY, "2026-02-30", "0001-01-01", "9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00+14:00",
         "2026-03-10T25:00", "10", "NaN", "https://", "\x00", "张 经理", "null", "TK-1", "-1"]
    ),
)  # fmt: skip
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXTS,
    "integer": st.integers() | st.sampled_from([0, -1, 1, 2**63, -(2**63) - 1, 10**30, 3.0]),
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "null": st.none(),
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _any_value(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return st.lists(_any_value(schema.get("items", {})), max_size=3)
    if kind == "object":
        return any_arguments(schema) if "properties" in schema else st.dictionaries(st.text(max_size=5), _JSON, max_size=3)
    return _SCALARS.get(kind, _JSON) if isinstance(kind, str) else _JSON
