"""A service while the importer works on it, and what a tool's name and schema say at first sight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from servers.declared.spec import LimitSpec
from servers.errors import Problem
from synth.importers.claw_eval.entities import Entity, JsonObject
from synth.importers.claw_eval.files import ToolEntry
from synth.importers.claw_eval.vocabulary import ServiceWords, ToolWords, Verb, Vocabulary


@dataclass(slots=True)
class Store:
    """A service while the importer works on it."""

    name: str
    words: ServiceWords
    vocabulary: Vocabulary
    entities: dict[str, Entity] = field(default_factory=dict[str, Entity])
    main: str = ""
    gets: set[str] = field(default_factory=set[str])
    """Entities that have a tool for single records."""
    actions: set[str] = field(default_factory=set[str])
    """Entities that only record what was done."""
    warnings: list[Problem] = field(default_factory=list[Problem])


@dataclass(frozen=True, slots=True)
class Plan:
    """What a tool's name says."""

    verb: Verb
    entity: str
    state: str | None
    """The new status, for transitions."""
    words: ToolWords


def properties(entry: ToolEntry) -> dict[str, JsonObject]:
    """The arguments of a tool and their schemas."""
    found = entry.input_schema.get("properties")
    return cast("dict[str, JsonObject]", found) if isinstance(found, dict) else {}


def required(entry: ToolEntry) -> list[str]:
    """The arguments that a call must give."""
    found = entry.input_schema.get("required")
    return [str(name) for name in cast("list[object]", found)] if isinstance(found, list) else []


def limit_of(argument: str | None, schema: JsonObject) -> LimitSpec:
    """The limit that an argument sets."""
    value = schema.get("default")
    default = value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 20
    return LimitSpec(argument=argument, default=default, most=max(100, default))
