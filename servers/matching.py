"""Patterns over JSON values, as plain data: what event triggers and checks use to say "a call like this one".

A pattern is either a scalar, which must be equal, or an object of operators, all of which must hold::

    to: {contains: ana@acme.example}            subject: {contains_text: refund}
    amount: {min: 100, max: 500}                status: {any_of: [open, pending]}
    due: {before: "2026-03-12T15:00:00+01:00"}  parent_id: {present: false}
    attendees: {contains: {fields: {email: ana@acme.example, response: accepted}}}

=================  ====================================================================================
operator           holds when the value
=================  ====================================================================================
``equals``         is equal (any JSON value, lists in order)
``not``            does not match the pattern given
``any_of``         matches one of the patterns given
``contains``       is a text with this substring, or a list with an item that matches this pattern
``contains_all``   ``contains`` each of these
``contains_text``  is a text with this substring, upper and lower case alike
``same_items``     is a list with exactly these items, in any order
``matches``        is a text that this regular expression covers from end to end
``min``, ``max``   is a number no smaller, no greater
``after``          is a later instant (or, for a date without a time, a later local date)
``before``         is an earlier instant or date
``present``        is there and not null (``true``), or absent or null (``false``)
``fields``         is an object whose fields match these patterns
=================  ====================================================================================

Equality is that of JSON: 1 equals 1.0, true does not equal 1, texts are compared exactly. An absent field
reads as null. A value of another type than the operator works on does not match; it is never an error, since
what an agent sends may be anything.

Patterns are compiled once (``compile_match``, ``compile_fields``) into closures, because they run on every
call. References (``$name.path``) are no business of this module: resolve them first (``servers.bindings``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeAlias

from pydantic import JsonValue

from servers.bindings import BindingError, Step, parse_path
from servers.errors import Problem, SpecError, suggest
from servers.safe_regex import PatternError, compile_safe

Test: TypeAlias = Callable[[JsonValue], bool]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A compiled pattern."""

    test: Test
    """Whether a value matches; an absent value is passed as None."""


@dataclass(frozen=True, slots=True)
class FieldsMatcher:
    """Compiled patterns for fields of one object."""

    test: Callable[[Mapping[str, JsonValue]], bool]
    """Whether every named field matches."""


def compile_match(data: JsonValue, where: str) -> Matcher:
    """Compile one pattern.

    Args:
        data: A scalar, or an object of operators.
        where: Path of the pattern in its file, for error messages.

    Raises:
        SpecError: With one problem for everything that is wrong in the pattern.
    """
    return Matcher(_pattern(data, where))


def compile_fields(patterns: Mapping[str, JsonValue], where: str) -> FieldsMatcher:
    """Compile a pattern for each of some fields, named by dotted path (``thread.labels``, ``items[0].id``).

    Raises:
        SpecError: With one problem for everything that is wrong in the patterns.
    """
    return FieldsMatcher(_fields_test(patterns, where))


