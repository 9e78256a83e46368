"""Lists and searches: which field each argument of a tool narrows, and what the answer leaves out."""

from __future__ import annotations

from collections.abc import Iterator

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
from synth.importers.claw_eval.store import Store, properties


def find(store: Store, entry: ToolEntry, entity: Entity) -> FindOperation:
    properties = properties(entry)
    meanings = {name: store.vocabulary.meaning_of.get(name) for name in properties}
    query = next((name for name, meaning in meanings.items() if meaning == "query"), None)
    limit = next((name for name, meaning in meanings.items() if meaning == "limit"), None)
    days = next((name for name, meaning in meanings.items() if meaning == "days"), None)
    filters: list[FilterSpec] = []
    ignore: list[str] = []
    for name in properties:
        if name in {query, limit, days}:
            continue
        spec = None if meanings[name] == "ignore" else _filter(store, entity, name, properties[name], days)
        if spec is not None:
            filters.append(spec)
        else:
            ignore.append(name)
    if days is not None and all(spec.days != days for spec in filters):
        filters += _coming(entity, days)
        ignore += [days] if filters[-1:] == [] or filters[-1].argument != days else []
    unexpected = [name for name in ignore if meanings[name] != "ignore"]
    store.warnings += [
        Problem("ignored_argument", f"tools.{entry.name}.{name}", "no field of this store fits it")
        for name in unexpected
    ]
    return FindOperation(
        operation="list" if query is None else "search",
        entity=entity.name,
        result=plural(entity.name),
        filters=filters,
        query=None if query is None else QuerySpec(argument=query, fields=_weights(store, entity)),
        order=[OrderSpec(field=name.lstrip("-"), descending=name.startswith("-")) for name in _order(entity)],
        limit=None if limit is None and query is None else limit(limit, properties.get(limit or "", {})),
        hide=_hidden(store, entity),
        ignore=ignore,
    )


def _filter(
    store: Store, entity: Entity, name: str, schema: JsonObject, days: str | None
) -> FilterSpec | None:
    words = store.vocabulary
    meaning = words.meaning_of.get(name)
    time = entity.words.time or _time_field(entity)
    if (
        meaning in {"days_back", "at_least", "at_most", "on_day"}
        and entity.exact(name) is None
        and time is not None
    ):
        entity.need(time, "string", moment=True)
        if meaning == "on_day":
            return FilterSpec(argument=name, op="on_day", fields=_interval(entity, time), days=days)
        if meaning == "days_back":
            return FilterSpec(argument=name, op="days_back", fields=[time])
        return FilterSpec(argument=name, op="at_least" if meaning == "at_least" else "at_most", fields=[time])
    if meaning == "on_day" and time is not None:
        return FilterSpec(argument=name, op="on_day", fields=_interval(entity, time), days=days)
    if meaning in {"minimum", "maximum"}:
        amounts = entity.meant("amount", words.same)
        return (
            FilterSpec(argument=name, op="at_least" if meaning == "minimum" else "at_most", fields=amounts)
            if amounts
            else None
        )
    return _field_filter(store, entity, name, schema)


def _interval(entity: Entity, time: str) -> list[str]:
    until = entity.words.until
    if until is None or entity.need(until, "string", moment=True) is None:
        return [time]
    return [time, until]


def _field_filter(store: Store, entity: Entity, name: str, schema: JsonObject) -> FilterSpec | None:
    words = store.vocabulary
    cases = _cases(entity, {**words.cases, **entity.words.cases}.get(name, {}))
    fields = [
        other for other in entity.words.filters.get(name, []) if other in entity.fields
    ] or entity.meant(name, words.same)
    if cases and not fields:
        fields = [condition.field for conditions in cases.values() for condition in conditions][:1]
    if cases and fields and name in fields and all(name in record for record in entity.records):
        cases = {}  # every record says it itself
    if not fields:
        # Nothing has such a field: the value may still stand in a text.
        texts = entity.texts()
        return FilterSpec(argument=name, op="contains", fields=texts) if texts else None
    if schema.get("type") == "array":
        return FilterSpec(argument=name, op="any_of", fields=fields, cases=cases)
    loose = schema.get("type") == "string" and (name in words.loose or not entity.records)
    return FilterSpec(argument=name, op="contains" if loose else "equals", fields=fields, cases=cases)


def _cases(entity: Entity, cases: dict[str, list[ConditionSpec]]) -> dict[str, list[ConditionSpec]]:
    """The cases whose conditions this entity's fields can decide."""
    result: dict[str, list[ConditionSpec]] = {}
    for value, conditions in cases.items():
        placed = [(_role(entity, item.field), _role(entity, item.than), item) for item in conditions]
        if all(name is not None and (item.than is None or than is not None) for name, than, item in placed):
            result[value] = [
                item.model_copy(update={"field": name, "than": than}) for name, than, item in placed
            ]
    return result


def _role(entity: Entity, name: str | None) -> str | None:
    if name is None:
        return None
    return next(
        (
            field_name
            for field_name in (name, *entity.words.roles.get(name, []))
            if field_name in entity.fields
        ),
        None,
    )


def _time_field(entity: Entity) -> str | None:
    return next((name for name, spec in entity.fields.items() if spec.format is not None), None)


def _coming(entity: Entity, days: str) -> list[FilterSpec]:
    """A number of days without a day to count from: so many days back."""
    time = entity.words.time or _time_field(entity)
    return (
        [FilterSpec(argument=days, op="days_back", fields=[time])]
        if time in entity.fields and time is not None
        else []
    )


def _weights(store: Store, entity: Entity) -> dict[str, float]:
    searched = [
        name
        for name, spec in entity.fields.items()
        if spec.type in {"string", "any", "list"} and spec.format is None
    ]
    named = [entity.key] if not searched or entity.exact("name") is None else []
    return {name: store.vocabulary.weights.get(name, 1.0) for name in (*searched, *named)} or {
        entity.key: 1.0
    }


def _order(entity: Entity) -> Iterator[str]:
    for name in entity.words.order:
        if name.lstrip("-") in entity.fields:
            yield name


def _hidden(store: Store, entity: Entity) -> list[str]:
    hidden = list(entity.words.hidden)
    if entity.name in store.gets:
        hidden += entity.words.detail if entity.name in store.words.entities else long_fields(entity)
    return list(dict.fromkeys(hidden))
