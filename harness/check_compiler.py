"""From checks as data to functions that decide, for one workplace.

``compile_checks`` finds everything that is wrong with the checks of an environment before an episode does:
unknown record types, fields, tools, arguments and facts of the user, patterns that are none, facts that
cannot be read. What it gives is decided by ``harness.checks.run_checks``.

Times are compared as instants: a time in a pattern is rewritten to the form in which records show it (UTC),
so ``09:00+01:00`` and ``08:00Z`` are the same.

Not promised: that a key names a record that exists. A check may speak of a record that is yet to be made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from harness.checks import (
    Allowed,
    AskedCheck,
    CallsCheck,
    ChangesCheck,
    Check,
    CompiledChecks,
    Decide,
    FieldCheck,
    OrderCheck,
    RecordCheck,
    StatesCheck,
)
from harness.facts import Fact, Vocabulary, apart, compare, extract
from harness.outcome import Outcome
from harness.user import UserSpec
from harness.vocabulary import vocabulary_of
from servers.bindings import BindingError, lookup
from servers.errors import Problem, SpecError, suggest
from servers.events import CallPattern
from servers.image import Image
from servers.journal import JournalEntry
from servers.matching import FieldsMatcher, compile_fields, compile_match
from servers.records import RecordType, iso_utc, parse_instant

JsonObject = dict[str, Any]


def compile_checks(checks: Sequence[Check], image: Image, user: UserSpec) -> CompiledChecks:
    """Prepare checks for a workplace.

    Raises:
        SpecError: With every problem: ids twice, unknown types, fields, tools, arguments and facts, patterns
            that are none.
    """
    compiler = _Compiler(image, user)
    compiled: list[tuple[Check, Decide]] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, check in enumerate(checks):
        where = f"checks[{index}]"
        if check.id in seen:
            problems.append(Problem("duplicate_id", f"{where}.id", f"check {check.id!r} is there twice"))
        seen.add(check.id)
        try:
            compiled.append((check, compiler.compile(check, where)))
        except SpecError as error:
            problems += error.problems
    problems += _unknown_needs(checks, seen)
    if problems:
        raise SpecError(problems)
    return CompiledChecks(tuple(compiled))


def _unknown_needs(checks: Sequence[Check], known: set[str]) -> list[Problem]:
    problems: list[Problem] = []
    for number, check in enumerate(checks):
        for index, name in enumerate(check.needs):
            where = f"checks[{number}].needs[{index}]"
            if name == check.id:
                problems.append(Problem("needs_itself", where, f"check {name!r} needs itself", "Remove it."))
            elif name not in known:
                problems.append(Problem("unknown_check", where, f"no check {name!r}", suggest(name, known)))
    return problems


class _Compiler:
    def __init__(self, image: Image, user: UserSpec) -> None:
        self.types: Mapping[str, RecordType] = image.workplace.types
        self.tools = image.workplace.tools
        self.facts = [fact.id for fact in user.facts]
        self.vocabulary: Vocabulary = vocabulary_of(image)

    def compile(self, check: Check, where: str) -> Decide:
        """Give the function that decides a check."""
        match check:
            case RecordCheck():
                decide = self._record(check, where)
            case FieldCheck():
                decide = self._field(check, where)
            case ChangesCheck():
                decide = self._changes(check, where)
            case CallsCheck():
                decide = self._calls(check, where)
            case OrderCheck():
                decide = self._order(check, where)
            case StatesCheck():
                decide = self._states(check, where)
            case AskedCheck():
                decide = self._asked(check, where)
        return decide

    def _record(self, check: RecordCheck, where: str) -> Decide:
        fits = self._rows(check.type, check.where, where)

        def decide(outcome: Outcome) -> str | None:
            found = sum(fits.test(row) for row in outcome.records(check.type))
            wrong = check.count.wrong(found)
            return None if wrong is None else f"{check.type} where {check.where}: {wrong}"

        return decide

    def _field(self, check: FieldCheck, where: str) -> Decide:
        derived = self._type(check.type, where)
        unknown = _unknown_field(derived, check.field, f"{where}.field")
        if unknown is not None:
            raise SpecError([unknown])
        fits = compile_match(_normal(derived, check.field, check.is_), f"{where}.is")

        def decide(outcome: Outcome) -> str | None:
            row = next((row for row in outcome.records(check.type) if row[derived.key] == check.key), None)
            if row is None:
                return f"there is no {check.type} {check.key!r}"
            value = _value(row, check.field)
            if fits.test(value):
                return None
            return f"{check.type} {check.key!r}: {check.field} is {value!r}, expected {check.is_!r}"

        return decide

    def _changes(self, check: ChangesCheck, where: str) -> Decide:
        allowed = [self._allowed(entry, f"{where}.allow[{index}]") for index, entry in enumerate(check.allow)]

        def decide(outcome: Outcome) -> str | None:
            seats = _Seats([entry.at_most for entry in check.allow])
            for change in outcome.agent_changes:
                row = outcome.shown(change)
                fitting = [
                    index
                    for index, (entry, fits) in enumerate(allowed)
                    if entry.type == change.type
                    and change.operation in entry.operations
                    and (
                        entry.fields is None or change.operation != "updated" or set(change.fields) <= set(entry.fields)
                    )
                    and fits.test(row)
                ]
                if not seats.take(fitting):
                    what = f" ({', '.join(change.fields)})" if change.operation == "updated" else ""
                    return f"{change.operation} {change.type} {change.key!r}{what}, which was not asked for"
            return None

        return decide

    def _allowed(self, entry: Allowed, where: str) -> tuple[Allowed, FieldsMatcher]:
        derived = self._type(entry.type, where)
        named = enumerate(entry.fields or ())
        unknown = [_unknown_field(derived, name, f"{where}.fields[{index}]") for index, name in named]
        problems = [problem for problem in unknown if problem is not None]
        if problems:
            raise SpecError(problems)
        return entry, self._rows(entry.type, entry.where, where)

    def _calls(self, check: CallsCheck, where: str) -> Decide:
        fits = self._call(check.call, f"{where}.call")

        def decide(outcome: Outcome) -> str | None:
            found = sum(
                1
                for entry in outcome.journal
                if (check.ok is None or check.ok == (entry.error is None)) and fits(entry)
            )
            wrong = check.count.wrong(found)
            return None if wrong is None else f"calls of {_names(check.call)}: {wrong}"

        return decide

    def _order(self, check: OrderCheck, where: str) -> Decide:
        first = self._call(check.first, f"{where}.first")
        then = self._call(check.then, f"{where}.then")

        def decide(outcome: Outcome) -> str | None:
            for entry in outcome.journal:
                if entry.error is not None:
                    continue
                if first(entry):
                    return None
                if then(entry):
                    return f"{_names(check.then)} was called before {_names(check.first)}"
            return None

        return decide

    def _states(self, check: StatesCheck, where: str) -> Decide:
        required = self._facts(check.facts, f"{where}.facts")
        allowed = self._facts(check.allowed, f"{where}.allowed")
        groups = [self._facts(group, f"{where}.together[{index}]") for index, group in enumerate(check.together)]
        vocabulary = self.vocabulary

        # Gradings of one environment read mostly the same texts: a certificate grades dozens of variants.
        @lru_cache(maxsize=256)
        def wrong_in(text: str) -> str | None:
            stated = extract(text, vocabulary)
            report = compare(required, allowed, stated, watched=check.watch)
            loose = apart(groups, stated, text) if groups else []
            if report.exact and not loose:
                return None
            missing = [f"{fact.kind} {fact.value} is not stated" for fact in report.missing]
            wrong = [f"{fact.kind} {fact.value} is stated but wrong or surplus" for fact in report.unexpected]
            lone = [f"{fact.kind} {fact.value} is not said of {subject.value}" for subject, fact in loose]
            return "; ".join([*missing, *wrong, *lone])

        if check.type is not None:
            return self._states_in_records(check, check.type, wrong_in, where)

        def decide(outcome: Outcome) -> str | None:
            words = outcome.final_words if check.source == "final" else "\n".join(outcome.said)
            return wrong_in(words) if words else "the agent said nothing to the user"

        return decide

    def _states_in_records(
        self, check: StatesCheck, type_name: str, wrong_in: Callable[[str], str | None], where: str
    ) -> Decide:
        fits = self._rows(type_name, check.where, where)
        names = [check.field] if isinstance(check.field, str) else check.field
        derived = self._type(type_name, where)
        for index, name in enumerate(names):
            place = f"{where}.field" if isinstance(check.field, str) else f"{where}.field[{index}]"
            unknown = _unknown_field(derived, name, place)
            if unknown is not None:
                raise SpecError([unknown])

        def decide(outcome: Outcome) -> str | None:
            texts = [
                "\n".join(str(row.get(name) or "") for name in names)
                for row in outcome.records(type_name)
                if fits.test(row)
            ]
            if not texts:
                return f"there is no {type_name} where {check.where}"
            return next((wrong for text in texts if (wrong := wrong_in(text)) is not None), None)

        return decide

    def _asked(self, check: AskedCheck, where: str) -> Decide:
        if check.fact not in self.facts:
            message = f"the user knows no fact {check.fact!r}"
            raise _unknown("unknown_fact", f"{where}.fact", message, check.fact, self.facts)
        before = self._call(check.before, f"{where}.before")

        def decide(outcome: Outcome) -> str | None:
            told = next((d.after_call for d in outcome.disclosures if d.fact == check.fact), None)
            if told is None:
                return f"the user was never asked about {check.fact}"
            if any(entry.error is None and entry.seq <= told and before(entry) for entry in outcome.journal):
                return f"{_names(check.before)} was called before the user had told {check.fact}"
            return None

        return decide

    def _facts(self, texts: Sequence[str], where: str) -> list[Fact]:
        facts: list[Fact] = []
        problems: list[Problem] = []
        fix = "Write it like ORD-2041, 12 March 2026, 15:00, EUR 1,240.50, 4 hours, 20% or a full name."
        for index, text in enumerate(texts):
            found = extract(text, self.vocabulary)
            facts += found
            if len(found) != 1:
                message = f"{text!r} states {len(found)} facts, one was expected"
                problems.append(Problem("no_fact", f"{where}[{index}]", message, fix))
        if problems:
            raise SpecError(problems)
        return facts

    def _call(self, pattern: CallPattern, where: str) -> Callable[[JournalEntry], bool]:
        for name in pattern.tools:
            if name not in self.tools:
                raise _unknown("unknown_tool", f"{where}.tool", f"no tool {name!r}", name, self.tools)
        self._known_arguments(pattern, where)
        names = frozenset(pattern.tools)
        arguments = compile_fields(pattern.where, f"{where}.where")
        result = compile_fields(pattern.result, f"{where}.result")
        anyone = pattern.by == "anyone"

        def fits(entry: JournalEntry) -> bool:
            return (
                entry.tool in names
                and (anyone or entry.actor.kind == "agent")
                and arguments.test(entry.arguments)
                and result.test(entry.result or {})
            )

        return fits

    def _known_arguments(self, pattern: CallPattern, where: str) -> None:
        schemas = [self.tools[name].input_schema for name in pattern.tools]
        if any(schema.get("additionalProperties", False) is not False for schema in schemas):
            return
        known = {name for schema in schemas for name in schema.get("properties", {})}
        problems = [
            Problem("unknown_argument", f"{where}.where.{path}", message, suggest(_head(path), known))
            for path in pattern.where
            if _head(path) not in known
            for message in [f"{_names(pattern)} takes no argument {_head(path)!r}"]
        ]
        if problems:
            raise SpecError(problems)

    def _type(self, name: str, where: str) -> RecordType:
        derived = self.types.get(name)
        if derived is None:
            raise _unknown("unknown_type", f"{where}.type", f"no record type {name!r}", name, self.types)
        return derived

    def _rows(self, type_name: str, patterns: Mapping[str, Any], where: str) -> FieldsMatcher:
        derived = self._type(type_name, where)
        unknown = [_unknown_field(derived, path, f"{where}.where.{path}") for path in patterns]
        problems = [problem for problem in unknown if problem is not None]
        if problems:
            raise SpecError(problems)
        normal = {path: _normal(derived, path, pattern) for path, pattern in patterns.items()}
        return compile_fields(normal, f"{where}.where")


@dataclass(slots=True)
class _Seats:
    """Which change counts as which allowed one.

    A change that fits several entries may take any of them, and gives way to a later one that fits fewer: the
    verdict does not depend on the order in which things were done. Augmenting paths, as in H. W. Kuhn, "The
    Hungarian method for the assignment problem" (1955).
    """

    limits: Sequence[int | None]
    fitting: list[Sequence[int]] = field(default_factory=list[Sequence[int]])
    taken: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def take(self, entries: Sequence[int]) -> bool:
        """Seat one more change, which fits these entries; say whether there was room."""
        self.fitting.append(entries)
        return self._place(len(self.fitting) - 1, set())

    def _place(self, change: int, tried: set[int]) -> bool:
        for entry in self.fitting[change]:
            if entry in tried:
                continue
            tried.add(entry)
            seated = self.taken.setdefault(entry, [])
            limit = self.limits[entry]
            if limit is None or len(seated) < limit:
                seated.append(change)
                return True
            for position, other in enumerate(seated):
                if self._place(other, tried):
                    seated[position] = change
                    return True
        return False


def _names(pattern: CallPattern) -> str:
    return " or ".join(pattern.tools)


def _head(path: str) -> str:
    """The field that a path begins with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _value(row: JsonObject, path: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return lookup(row, path)
    except BindingError:
        return None  # absent reads as null, as everywhere in patterns


def _unknown_field(derived: RecordType, path: str, where: str) -> Problem | None:
    if derived.open or derived.column(_head(path)) is not None:
        return None
    known = derived.model.model_fields
    return Problem("unknown_field", where, f"{derived.name} has no field {path!r}", suggest(path, known))


def _normal(derived: RecordType, path: str, pattern: Any) -> Any:  # noqa: ANN401 - JSON
    """A pattern for a field, with times written as records show them."""
    column = derived.column(_head(path))
    return _utc(pattern) if column is not None and column.kind == "instant" else pattern


def _utc(pattern: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(pattern, str):
        try:
            return iso_utc(parse_instant(pattern))
        except ValueError:
            return pattern
    if isinstance(pattern, list):
        return [_utc(item) for item in pattern]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(pattern, dict):
        return {key: _utc(value) for key, value in pattern.items()}  # pyright: ignore[reportUnknownVariableType]
    return pattern


def _unknown(code: str, where: str, message: str, name: str, known: Iterable[str]) -> SpecError:
    return SpecError([Problem(code, where, message, suggest(name, known))])
