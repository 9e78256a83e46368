"""Entities from fixtures: what fields records have, of which types, and how their ids look.

Fixtures are loose, so types are taken from all records together, and a field whose values disagree holds
anything. Every entity is open: keys that cannot be declared are kept as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from servers.declared.records import is_reserved
from servers.declared.spec import EntitySpec, FieldSpec, FieldType
from servers.declared.times import read_moment
from servers.errors import Problem
from synth.importers.claw_eval.vocabulary import EntityWords, IdWords, Vocabulary, vocabulary

JsonObject = dict[str, Any]
FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
ID = re.compile(r"(.*?)(\d{1,15})")
LONG = 300
"""Characters of a text that is no matter for a list."""
_KINDS: dict[type, FieldType] = {str: "string", bool: "boolean", int: "integer", list: "list", dict: "object"}
_SCHEMA_TYPES: dict[str, FieldType] = {
    "string": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "array": "list",
    "object": "object",
}


@dataclass(slots=True)
class Entity:
    """An entity while the importer works on it."""

    name: str
    key: str
    words: EntityWords
    records: list[JsonObject] = field(default_factory=list[JsonObject])
    fields: dict[str, FieldSpec] = field(default_factory=dict[str, FieldSpec])
    ids: IdWords | None = None
    ends: tuple[str, str] | None = None
    """Fields that are beginning and end."""

    @property
    def seen(self) -> set[str]:
        """Fields that some record has."""
        return {name for record in self.records for name in record}

    def exact(self, name: str) -> str | None:
        """The field of this name, singular or plural."""
        for option in (name, f"{name}s", name.removesuffix("s"), singular(name)):
            if option in self.fields:
                return option
        return None

    def meant(self, name: str, groups: Sequence[Sequence[str]]) -> list[str]:
        """The fields that an argument means: those of its name, or else all those of the same meaning."""
        exact = self.exact(name)
        if exact is not None:
            return [exact]
        alike = [other for group in groups if name in group for other in group if other in self.fields]
        return list(dict.fromkeys(alike))

    def need(self, name: str, kind: FieldType, *, ref: str | None = None, moment: bool = False) -> str | None:
        """Make sure that a field can hold values of a type; None when no field can have such a name."""
        if not is_field_name(name):
            return None
        # Columns of a table do not differ in case.
        name = next((other for other in self.fields if other.casefold() == name.casefold()), name)
        known = self.fields.get(name)
        if known is None:
            form = "time" if moment and kind == "string" else None
            self.fields[name] = FieldSpec(type=kind, sparse=True, ref=ref, format=form)
        elif known.type != kind and not (known.type == "number" and kind == "integer"):
            self.fields[name] = FieldSpec(type="any", sparse=known.sparse, format=known.format)
        return name

    def texts(self) -> list[str]:
        """The fields that hold text."""
        return [name for name, spec in self.fields.items() if spec.type in {"string", "any"} and spec.format is None]

    def spec(self) -> EntitySpec:
        """The finished entity."""
        ids = self.ids or self.words.ids or IdWords(prefix=f"{self.name}_", width=3)
        span = self.ends if self.ends is not None and all(name in self.fields for name in self.ends) else None
        return EntitySpec(
            name=self.name,
            key=self.key,
            fields=self.fields,
            open=True,
            id_prefix=ids.prefix,
            id_width=ids.width,
            span=span,
        )


def schema_type(schema: JsonObject) -> FieldType:
    """The field type for values of an argument."""
    kind = schema.get("type")
    return _SCHEMA_TYPES.get(kind, "any") if isinstance(kind, str) else "any"


def singular(noun: str) -> str:
    """The singular of an English noun, roughly."""
    if noun.endswith("ies") and len(noun) > 4:
        return noun[:-3] + "y"
    if noun.endswith(("sses", "xes", "ches", "shes")):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith(("ss", "us", "is")) else noun


def plural(noun: str) -> str:
    """The plural of an English noun, roughly."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def is_field_name(name: str) -> bool:
    """Whether a field can be declared under this name."""
    return FIELD_NAME.fullmatch(name) is not None and not is_reserved(name)


def _differs_in_case(name: str, fields: dict[str, FieldSpec]) -> bool:
    return name.casefold() in {other.casefold() for other in fields}


