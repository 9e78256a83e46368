"""References inside plain data: ``$name.path`` and ``${name.path}`` replaced by values that are known later.

Oracle programs, events and checks are data, yet the third step of a program needs the id that the second one
returned. They name it: ``{"draft_id": "$draft.draft_id"}``. This module holds

- ``lookup``: one dotted path inside one JSON value (``items[0].id``);
- ``resolve``: every reference inside a JSON value, replaced by what it stands for;
- ``references``: the references that a JSON value makes, without resolving them.

It is a lookup and nothing more: no expressions, no defaults, no filters. A reference that does not resolve is
a ``BindingError``; it never turns into an empty string.

Grammar::

    path       =  key { "." key | "[" integer "]" }       # [-1] counts from the end
    "$path"    the whole string is the reference: the value keeps its type
    "${path}"  the same, and also allowed inside a longer string: the value is written into the text
    "$$"       before a letter or a brace: a literal "$"

A string such as ``"$5.00"`` or ``"$cost per seat"`` is ordinary text: a whole-string reference starts with a
letter and holds no white space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from pydantic import JsonValue

from servers.errors import CoworkEnvError

Step: TypeAlias = str | int
"""One step of a path: a key of an object or an index of a list."""

_STEP = re.compile(r"(?:^|\.)(?P<key>[^\s.\[\]{}$]+)|\[(?P<index>-?\d{1,9})\]")
_WHOLE = re.compile(r"\$(?P<path>[A-Za-z_][^\s${}]*)|\$\{(?P<braced>[^${}]*)\}")
_INSIDE = re.compile(r"\$\$(?=[A-Za-z_{])|\$\{(?P<path>[^${}]*)\}")
_SHOWN = 12


class BindingError(CoworkEnvError):
    """A reference that cannot be read or does not resolve.

    Attributes:
        reference: The reference as it was written, for example ``$draft.draft_id``.
    """

    def __init__(self, reference: str, problem: str) -> None:
        super().__init__(f"{reference}: {problem}")
        self.reference = reference


def parse_path(path: str) -> tuple[Step, ...]:
    """Split ``a.b[0].c`` into ``("a", "b", 0, "c")``.

    Raises:
        BindingError: If the text is not a path.
    """
    steps: list[Step] = []
    position = 0
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            break
        key = found["key"]
        steps.append(int(found["index"]) if key is None else key)
        position = found.end()
    if not steps or position < len(path) or path.startswith("."):
        raise BindingError(
            path or "(empty path)",
            f"not a path (trouble at character {position + 1}); write keys joined by dots and list "
            "positions in brackets, such as items[0].id",
        )
    return tuple(steps)


def lookup(value: JsonValue, path: str) -> JsonValue:
    """What lies at ``path`` inside ``value``.

    Raises:
        BindingError: If the path is malformed, or leads nowhere; the message lists what does exist there.
    """
    return follow(value, parse_path(path), path)


def follow(value: JsonValue, steps: Sequence[Step], reference: str) -> JsonValue:
    """Walk parsed ``steps`` into ``value``; ``reference`` names the path in the error.

    Raises:
        BindingError: At the first step that leads nowhere.
    """
    for index, step in enumerate(steps):
        value = _descend(value, step, steps[:index], reference)
    return value


def _descend(value: JsonValue, step: Step, before: Sequence[Step], reference: str) -> JsonValue:
    if isinstance(value, dict) and isinstance(step, str):
        if step in value:
            return value[step]
        problem = f"no field {step!r} {_where(before)}; it has {_names(value)}"
    elif isinstance(value, list) and isinstance(step, int):
        if -len(value) <= step < len(value):
            return value[step]
        problem = f"no item [{step}] {_where(before)}; the list holds {len(value)}"
    elif isinstance(value, list):
        problem = f"a list {_where(before)} has no field {step!r}; pick an item first, such as [0]"
    else:
        wanted = f"item [{step}]" if isinstance(step, int) else f"field {step!r}"
        problem = f"no {wanted} {_where(before)}: the value there is {_kind(value)}"
    raise BindingError(reference, problem)


def resolve(value: JsonValue, bindings: Mapping[str, JsonValue]) -> JsonValue:
    """``value`` with every reference replaced; the argument itself is left as it was.

    References are read in strings at any depth, not in the keys of objects. A value that a reference brings
    in is not searched for further references: what an agent or a coworker wrote can never be read as one.

    Args:
        value: Any JSON value.
        bindings: What each name stands for.

    Raises:
        BindingError: For a malformed reference, an unknown name or path, or a list, an object or null in the
            middle of a longer string.
    """
    if isinstance(value, str):
        return _resolve_text(value, bindings) if "$" in value else value
    if isinstance(value, list):
        return [resolve(item, bindings) for item in value]
    if isinstance(value, dict):
        return {key: resolve(item, bindings) for key, item in value.items()}
    return value


def references(value: JsonValue) -> tuple[str, ...]:
    """The paths that ``value`` refers to, in the order of appearance, repeats included.

    Raises:
        BindingError: For a malformed reference.
    """
    return tuple(_references(value))


def _references(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        paths = [_whole(value)] if _whole(value) is not None else [m["path"] for m in _INSIDE.finditer(value)]
        for path in paths:
            if path is not None:
                parse_path(path)
                yield path
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _references(item)


def _whole(text: str) -> str | None:
    """The path, where the whole string is one reference."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    return found["braced"] if found["path"] is None else found["path"]


def _resolve_text(text: str, bindings: Mapping[str, JsonValue]) -> JsonValue:
    whole = _whole(text)
    if whole is not None:
        return _bound(whole, text, bindings)

    def write(found: re.Match[str]) -> str:
        path = found["path"]
        return "$" if path is None else _as_text(_bound(path, found[0], bindings), found[0])

    return _INSIDE.sub(write, text)


def _bound(path: str, reference: str, bindings: Mapping[str, JsonValue]) -> JsonValue:
    try:
        name, *steps = parse_path(path)
    except BindingError as error:
        raise BindingError(reference, str(error)) from None
    if not isinstance(name, str) or name not in bindings:
        raise BindingError(reference, f"unknown name {name!r}; bound here: {_names(bindings)}")
    return follow(bindings[name], steps, reference)


def _as_text(value: JsonValue, reference: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise BindingError(reference, f"{_kind(value)} cannot be written into a text; name one of its fields or items")


def _where(steps: Sequence[Step]) -> str:
    if not steps:
        return "at the top"
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return f"in {text.removeprefix('.')!r}"


def _names(mapping: Mapping[str, JsonValue]) -> str:
    names = [str(name) for name in mapping]
    shown = ", ".join(names[:_SHOWN])
    return (f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown) or "nothing"


def _kind(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return json.dumps(value) if len(json.dumps(value)) <= 40 else f"a {type(value).__name__}"
