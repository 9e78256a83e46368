"""Lists and searches: which field each argument of a tool narrows, and what the answer leaves out."""

from __future__ import annotations

from servers.declared.spec import (
    ConditionSpec,
    FilterSpec,
    FindOperation,
    OrderSpec,
    QuerySpec,
)
from servers.errors import Problem
from synth.importers.claw_eval.entities import (
    Entity,
    JsonObject,
    long_fields,
    plural,
)
from synth.importers.claw_eval.files import ToolEntry
from synth.importers.claw_eval.store import Store, limit_of, properties, required
from synth.importers.claw_eval.vocabulary import Verb


def find(store: Store, entry: ToolEntry, entity: Entity, verb: Verb) -> FindOperation:
    """A tool that lists or searches an entity."""
    arguments = properties(entry)
    meanings = {name: store.vocabulary.meaning_of.get(name) for name in arguments}
    first = {meaning: name for name, meaning in reversed(meanings.items())}
    query, limit, days = first.get("query"), first.get("limit"), first.get("days")
    if query is None and verb == "search":
        query = next((name for name in required(entry) if name in arguments and entity.exact(name) is None), None)
    filters: list[FilterSpec] = []
    ignore: list[str] = []
    for name, schema in arguments.items():
        if name in {query, limit, days}:
            continue
        spec = None if meanings[name] == "ignore" else _filter(store, entity, name, schema, days)
        if spec is not None:
            filters.append(spec)
        else:
            ignore.append(name)
    if days is not None and all(spec.days != days for spec in filters):
        # A number of days without a day to count from: so many days back.
        time = _time_field(entity)
        if time is None:
            ignore.append(days)
        else:
            filters.append(FilterSpec(argument=days, op="days_back", fields=[time]))
    store.warnings += [
        Problem("ignored_argument", f"tools.{entry.name}.{name}", "no field of this store fits it")
        for name in ignore
        if meanings[name] != "ignore"
    ]
    return FindOperation(
        operation="list" if query is None else "search",
        entity=entity.name,
        result=plural(entity.name),
        filters=filters,
        query=None if query is None else QuerySpec(argument=query, fields=_weights(store, entity)),
        order=_order(entity),
        limit=None if limit is None and query is None else limit_of(limit, arguments.get(limit or "", {})),
        hide=_hidden(store, entity),
        ignore=ignore,
    )


def _filter(store: Store, entity: Entity, name: str, schema: JsonObject, days: str | None) -> FilterSpec | None:
    words = store.vocabulary
    meaning = words.meaning_of.get(name)
    own = entity.exact(name)
    time = own if own is not None and entity.fields[own].format is not None else _time_field(entity)
    if time is not None and (own is None or own == time):
        if meaning == "on_day":
            return FilterSpec(argument=name, op="on_day", fields=_interval(entity, time), days=days)
        if meaning == "days_back" or meaning == "at_least" or meaning == "at_most":  # noqa: PLR1714 - narrows
            return FilterSpec(argument=name, op=meaning, fields=[time])
    start, _, ending = name.rpartition("_")
    bounded = [field for field, spec in entity.fields.items() if spec.format is not None and start in field]
    if own is None and start and ending in words.endings and bounded:
        return FilterSpec(argument=name, op=words.endings[ending], fields=bounded[:1])
    if meaning in {"minimum", "maximum"}:
        amounts = entity.meant("amount", words.same)
        op = "at_least" if meaning == "minimum" else "at_most"
        return FilterSpec(argument=name, op=op, fields=amounts) if amounts else None
    return _field_filter(store, entity, name, schema)


def _interval(entity: Entity, time: str) -> list[str]:
    until = entity.words.until
    if until is None or time != entity.words.time or until not in entity.fields:
        return [time]
    return [time, until]


def _field_filter(store: Store, entity: Entity, name: str, schema: JsonObject) -> FilterSpec | None:
    words = store.vocabulary
    cases = _cases(entity, {**words.cases, **entity.words.cases}.get(name, {}))
    named = [other for other in entity.words.filters.get(name, []) if other in entity.fields]
    fields = named or entity.meant(name, words.same)
    if cases and not fields:
        fields = [condition.field for conditions in cases.values() for condition in conditions][:1]
    if cases and fields and name in fields and all(name in record for record in entity.records):
        cases = {}  # every record says it itself
    if not fields:
        # Nothing has such a field: the value may still stand in a text. A default nobody asked for must not.
        texts = [] if "default" in schema else entity.texts()
        return FilterSpec(argument=name, op="contains", fields=texts) if texts else None
    if schema.get("type") == "array":
        return FilterSpec(argument=name, op="any_of", fields=fields, cases=cases)
    loose = schema.get("type") == "string" and (name in words.loose or not entity.records)
    return FilterSpec(argument=name, op="contains" if loose else "equals", fields=fields, cases=cases)


def _cases(entity: Entity, cases: dict[str, list[ConditionSpec]]) -> dict[str, list[ConditionSpec]]:
    """The cases whose conditions this entity's fields can decide."""
    result: dict[str, list[ConditionSpec]] = {}
    for value, conditions in cases.items():
        placed = [
            item.model_copy(update={"field": _role(entity, item.field), "than": _role(entity, item.than)})
            for item in conditions
        ]
        known = [new for new, item in zip(placed, conditions, strict=True) if _is_placed(new, item)]
        if len(known) == len(conditions):
            result[value] = placed
    return result


def _is_placed(new: ConditionSpec, old: ConditionSpec) -> bool:
    missing: list[str | None] = [new.field, new.than if old.than is not None else ""]
    return None not in missing


def _role(entity: Entity, name: str | None) -> str | None:
    options = [] if name is None else [name, *entity.words.roles.get(name, [])]
    return next((option for option in options if option in entity.fields), None)


def _time_field(entity: Entity) -> str | None:
    """The field that filters by time are about."""
    if entity.words.time is not None and entity.need(entity.words.time, "string", moment=True) is not None:
        return entity.words.time
    return next((name for name, spec in entity.fields.items() if spec.format is not None), None)


def _weights(store: Store, entity: Entity) -> dict[str, float]:
    kinds = {"string", "any", "list"}
    names = [name for name, spec in entity.fields.items() if spec.type in kinds and spec.format is None]
    if entity.key not in entity.words.hidden:
        names.append(entity.key)
    weights = store.vocabulary.weights
    return {name: weights.get(name, 1.0) for name in names} or {entity.key: 1.0}


def _order(entity: Entity) -> list[OrderSpec]:
    names = [name for name in entity.words.order if name.lstrip("-") in entity.fields]
    return [OrderSpec(field=name.lstrip("-"), descending=name.startswith("-")) for name in names]


def _hidden(store: Store, entity: Entity) -> list[str]:
    hidden = list(entity.words.hidden)
    if entity.name in store.gets:
        hidden += long_fields(entity) if entity.words.unknown else entity.words.detail
    return list(dict.fromkeys(hidden))
