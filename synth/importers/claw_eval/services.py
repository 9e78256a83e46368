"""Services of a task: which tools belong to which store, and what is in the stores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from servers.declared.arguments import schema_problems
from servers.declared.rules import find_problems
from servers.declared.spec import FieldSpec, ServiceSpec, ToolSpec, UnavailableOperation
from servers.errors import Problem
from synth.importers.claw_eval.entities import Entity, entity_from, singular
from synth.importers.claw_eval.files import (
    ServiceEntry,
    TaskFile,
    ToolEntry,
    find_fixtures,
    load_records,
    load_texts,
)
from synth.importers.claw_eval.store import Store
from synth.importers.claw_eval.tools import build_tools, is_action, unavailable_tool
from synth.importers.claw_eval.vocabulary import (
    EntityWords,
    GatheredWords,
    ServiceWords,
    Vocabulary,
    vocabulary,
)

JsonObject = dict[str, Any]
TEXTS = (".txt", ".md")
SANDBOX = "sandbox"
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,127}")


@dataclass(slots=True)
class Imported:
    """The services of a task and their records by full type name."""

    services: tuple[ServiceSpec, ...] = ()
    records: dict[str, list[JsonObject]] = field(default_factory=dict[str, list[JsonObject]])


def import_services(folder: Path, task: TaskFile, warnings: list[Problem]) -> Imported:
    """Make the services of a task; those of ``task.yaml`` first, then those that only tools name."""
    words = vocabulary()
    groups: dict[str, list[ToolEntry]] = {_plain(entry.name): [] for entry in task.services}
    seen: set[str] = set()
    for entry in task.tools:
        if entry.name not in seen:
            groups.setdefault(_service_of(entry.name, task, words), []).append(entry)
        seen.add(entry.name)
    declared = {_plain(entry.name): entry for entry in task.services}
    imported = Imported()
    services: list[ServiceSpec] = []
    for name, entries in groups.items():
        entry = declared.get(name, ServiceEntry(name=name))
        spec, records = _service(folder, entry, entries, warnings)
        if spec is not None:
            services.append(spec)
            imported.records |= records
    imported.services = tuple(services)
    return imported


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", name.casefold()).strip("_") or "service"


def _service_of(tool: str, task: TaskFile, words: Vocabulary) -> str:
    """The service that a tool belongs to, by its name, then by where its endpoint is."""
    if tool.casefold() in words.sandbox:
        return SANDBOX
    names = [_plain(entry.name) for entry in task.services]
    own = [name for name in names if tool.startswith(f"{name}_")]
    if own:
        return max(own, key=len)
    known = [name for name in words.services if tool.startswith(f"{name}_")]
    if known and not any(name.startswith(f"{max(known, key=len)}_") for name in names):
        return max(known, key=len)
    endpoint = next((entry for entry in task.tool_endpoints if entry.tool_name == tool), None)
    address = urlsplit(endpoint.url if endpoint is not None else "")
    ports = {entry.port: _plain(entry.name) for entry in task.services if entry.port is not None}
    if _port(address.netloc) in ports:
        return ports[cast("int", _port(address.netloc))]
    path = _plain(address.path.strip("/").split("/")[0])
    return path if path != "service" else _plain(tool.split("_", maxsplit=1)[0])


def _port(host: str) -> int | None:
    port = host.rpartition(":")[2]
    return int(port) if port.isdecimal() else None


def _service(
    folder: Path, entry: ServiceEntry, tools: Sequence[ToolEntry], warnings: list[Problem]
) -> tuple[ServiceSpec | None, dict[str, list[JsonObject]]]:
    name = _plain(entry.name)
    words = vocabulary().services.get(name, ServiceWords())
    reasons = vocabulary().unavailable
    usable = _usable(tools, warnings)
    store = Store(name, words, vocabulary(), warnings=warnings)
    if name == SANDBOX or words.unavailable is not None:
        specs = _without_fixtures(store, usable, reasons[words.unavailable or "shell"])
    else:
        if words.texts:
            _load_texts(folder, store, entry)
        else:
            _load_entities(folder, store, entry, tools)
        empty = not any(entity.records for entity in store.entities.values())
        if empty and words.without_fixtures is not None:
            specs = _without_fixtures(store, usable, reasons[words.without_fixtures])
        else:
            specs = build_tools(store, usable)
    if not specs and not any(entity.records for entity in store.entities.values()):
        return None, {}
    spec = ServiceSpec(
        name=name,
        title=words.title or name.replace("_", " ").capitalize(),
        entities=[entity.spec() for entity in store.entities.values()],
        tools=specs,
    )
    records = {f"{name}.{entity.name}": entity.records for entity in store.entities.values() if entity.records}
    return _mended(spec, warnings), records


def _usable(tools: Sequence[ToolEntry], warnings: list[Problem]) -> list[ToolEntry]:
    """The tools whose names and schemas an agent can be shown."""
    usable: list[ToolEntry] = []
    for tool in tools:
        problems = schema_problems(tool.input_schema, f"tools.{tool.name}.input_schema")
        if TOOL_NAME.fullmatch(tool.name) is None:
            problems.append(Problem("invalid_name", f"tools.{tool.name}", "no agent can call such a name"))
        warnings += problems
        if not problems:
            usable.append(tool)
    return usable


def _without_fixtures(store: Store, tools: Sequence[ToolEntry], reason: str) -> list[ToolSpec]:
    """Tools that have nothing to read from; those that only record an action still work."""
    if not store.entities:
        store.main = "entry"
        store.entities["entry"] = entity_from("entry", EntityWords(key="entry_id"), warnings=store.warnings)
    acting = [] if store.name == SANDBOX else [tool for tool in tools if is_action(store, tool)]
    built = {spec.name: spec for spec in build_tools(store, acting)}
    if not built:
        store.entities.clear()
    return [built.get(tool.name) or unavailable_tool(tool, reason) for tool in tools]


def _mended(spec: ServiceSpec, warnings: list[Problem]) -> ServiceSpec:
    """The spec, with every tool made unavailable for which no sense could be made of the fixtures."""
    problems = find_problems(spec)
    if not problems:
        return spec
    warnings += problems
    places = {problem.where for problem in problems}
    reason = vocabulary().unavailable["tool"]
    tools = [
        tool.model_copy(update={"does": UnavailableOperation(operation="unavailable", reason=reason)})
        if any(place.startswith(f"tools.{tool.name}.") for place in places)
        else tool
        for tool in spec.tools
    ]
    return spec.model_copy(update={"tools": tools})


def _load_texts(folder: Path, store: Store, entry: ServiceEntry) -> None:
    where = f"services.{store.name}"
    paths = find_fixtures(folder, store.name, _named(entry, ()), (), TEXTS)
    records = load_texts(paths, folder, where, store.warnings)
    if not records:
        store.warnings.append(Problem("missing_fixture", where, "the task has no text for it"))
    words = EntityWords(key="path", fields={"text": "string"})
    store.entities["text"] = entity_from("text", words, records, where=where, warnings=store.warnings)
    store.main = "text"


def _load_entities(folder: Path, store: Store, entry: ServiceEntry, tools: Sequence[ToolEntry]) -> None:
    noun = _noun(tools, store.vocabulary)
    known = store.words.entities or {noun: EntityWords(key=f"{noun}_id", unknown=True)}
    store.main = next(iter(known))
    for name, words in known.items():
        if words.gathered is not None:
            continue
        where = f"services.{store.name}" if name == store.main else f"services.{store.name}.{name}"
        paths = find_fixtures(folder, store.name, _named(entry, words.env), words.files, (".json",))
        if not paths:
            message = "there is no fixture; the store is empty"
            store.warnings.append(Problem("missing_fixture", where, message))
        records = load_records(paths, where, store.warnings)
        store.entities[name] = entity_from(name, words, records, where=where, warnings=store.warnings)
    for name, words in known.items():
        if words.gathered is not None:
            store.entities[name] = _gathered(name, words, words.gathered, store)


def _named(entry: ServiceEntry, variables: Sequence[str]) -> list[str]:
    """The fixture paths in a service's environment: of these variables, or of all that look like one."""
    if variables:
        return [str(entry.env[name]) for name in variables if name in entry.env]
    return [str(value) for name, value in entry.env.items() if "FIXTURE" in name.upper() or "fixtures/" in str(value)]


