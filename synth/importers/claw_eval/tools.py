"""Tools from names, arguments and stores: what each tool of a task does.

The name says the verb and the noun (``helpdesk_close_ticket``), the schema says the arguments, and the store
says which fields they mean. General rules come first; ``synth/data/claw_eval.yaml`` holds what single
services and tools need beyond them. Every argument is given a meaning: one that fits no field is looked for
in all texts of a record.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from servers.declared.spec import (
    DeleteOperation,
    FindOperation,
    GetOperation,
    ItemsSpec,
    Operation,
    RelatedSpec,
    TargetSpec,
    ToolSpec,
    TransitionOperation,
    UnavailableOperation,
    UpdateOperation,
    ValueSpec,
)
from servers.errors import Problem
from synth.importers.claw_eval.entities import (
    Entity,
    entity_from,
    plural,
    singular,
)
from synth.importers.claw_eval.files import ToolEntry
from synth.importers.claw_eval.reading import find
from synth.importers.claw_eval.store import Plan, Store, limit_of, properties, required
from synth.importers.claw_eval.vocabulary import EntityWords, ToolWords, Verb
from synth.importers.claw_eval.writing import create, style, written

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|\d+")
NAME = re.compile(r"[a-z][a-z0-9_]{0,50}")


def build_tools(store: Store, entries: Sequence[ToolEntry]) -> list[ToolSpec]:
    """Decide what every tool of a store does; the store's entities grow the fields that the tools need."""
    if store.words.texts:
        return [_text_tool(store, entry) for entry in entries]
    plans = [(entry, _plan(store, entry)) for entry in entries]
    store.gets = {plan.entity for _, plan in plans if plan is not None and plan.verb == "get"}
    operations = {entry.name: _operation(store, entry, plan) for entry, plan in plans}
    # Related records are known only when every action has had its fields.
    return [_tool(entry, _with_related(store, operations[entry.name])) for entry in entries]


def unavailable_tool(entry: ToolEntry, reason: str) -> ToolSpec:
    """A tool that is listed, and says why it does not work here."""
    return _tool(entry, UnavailableOperation(operation="unavailable", reason=reason))


def _text_tool(store: Store, entry: ToolEntry) -> ToolSpec:
    """A tool that reads a file: whichever is asked for, the task's own text is all there is."""
    ignore = list(properties(entry))
    does = FindOperation(operation="list", entity=store.main, result=plural(store.main), ignore=ignore)
    return _tool(entry, does)


def _tool(entry: ToolEntry, does: Operation) -> ToolSpec:
    return ToolSpec(name=entry.name, description=entry.description, input_schema=entry.input_schema, does=does)


def is_action(store: Store, entry: ToolEntry) -> bool:
    """Whether a tool only records that something was done, such as sending a notification."""
    plan = _plan(store, entry)
    return plan is not None and plan.verb in {"create", "append"}


def _plan(store: Store, entry: ToolEntry) -> Plan | None:
    words = store.words.tools.get(entry.name, ToolWords())
    tokens = [token.casefold() for token in WORD.findall(entry.name)]
    if tokens and tokens[0] == store.name.split("_", maxsplit=1)[0]:
        tokens = tokens[1:]
    at = next((index for index, token in enumerate(tokens) if token in store.vocabulary.verb_of), None)
    action = tokens[at] if at is not None else ""
    noun = words.noun or singular("_".join(token for index, token in enumerate(tokens) if index != at))
    verb = words.verb or (store.vocabulary.verb_of[action] if action else _verb_by_shape(store, entry, noun))
    if verb is None:
        return None
    if verb == "get" and words.verb is None and tokens[-1].endswith("s"):
        verb = verb if _target_argument(store, entry, noun) is not None else "list"
    entity = words.entity or _entity(store, verb, noun, action)
    return Plan(verb, entity, store.vocabulary.states.get(action), words)


def _verb_by_shape(store: Store, entry: ToolEntry, noun: str) -> Verb | None:
    """What a tool without a known verb does, by its arguments; None when they do not tell."""
    main = store.entities[store.main]
    if not main.records:
        return None
    target = _target_argument(store, entry, "")
    if target is not None:
        # Whoever must say more than which record is meant wants something done, not read.
        return "get" if set(required(entry)) <= {target} else "append"
    if "query" in {store.vocabulary.meaning_of.get(name) for name in properties(entry)}:
        return "search"
    return "list" if noun in {main.name, *main.words.also} else None


def _entity(store: Store, verb: Verb, noun: str, action: str) -> str:
    """The entity that a noun means; an action with another noun than the main one has records of its own."""
    main = store.entities[store.main]
    for entity in store.entities.values():
        if noun in {entity.name, *entity.words.also}:
            return entity.name
    if verb not in {"create", "append"} or (not noun and verb == "create"):
        return main.name
    name = noun if NAME.fullmatch(noun) else store.vocabulary.actions.get(action, "entry")
    store.entities[name] = entity_from(name, EntityWords(key=f"{name}_id"), warnings=store.warnings)
    store.actions.add(name)
    return name


