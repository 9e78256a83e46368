"""The importer's data file, ``synth/data/claw_eval.yaml``: how names, arguments and fixtures are read."""

from __future__ import annotations

from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Literal

import yaml
from pydantic import Field

from servers.declared.spec import ConditionSpec, FieldType, ValueSpec
from servers.events import Spec

Verb = Literal["list", "search", "get", "create", "append", "update", "delete", "transition"]
Meaning = Literal[
    "query", "limit", "days_back", "at_least", "at_most", "on_day", "days", "minimum", "maximum", "ignore"
]
Cases = dict[str, list[ConditionSpec]]


class IdWords(Spec):
    """How new ids look when no record shows it."""

    prefix: str
    width: int


class GatheredWords(Spec):
    """Records that are derived from others: one for each value of a field."""

    from_: str = Field(alias="from")
    by: str
    keep: list[str] = Field(default_factory=list[str])


class EntityWords(Spec):
    """What the importer knows about an entity."""

    key: str
    unknown: bool = False
    """Made up by the importer for a service that this file does not know."""
    ids: IdWords | None = None
    also: list[str] = Field(default_factory=list[str])
    """Other nouns for it in the names of tools."""
    time: str | None = None
    """The field that time filters are about."""
    until: str | None = None
    """The field that holds the end, when ``time`` is a beginning."""
    order: list[str] = Field(default_factory=list[str])
    """Fields, a minus in front means descending."""
    detail: list[str] = Field(default_factory=list[str])
    """Not shown in lists when the task has a tool that gets single records."""
    hidden: list[str] = Field(default_factory=list[str])
    """Never shown in lists."""
    fields: dict[str, FieldType] = Field(default_factory=dict[str, FieldType])
    """Types of fields, for stores without records."""
    create: dict[str, ValueSpec] = Field(default_factory=dict[str, ValueSpec])
    filters: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    """Argument of a list to the fields it is about."""
    cases: dict[str, Cases] = Field(default_factory=dict[str, Cases])
    """Argument to values that stand for conditions; fields in them may be ``roles``."""
    roles: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    match: Literal["exact", "fold", "url"] = "fold"
    env: list[str] = Field(default_factory=list[str])
    files: list[str] = Field(default_factory=list[str])
    gathered: GatheredWords | None = None


class ToolWords(Spec):
    """What the importer knows about one tool beyond its name."""

    verb: Verb | None = None
    noun: str | None = None
    entity: str | None = None
    items: str | None = None
    """Only this list of the record is shown."""
    set: dict[str, ValueSpec] = Field(default_factory=dict[str, ValueSpec])


class ServiceWords(Spec):
    """What the importer knows about a service; the first entity is the main one."""

    title: str = ""
    entities: dict[str, EntityWords] = Field(default_factory=dict[str, EntityWords])
    tools: dict[str, ToolWords] = Field(default_factory=dict[str, ToolWords])
    unavailable: str | None = None
    """Why its tools never work here (a key of ``Vocabulary.unavailable``)."""
    without_fixtures: str | None = None
    """Why its tools do not work when the task has no fixtures for it."""
    texts: bool = False
    """Its fixtures are text files, which its tools hand out."""


class MomentWords(Spec):
    """Words in the names of fields that hold moments."""

    future: list[str]
    past: list[str]


class StampWords(Spec):
    """Fields that hold the moment of a change."""

    create: list[str]
    update: list[str]


class ClockWords(Spec):
    """Defaults of the simulated clock."""

    hour: int
    day: str
    after: int
    """Seconds between the newest moment in the records and the start."""


class PrincipalWords(Spec):
    """Who the agent works for when no mailbox shows it."""

    email: str
    name: str


class Vocabulary(Spec):
    """The whole file."""

    verbs: dict[Verb, list[str]]
    states: dict[str, str]
    actions: dict[str, str]
    arguments: dict[Meaning, list[str]]
    endings: dict[str, Literal["at_least", "at_most"]]
    """Endings of arguments that bound a moment."""
    same: list[list[str]]
    written: list[list[str]]
    loose: list[str]
    cases: dict[str, Cases]
    weights: dict[str, float]
    moments: MomentWords
    time_words: list[str]
    """Words in the description of an argument that is a time."""
    stamps: StampWords
    clock: ClockWords
    today: list[str]
    zones: dict[str, str]
    principal: PrincipalWords
    lists: list[str]
    unavailable: dict[str, str]
    sandbox: list[str]
    services: dict[str, ServiceWords]

    @cached_property
    def verb_of(self) -> dict[str, Verb]:
        """Word of a tool's name to what the tool does."""
        known: dict[str, Verb] = {word: verb for verb, words in self.verbs.items() for word in words}
        states: dict[str, Verb] = dict.fromkeys(self.states, "transition")
        return known | states

    @cached_property
    def meaning_of(self) -> dict[str, Meaning]:
        """Name of an argument of a list or search to its meaning."""
        return {name: meaning for meaning, names in self.arguments.items() for name in names}


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """The vocabulary, read once per process."""
    text = resources.files("synth").joinpath("data/claw_eval.yaml").read_text(encoding="utf-8")
    data: Any = yaml.safe_load(text)
    return Vocabulary.model_validate(data)
