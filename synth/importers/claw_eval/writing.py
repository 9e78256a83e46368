"""Creating and changing: which field each argument of a tool fills, and what is filled in by itself."""

from __future__ import annotations

from typing import Literal, cast

from servers.declared.spec import (
    CreateOperation,
    FieldType,
    ValueSpec,
)
from synth.importers.claw_eval.entities import (
    Entity,
    JsonObject,
    schema_type,
    singular,
)
from synth.importers.claw_eval.files import ToolEntry
from synth.importers.claw_eval.store import Plan, Store, properties


def create(store: Store, entry: ToolEntry, entity: Entity, plan: Plan) -> CreateOperation:
    """A tool that makes a record."""
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
            placed = entity.need(name, _type_of(entity, name, source))
            if placed is not None:
                values.setdefault(placed, source)
    return CreateOperation(operation="append" if plan.verb == "append" else "create", entity=entity.name, set=values)


def _type_of(entity: Entity, name: str, source: ValueSpec) -> FieldType:
    if name in entity.words.fields:
        return entity.words.fields[name]
    known = entity.fields.get(name)
    if known is not None:
        return known.type
    if isinstance(source.value, bool):
        return "boolean"
    return "list" if isinstance(source.value, list) else "string"


def written(store: Store, entry: ToolEntry, entity: Entity, *, skip: set[str]) -> dict[str, ValueSpec]:
    """The fields that the arguments of a writing tool fill."""
    values: dict[str, ValueSpec] = {}
    for number, (name, schema) in enumerate(properties(entry).items()):
        if name in skip:
            continue
        if name == entity.key:
            values[name] = ValueSpec(argument=name)
            continue
        meant = [name] if name in entity.fields else entity.meant(name, store.vocabulary.written)
        kind = schema_type(schema)
        ref = None if meant else _ref(store, entity, name, schema)
        moment = ref is None and _is_moment(store, name, schema)
        wanted = meant[0] if meant else name
        # Some names cannot be declared; the value is kept under another one.
        placed = entity.need(wanted, kind, ref=ref, moment=moment) or entity.need(f"argument_{number}", kind)
        if placed is not None:
            values[placed] = ValueSpec(argument=name)
    return values


def _is_moment(store: Store, name: str, schema: JsonObject) -> bool:
    """Whether a text argument is meant to be a time: its name says so, and its description nothing else."""
    moments = store.vocabulary.moments
    if not set(name.split("_")) & {*moments.future, *moments.past}:
        return False
    text = str(schema.get("description", "")).casefold()
    return not text or any(word in text for word in store.vocabulary.time_words)


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
        if other.key in {name, one} or one.endswith(f"_{other.key}"):
            return other.name
        if schema.get("type") == "array" and one == other.name and entity.name != other.name:
            return other.name
    return None


def style(entity: Entity, name: str) -> Literal["date", "time"]:
    """How an entity's records write moments: only the date, or with the time."""
    values = [str(record[name]) for record in entity.records if record.get(name) is not None]
    return "date" if values and all(len(value) == 10 for value in values) else "time"