def _noun(tools: Sequence[ToolEntry], words: Vocabulary) -> str:
    """The entity of a service that the vocabulary does not know: the noun of its reading tools."""
    for verbs in (("list", "search"), ("get",), ("update", "delete", "transition", "create")):
        for tool in tools:
            tokens = tool.name.casefold().split("_")
            at = next((index for index, token in enumerate(tokens) if words.verb_of.get(token) in verbs), None)
            if at is not None and tokens[at + 1 :]:
                noun = singular("_".join(tokens[at + 1 :]))
                if re.fullmatch(r"[a-z][a-z0-9_]*", noun):
                    return noun
    return "record"


def _gathered(name: str, words: EntityWords, rule: GatheredWords, store: Store) -> Entity:
    """An entity with one record for each value of a field of another one."""
    source = store.entities[rule.from_]
    groups: dict[str, list[JsonObject]] = {}
    for record in source.records:
        value = record.get(rule.by)
        if isinstance(value, str) and value:
            groups.setdefault(value, []).append(record)
    records: list[JsonObject] = []
    for value, members in groups.items():
        kept: JsonObject = {}
        for key in rule.keep:
            held = list(dict.fromkeys(str(member[key]) for member in members if member.get(key) is not None))
            kept[key] = held
        records.append({words.key: value, **kept, f"{source.name}_count": len(members)})
    entity = entity_from(name, words, records, where=f"services.{store.name}.{name}", warnings=store.warnings)
    if not records:
        entity.fields |= {key: FieldSpec(type="list", sparse=True) for key in rule.keep}
    return entity
