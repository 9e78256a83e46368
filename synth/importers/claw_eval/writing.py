"""Creating and changing: which field each argument of a tool fills, and what is filled in by itself."""

from __future__ import annotations

import re
from typing import Any, cast

from servers.declared.spec import (
    CreateOperation,
    ValueSpec,
)
from synth.importers.claw_eval.entities import (
    Entity,
    JsonObject,
    is_field_name,
    schema_type,
    singular,
)
from synth.importers.claw_eval.files import ToolEntry
from synth.importers.claw_eval.store import Plan, Store, properties


def create(store: Store, entry: ToolEntry, entity: Entity, plan: Plan) -> CreateOperation:
    values = written(store, entry, entity, skip=set())
    given = {name if source.argument is None else source.argument for name, source in values.items()}
    made = {**entity.words.create, **plan.words.set}
    for name in store.vocabulary.stamps.create:
        if name in entity.seen or (entity.name in store.actions and name == "created_at"):
            made.setdefault(name, ValueSpec(now=style(entity, name)))
    if entity.name in store.actions:
        made.setdefault("created_by", ValueSpec(caller="email"))
    for name, source in made.items():
        wanted = name in plan.words.set or name in entity.seen or not entity.records
        if name not in given and name not in properties(entry) and wanted:
            entity.need(name, _type_of(entity, name, source))
            values[name] = source
    return CreateOperation(
        operation="append" if plan.verb == "append" else "create", entity=entity.name, set=values
    )


def _type_of(entity: Entity, name: str, source: ValueSpec) -> Any:  # noqa: ANN401 - a FieldType
    if name in entity.words.fields:
        return entity.words.fields[name]
    known = entity.fields.get(name)
    if known is not None:
        return known.type
    return {bool: "boolean", int: "integer", list: "list", dict: "object"}.get(type(source.value), "string")


def written(store: Store, entry: ToolEntry, entity: Entity, *, skip: set[str]) -> dict[str, ValueSpec]:
    """The fields that the arguments of a writing tool fill."""
    values: dict[str, ValueSpec] = {}
    for name, schema in properties(entry).items():
        if name in skip or name == entity.key:
            continue
        groups = store.vocabulary.written
        fields = [name] if name in entity.fields else entity.meant(name, groups)
        wanted = (
            fields[0]
            if fields
            else name
            if is_field_name(name)
            else f"value_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
        )
        about_time = bool(
            set(name.split("_")) & {*store.vocabulary.moments.future, *store.vocabulary.moments.past}
        )
        ref = _ref(store, entity, name, schema) if wanted not in entity.fields else None
        kind = schema_type(schema)
        placed = entity.need(
            wanted, kind, ref=ref, moment=about_time and ref is None and _asks_for_time(schema)
        )
        placed = placed or entity.need(f"given_{wanted.lower()}", kind)
        if placed is not None:
            values[placed] = ValueSpec(argument=name)
    return values


def _asks_for_time(schema: JsonObject) -> bool:
    """Whether a text argument is meant to be a time: it says so, or says nothing else."""
    text = str(schema.get("description", "")).casefold()
    return not text or any(word in text for word in ("yyyy", "iso", "date", "time", "日期", "时间"))


def _ref(store: Store, entity: Entity, name: str, schema: JsonObject) -> str | None:
    """The entity whose ids an argument holds."""
    items = schema.get("items")
    kind = cast("JsonObject", items).get("type") if isinstance(items, dict) else schema.get("type")
    if kind != "string":
        return None
    for other in store.entities.values():
        if other.name in store.actions:
            continue
        one = singular(name)
        if name == other.key or one == other.key or one.endswith(f"_{other.key}"):
            return other.name
        if schema.get("type") == "array" and one == other.name and entity.name != other.name:
            return other.name
    return None


def style(entity: Entity, name: str) -> Any:  # noqa: ANN401 - "date" or "time"
    values = [str(record[name]) for record in entity.records if record.get(name) is not None]
    return "date" if values and all(len(value) == 10 for value in values) else "time"
