"""Arguments of declared tools: a JSON schema, compiled once, becomes a parser with messages that help.

Stricter than JSON Schema in one point: an argument that the schema does not name is refused unless the schema
allows it with ``additionalProperties``. A model that calls ``list_messages(folder="x")`` is helped by an
error, not by silence. Milder in another: null for an optional argument counts as left out. Defaults of the
schema are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

import jsonschema.validators
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from servers.errors import Problem, ToolError
from servers.safe_regex import PatternError, compile_safe
from servers.tools import JsonObject, describe_arguments

_UNSUPPORTED = {
    "$ref": "Write the schema in place.",
    "$dynamicRef": "Write the schema in place.",
    "patternProperties": "Name the properties.",
}
MAX_PATTERN_TEXT = 200
"""Characters of a text that a ``pattern`` is tried on; ``servers.safe_regex`` bounds what that costs."""
Parse = Callable[[Mapping[str, Any]], JsonObject]


def schema_problems(schema: JsonObject, where: str) -> list[Problem]:
    """Find what the engine could not run or show: an invalid schema, references, patterns that run away."""
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        return [Problem("invalid_schema", where + path, error.message[:200])]
    if schema.get("type") != "object":
        return [Problem("invalid_schema", f"{where}.type", "the schema of a tool's arguments has the type 'object'")]
    return list(_unusable(schema, where))


def _unusable(node: object, where: str, *, names: bool = False) -> Iterator[Problem]:
    """``names``: the keys of ``node`` are names that the author chose, not keywords."""
    if isinstance(node, list):
        for index, item in enumerate(cast("list[object]", node)):
            yield from _unusable(item, f"{where}[{index}]")
    if not isinstance(node, dict):
        return
    schema = cast("dict[str, object]", node)
    if not names:
        yield from _keyword_problems(schema, where)
    for key, value in schema.items():
        here = f"{where}.{key}"
        if (names or key == "items") and not _is_object(value):
            yield Problem("invalid_schema", here, "expected an object, such as {type: string}")
        if names or key not in {"enum", "const", "default", "examples"}:
            yield from _unusable(value, here, names=not names and key in {"properties", "$defs"})


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _keyword_problems(schema: Mapping[str, object], where: str) -> Iterator[Problem]:
    for key, fix in _UNSUPPORTED.items():
        if key in schema:
            yield Problem("invalid_schema", f"{where}.{key}", f"{key} is not supported", fix)
    if "pattern" in schema:
        try:
            compile_safe(str(schema["pattern"]))
        except PatternError as error:
            yield Problem("unsafe_pattern", f"{where}.pattern", str(error))


def _pattern(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[ValidationError]:  # noqa: ANN401
    if not isinstance(instance, str):
        return
    if len(instance) > MAX_PATTERN_TEXT or compile_safe(pattern).pattern.search(instance) is None:
        yield ValidationError(f"does not fit the pattern {pattern}")


@lru_cache(maxsize=1)
def _validator_class() -> Any:  # noqa: ANN401 - jsonschema makes classes at run time
    library: Any = jsonschema.validators
    return library.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})


def argument_parser(tool: str, schema: JsonObject) -> Parse:
    """Compile the schema of a tool's arguments; the parser raises ToolError."""
    # An empty registry: nothing is ever fetched, whatever a schema says.
    registry: Registry[Any] = Registry()
    validator = _validator_class()(schema, registry=registry)
    properties: dict[str, JsonObject] = schema.get("properties", {})
    required = frozenset(cast("list[str]", schema.get("required", [])))
    is_open = schema.get("additionalProperties", False) is not False
    defaults = {name: value["default"] for name, value in properties.items() if value.get("default") is not None}

    def parse(arguments: Mapping[str, Any]) -> JsonObject:
        given = {name: value for name, value in arguments.items() if value is not None or name in required}
        found: list[str] = []
        if not is_open and not given.keys() <= properties.keys():
            found = [f"{name} is not an argument of this tool" for name in given if name not in properties]
            given = {name: value for name, value in given.items() if name in properties}
        found += [_words(error) for error in validator.iter_errors(given)]
        if found:
            raise ToolError(f"{tool}: {'; '.join(found)}. {describe_arguments(schema)}")
        return {**defaults, **given} if defaults else given

    return parse


def _words(error: Any) -> str:  # noqa: ANN401 - jsonschema has no types for the rest of an error
    where = ".".join(str(part) for part in error.absolute_path) or "arguments"
    expected = error.validator_value
    got = f"(got {error.instance!r:.60})"
    if error.validator == "required":
        missing = [name for name in expected if name not in error.instance]
        below = "" if where == "arguments" else f"{where}."
        # One error per missing name; the library says which only in its message.
        named = next((name for name in missing if error.message.startswith(repr(name))), missing[0])
        return f"{below}{named} is required"
    if error.validator == "type":
        kinds = [expected] if isinstance(expected, str) else expected
        return f"{where} must be of type {' or '.join(kinds)} {got}"
    if error.validator in {"enum", "const"}:
        options = expected if error.validator == "enum" else [expected]
        return f"{where} must be one of {', '.join(str(option) for option in options)} {got}"
    return f"{where}: {error.message:.200} {got}"
