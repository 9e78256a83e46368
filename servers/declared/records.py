"""Entities become record types: a ``Record`` class is made from each ``EntitySpec``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model

from servers.declared.spec import EntitySpec, FieldSpec
from servers.errors import Problem, SpecError
from servers.records import EXTRA, Instant, Record, Ref

LARGEST = 2**63 - 1
"""SQLite's integers have 64 bits."""
_TYPES: dict[str, Any] = {
    "string": str,
    "number": int | float,
    "integer": Annotated[int, Field(ge=-LARGEST - 1, le=LARGEST)],
    "boolean": bool,
    "instant": Instant,
    "list": list[Any],
    "object": dict[str, Any],
    "any": Any,
}


class OpenRecord(Record):
    """Base of entities that keep undeclared keys."""

    model_config = ConfigDict(extra="allow")


class StrictRecord(Record):
    """Base of entities that refuse undeclared keys."""


def is_reserved(name: str) -> bool:
    """Whether a field cannot have this name, because records use it themselves."""
    return name in {"record", "self", EXTRA} or name.startswith("model_") or hasattr(Record, name)


def type_name(service: str, entity: str) -> str:
    """The full name of an entity's record type."""
    return f"{service}.{entity}"


def ref_target(service: str, ref: str) -> str:
    """The full record type of a field's ``ref``."""
    return ref if "." in ref else type_name(service, ref)


def entity_model(service: str, entity: EntitySpec, where: str) -> type[Record]:
    """Make the record class of an entity.

    Raises:
        SpecError: A default that its own field does not accept.
    """
    definitions: dict[str, Any] = {entity.key: (str, Field(min_length=1))}
    problems: list[Problem] = []
    for name, field in entity.fields.items():
        if name == entity.key:
            continue
        annotation = _annotation(service, entity, name, field)
        default = _default(entity, name, field)
        if default is not None:
            try:
                TypeAdapter(annotation).validate_python(default)
            except ValidationError as error:
                message = error.errors(include_url=False)[0]["msg"]
                problems.append(Problem("wrong_default", f"{where}.fields.{name}.default", message))
        if field.required:
            definitions[name] = (annotation, ...)
        elif default is not None:
            definitions[name] = (annotation, Field(default=default, validate_default=True))
        else:
            definitions[name] = (annotation if annotation is Any else annotation | None, None)
    if problems:
        raise SpecError(problems)
    base = OpenRecord if entity.open else StrictRecord
    words = [word.capitalize() for word in (*service.split("_"), *entity.name.split("_"))]
    model: type[Record] = create_model("".join(words), __base__=base, __module__=__name__, **definitions)
    model.type_name = type_name(service, entity.name)
    model.key = entity.key
    return model


def _annotation(service: str, entity: EntitySpec, name: str, field: FieldSpec) -> Any:  # noqa: ANN401 - a type
    kind = _TYPES[field.type]
    options = field.enum
    if entity.lifecycle is not None and entity.lifecycle.field == name:
        options = list(entity.lifecycle.states)
    if options is not None:
        kind = Literal[tuple(options)]
    if field.ref is None:
        return kind
    target = Ref(ref_target(service, field.ref))
    return list[Annotated[str, target]] if field.type == "list" else Annotated[kind, target]


def _default(entity: EntitySpec, name: str, field: FieldSpec) -> Any:  # noqa: ANN401 - any JSON value
    if entity.lifecycle is not None and entity.lifecycle.field == name:
        return entity.lifecycle.initial
    return field.default