def entity_from(
    name: str,
    words: EntityWords,
    records: Sequence[JsonObject] = (),
    *,
    where: str = "",
    warnings: list[Problem],
) -> Entity:
    """Make an entity of a store's records, which may be none.

    Keys that are missing, no texts or there twice are mended, and said so.
    """
    key = _key(words, records)
    entity = Entity(name, key, words, _keyed(records, key, name, where, warnings))
    names = dict.fromkeys(name for record in entity.records for name in record)
    for field_name in names:
        if field_name != key and is_field_name(field_name) and not _differs_in_case(field_name, entity.fields):
            entity.fields[field_name] = _field(field_name, entity.records, vocabulary())
    entity.fields.pop(key, None)
    if not entity.records:
        for field_name, kind in words.fields.items():
            entity.need(field_name, kind, moment=field_name in {words.time, words.until})
    entity.ids = _ids([str(record[key]) for record in entity.records])
    if words.time is not None and words.until is not None:
        entity.ends = _ends(entity, words.time, words.until)
    return entity


def _key(words: EntityWords, records: Sequence[JsonObject]) -> str:
    if not records or any(words.key in record for record in records):
        return words.key
    named = [key for key in records[0] if key == "id" or key.endswith("_id")]
    candidates = [key for key in named if is_field_name(key) and _is_unique(key, records)]
    return candidates[0] if candidates else words.key


def _is_unique(key: str, records: Sequence[JsonObject]) -> bool:
    values = [str(record.get(key)) for record in records]
    return len(set(values)) == len(values) and all(record.get(key) for record in records)


def _keyed(records: Sequence[JsonObject], key: str, name: str, where: str, warnings: list[Problem]) -> list[JsonObject]:
    taken: set[str] = set()
    result: list[JsonObject] = []
    numbered = not any(key in record for record in records)
    for number, record in enumerate(records, start=1):
        value = record.get(key)
        text = str(value) if isinstance(value, str | int) and str(value) else f"{name}-{number}"
        if not numbered and (not isinstance(value, str) or not value):
            warnings.append(Problem("odd_key", f"{where}[{number - 1}].{key}", f"expected an id, read as {text!r}"))
        copy = 2
        unique = text
        while unique in taken:
            unique, copy = f"{text}-{copy}", copy + 1
        if unique != text:
            warnings.append(
                Problem(
                    "duplicate_id",
                    f"{where}[{number - 1}].{key}",
                    f"{text!r} is there twice, read as {unique!r}",
                )
            )
        taken.add(unique)
        result.append({key: unique, **{field: value for field, value in record.items() if field != key}})
    return result


def _field(name: str, records: Sequence[JsonObject], words: Vocabulary) -> FieldSpec:
    values: list[object] = [record[name] for record in records if record.get(name) is not None]
    kinds: set[type] = {type(value) for value in values}
    kind: FieldType = "any"
    if len(kinds) == 1:
        kind = _KINDS.get(next(iter(kinds)), "number")
    elif kinds and kinds <= {int, float}:
        kind = "number"
    parts = set(name.split("_"))
    about_time = bool(parts & {*words.moments.future, *words.moments.past}) and kind == "string"
    readable = about_time and all(read_moment(value, "UTC") is not None for value in values)
    return FieldSpec(
        type=kind, sparse=any(name not in record for record in records), format="time" if readable else None
    )


def _ids(keys: Sequence[str]) -> IdWords | None:
    found = [match for key in keys if (match := ID.fullmatch(key)) is not None]
    if not found:
        return None
    prefix = Counter(match[1] for match in found).most_common(1)[0][0]
    digits = [match[2] for match in found if match[1] == prefix]
    padded = any(number.startswith("0") for number in digits)
    return IdWords(prefix=prefix, width=max(len(number) for number in digits) if padded else 0)


def _ends(entity: Entity, begin: str, end: str) -> tuple[str, str] | None:
    for record in entity.records:
        first, last = read_moment(record.get(begin), "UTC"), read_moment(record.get(end), "UTC")
        if first is None or last is None or last.seconds < first.seconds:
            return None
    return begin, end


def long_fields(entity: Entity) -> list[str]:
    """Fields that are no matter for a list: long texts and lists of objects."""
    found: list[str] = []
    for name in entity.fields:
        values: list[object] = [record.get(name) for record in entity.records]
        if any(_is_long(value) for value in values):
            found.append(name)
    return found


def _is_long(value: object) -> bool:
    if isinstance(value, str):
        return len(value) > LONG
    return isinstance(value, list) and any(isinstance(item, dict) for item in cast("list[object]", value))