def canonical(value: JsonValue) -> Hashable:
    """A hashable stand-in; two JSON values are equal exactly if their stand-ins are."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(canonical(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, canonical(item)) for key, item in value.items()))
    return value


def _pattern(data: JsonValue, where: str) -> Test:
    if isinstance(data, list):
        raise _wrong(where, "a list is not a pattern", "Write equals, same_items, any_of or contains_all before it.")
    if not isinstance(data, dict):
        return _equals(data, where)
    if not data:
        raise _wrong(where, "an empty pattern matches everything", f"Use one of {', '.join(_OPERATORS)}.")
    return _all([_Part(_operator, value, f"{where}.{name}", name) for name, value in data.items()])


def _operator(data: JsonValue, where: str, name: str) -> Test:
    build = _OPERATORS.get(name)
    if build is None:
        hint = suggest(name, _OPERATORS)
        if not hint.startswith("Valid"):
            hint = f"{hint} Valid: {', '.join(_OPERATORS)}."
        raise SpecError([Problem("unknown_operator", where, f"unknown operator {name!r}", hint)])
    return build(data, where)


@dataclass(frozen=True, slots=True)
class _Part:
    """One of several patterns that must all hold, not yet compiled."""

    build: Callable[[JsonValue, str, str], Test]
    data: JsonValue
    where: str
    name: str = ""


def _all(parts: Sequence[_Part]) -> Test:
    tests = _compile_each(parts)
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) and second(value)
    return lambda value: all(test(value) for test in tests)


def _compile_each(parts: Sequence[_Part]) -> tuple[Test, ...]:
    """Compile all parts before complaining, so that one run shows every problem."""
    tests: list[Test] = []
    problems: list[Problem] = []
    for part in parts:
        try:
            tests.append(part.build(part.data, part.where, part.name))
        except SpecError as error:
            problems.extend(error.problems)
    if problems:
        raise SpecError(problems)
    return tuple(tests)


def _equals(data: JsonValue, where: str) -> Test:
    match data:
        case None | bool():
            return lambda value: value is data
        case str():
            return lambda value: value == data
        case int() | float():
            number = _number(data, where)
            return lambda value: value == number and not isinstance(value, bool)
        case list() | dict():
            expected = canonical(data)
            return lambda value: canonical(value) == expected
        case _:
            # What YAML makes of an unquoted 2026-03-12, where no model of pydantic's stood in between.
            raise _wrong(where, f"{data!r} is not a JSON value", "Put quotes around dates and times.")


def _not(data: JsonValue, where: str) -> Test:
    test = _pattern(data, where)
    return lambda value: not test(value)


def _any_of(data: JsonValue, where: str) -> Test:
    items = _list(data, where)
    tests = _compile_each([_Part(_nested, item, f"{where}[{index}]") for index, item in enumerate(items)])
    texts = frozenset(item for item in items if isinstance(item, str))
    if len(texts) == len(items):
        return lambda value: isinstance(value, str) and value in texts
    return lambda value: any(test(value) for test in tests)


def _nested(data: JsonValue, where: str, _name: str) -> Test:
    return _pattern(data, where)


def _contains(data: JsonValue, where: str) -> Test:
    item_matches = _pattern(data, where)

    def test(value: JsonValue) -> bool:
        if isinstance(value, str):
            return isinstance(data, str) and data in value
        return isinstance(value, list) and any(item_matches(item) for item in value)

    return test


def _contains_all(data: JsonValue, where: str) -> Test:
    items = _list(data, where)
    return _all([_Part(lambda item, at, _: _contains(item, at), x, f"{where}[{i}]") for i, x in enumerate(items)])


def _contains_text(data: JsonValue, where: str) -> Test:
    text = _text(data, where).casefold()
    return lambda value: isinstance(value, str) and text in value.casefold()


def _same_items(data: JsonValue, where: str) -> Test:
    if not isinstance(data, list):
        raise _wrong(where, f"expected a list of items, got {_shown(data)}")
    size, expected = len(data), Counter(canonical(item) for item in data)

    def test(value: JsonValue) -> bool:
        return isinstance(value, list) and len(value) == size and Counter(canonical(item) for item in value) == expected

    return test


def _matches(data: JsonValue, where: str) -> Test:
    try:
        pattern = compile_safe(_text(data, where))
    except PatternError as error:
        raise _wrong(where, str(error)) from None
    return lambda value: isinstance(value, str) and pattern.matches(value)


def _min(data: JsonValue, where: str) -> Test:
    bound = _number(data, where)
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= bound


def _max(data: JsonValue, where: str) -> Test:
    bound = _number(data, where)
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value <= bound


def _after(data: JsonValue, where: str) -> Test:
    return _moment(data, where, lambda value, bound: value > bound, lambda value, bound: value > bound)


def _before(data: JsonValue, where: str) -> Test:
    return _moment(data, where, lambda value, bound: value < bound, lambda value, bound: value < bound)


def _moment(
    data: JsonValue,
    where: str,
    instants: Callable[[datetime, datetime], bool],
    dates: Callable[[date, date], bool],
) -> Test:
    text = _text(data, where)
    bound = _read_moment(text)
    if bound is None or (isinstance(bound, datetime) and bound.tzinfo is None):
        raise _wrong(
            where,
            f"{text!r} is not a moment",
            "Write a date (2026-03-12) or a time with its offset (2026-03-12T15:00:00+01:00).",
        )
    if not isinstance(bound, datetime):
        day = bound

        def test_day(value: JsonValue) -> bool:
            found = _read_moment(value) if isinstance(value, str) else None
            # A time is compared by the date on its own wall clock.
            return found is not None and dates(found.date() if isinstance(found, datetime) else found, day)

        return test_day
    instant = bound

    def test_instant(value: JsonValue) -> bool:
        found = _read_moment(value) if isinstance(value, str) else None
        return isinstance(found, datetime) and found.tzinfo is not None and instants(found, instant)

    return test_instant


def _read_moment(text: str) -> datetime | date | None:
    try:
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    except ValueError:
        return None


def _present(data: JsonValue, where: str) -> Test:
    if not isinstance(data, bool):
        raise _wrong(where, f"expected true or false, got {_shown(data)}")
    return (lambda value: value is not None) if data else (lambda value: value is None)


def _fields(data: JsonValue, where: str) -> Test:
    if not isinstance(data, dict) or not data:
        raise _wrong(where, f"expected an object of field patterns, got {_shown(data)}")
    test = _fields_test(data, where)
    return lambda value: isinstance(value, dict) and test(value)


def _fields_test(patterns: Mapping[str, JsonValue], where: str) -> Callable[[Mapping[str, JsonValue]], bool]:
    tests = _compile_each([_Part(_field, data, f"{where}.{path}", path) for path, data in patterns.items()])
    getters = [_getter(path, f"{where}.{path}") for path in patterns]
    pairs = tuple(zip(getters, tests, strict=True))

    if len(pairs) == 1:
        get, matches = pairs[0]
        return lambda value: matches(get(value))
    return lambda value: all(matches(get(value)) for get, matches in pairs)


def _field(data: JsonValue, where: str, path: str) -> Test:
    _getter(path, where)
    return _pattern(data, where)


def _getter(path: str, where: str) -> Callable[[Mapping[str, JsonValue]], JsonValue]:
    try:
        steps = parse_path(path)
    except BindingError as error:
        raise _wrong(where, str(error)) from None
    first, rest = steps[0], steps[1:]
    if not isinstance(first, str):
        raise _wrong(where, f"{path!r} starts with a list position", "Start with the name of a field.")
    if not rest:
        return lambda value: value.get(first)
    return lambda value: _walk(value.get(first), rest)


def _walk(value: JsonValue, steps: tuple[Step, ...]) -> JsonValue:
    """Like ``bindings.follow``, except that what is absent reads as null."""
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _list(data: JsonValue, where: str) -> list[JsonValue]:
    if not isinstance(data, list) or not data:
        raise _wrong(where, f"expected a list with at least one item, got {_shown(data)}")
    return data


def _text(data: JsonValue, where: str) -> str:
    if not isinstance(data, str) or not data:
        raise _wrong(where, f"expected a text, got {_shown(data)}")
    return data


def _number(data: JsonValue, where: str) -> int | float:
    if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
        raise _wrong(where, f"expected a number, got {_shown(data)}")
    return data


def _shown(data: JsonValue) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wrong(where: str, message: str, fix: str | None = None) -> SpecError:
    return SpecError([Problem("bad_pattern", where, message, fix)])


_OPERATORS: Mapping[str, Callable[[JsonValue, str], Test]] = {
    "equals": _equals,
    "not": _not,
    "any_of": _any_of,
    "contains": _contains,
    "contains_all": _contains_all,
    "contains_text": _contains_text,
    "same_items": _same_items,
    "matches": _matches,
    "min": _min,
    "max": _max,
    "after": _after,
    "before": _before,
    "present": _present,
    "fields": _fields,
}