def _target_argument(store: Store, entry: ToolEntry, noun: str) -> str | None:
    """The argument that says which record a tool is about."""
    names = list(properties(entry))
    entity = store.entities.get(noun) or store.entities.get(store.main)
    keys = [] if entity is None else [entity.key, f"{entity.name}_id", f"{noun}_id", entity.name]
    exact = next((key for key in (*keys, "id") if key in names), None)
    if exact is not None:
        return exact
    return next((name for name in names if name.endswith("_id") and name in required(entry)), None)


def _operation(store: Store, entry: ToolEntry, plan: Plan | None) -> Operation:
    if plan is None:
        where = f"tools.{entry.name}"
        store.warnings.append(Problem("unknown_tool", where, "nothing here could answer this tool"))
        return UnavailableOperation(operation="unavailable", reason=store.vocabulary.unavailable["tool"])
    entity = store.entities[plan.entity]
    if plan.verb in {"create", "append"}:
        return create(store, entry, entity, plan)
    names = list(properties(entry))
    target = _target_argument(store, entry, plan.entity) or next(iter([*required(entry), *names]), None)
    if target is None or plan.verb in {"list", "search"}:
        return find(store, entry, entity, plan.verb)
    about = TargetSpec(argument=target, by=_identifying(entity, target), match=entity.words.match)
    if plan.verb == "get":
        return _get(store, entry, entity, plan, about)
    if plan.verb == "delete":
        ignore = [name for name in names if name != target]
        return DeleteOperation(operation="delete", entity=entity.name, target=about, ignore=ignore)
    return _change(store, entry, entity, plan, about)


def _change(
    store: Store, entry: ToolEntry, entity: Entity, plan: Plan, about: TargetSpec
) -> UpdateOperation | TransitionOperation:
    stamps = [name for name in store.vocabulary.stamps.update if name in entity.seen]
    values = {name: ValueSpec(now=style(entity, name)) for name in stamps}
    values |= written(store, entry, entity, skip={about.argument})
    if plan.verb == "update":
        return UpdateOperation(operation="update", entity=entity.name, target=about, set=values)
    status = "state" if "state" in entity.fields and "status" not in entity.fields else "status"
    status = entity.need(status, "string") or status
    given = values.pop(status, None)
    return TransitionOperation(
        operation="transition",
        entity=entity.name,
        target=about,
        field=status,
        to=plan.state,
        set=values,
        ignore=[given.argument] if given is not None and given.argument is not None else [],
    )


def _identifying(entity: Entity, argument: str) -> list[str]:
    """The fields by which an argument finds a record: the key, and the field of the argument's own name."""
    field_name = entity.exact(argument)
    return [entity.key] + ([field_name] if field_name is not None and field_name != entity.key else [])


def _get(store: Store, entry: ToolEntry, entity: Entity, plan: Plan, about: TargetSpec) -> GetOperation:
    others = [name for name in properties(entry) if name != about.argument]
    items = plan.words.items
    if items is None and entry.name.endswith("history"):
        items = next((name for name in entity.fields if name.endswith("history")), None)
    if items is None or entity.need(items, "list") is None:
        return GetOperation(operation="get", entity=entity.name, target=about, ignore=others)
    limit = next((name for name in others if store.vocabulary.meaning_of.get(name) == "limit"), None)
    return GetOperation(
        operation="get",
        entity=entity.name,
        target=about,
        items=ItemsSpec(field=items, limit=limit_of(limit, properties(entry).get(limit or "", {}))),
        ignore=[name for name in others if name != limit],
    )


def _with_related(store: Store, does: Operation) -> Operation:
    """Show with a record what was done about it: the orders of a product, the shares of a note."""
    if not isinstance(does, FindOperation | GetOperation):
        return does
    if isinstance(does, GetOperation) and does.items is not None:
        return does
    entity = store.entities[does.entity]
    related: list[RelatedSpec] = []
    for name in sorted(store.actions):
        other = store.entities[name]
        link = next((field for field, spec in other.fields.items() if spec.ref == entity.name), None)
        if link is not None:
            shown = plural(name) if plural(name) not in entity.fields else f"recorded_{plural(name)}"
            related.append(RelatedSpec(name=shown, entity=name, field=link))
    gathered = entity.words.gathered
    source = None if gathered is None else store.entities[gathered.from_]
    if source is not None and gathered is not None and gathered.by in source.fields and does.operation == "get":
        hidden = {*source.words.detail, *source.words.hidden}
        show = [source.key, *(name for name in source.fields if name not in hidden)]
        related.append(RelatedSpec(name=plural(source.name), entity=source.name, field=gathered.by, show=show))
    return does.model_copy(update={"related": related}) if related else does
