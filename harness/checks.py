"""The check vocabulary: what must hold at the end of an episode, as data.

===========  =====================================================================================================
kind         holds when
===========  =====================================================================================================
``record``   the number of records that fit a pattern is right (at least one, by default)
``field``    one record's field fits a pattern
``changes``  everything the agent changed is on a list; a closed world, so collateral damage needs no check of its own
``calls``    the number of calls that fit a pattern is right; ``max: 0`` is "never"
``order``    every call of one kind comes after a call of another kind
``states``   a text states the required facts and no wrong ones: ids, amounts, dates, names, compared as values, not as substrings
``asked``    the user had told a fact before the agent did something
===========  =====================================================================================================

A check is a *goal* (its weight counts towards the score) or a *guard* (``guard: true``: it never adds, it only gates). Its verdict is
PASS, FAIL or ERROR; a check that cannot decide is an ERROR and voids the episode. ``compile_checks`` finds every wrong name
before an episode does; ``run_checks`` decides on an ``Outcome`` in well under a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from harness.errors import EpisodeFault, blame
from harness.facts import Fact, FactKind, Vocabulary, compare, extract
from harness.vocabulary import vocabulary_of
from harness.outcome import Outcome
from harness.user import UserSpec
from servers.errors import Problem, SpecError, suggest
from servers.events import CallPattern, Spec
from servers.image import Image
from servers.journal import JournalEntry
from servers.matching import FieldsMatcher, compile_fields
from servers.records import RecordType, iso_utc, parse_instant

Verdict = Literal["PASS", "FAIL", "ERROR"]
JsonObject = dict[str, Any]
Decide = Callable[[Outcome], str | None]
"""Gives None when the check holds, otherwise what is wrong in words."""


class Count(Spec):
    """How many: exactly, or between ``min`` and ``max``."""

    exactly: int | None = Field(default=None, ge=0)
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _some_bound(self) -> Count:
        if self.exactly is None and self.min is None and self.max is None:
            raise ValueError("expected exactly, min or max")
        if self.exactly is not None and (self.min is not None or self.max is not None):
            raise ValueError("exactly excludes min and max")
        return self

    def wrong(self, number: int) -> str | None:
        """Say what was expected when ``number`` does not fit."""
        if self.exactly is not None:
            return None if number == self.exactly else f"{number} found, exactly {self.exactly} expected"
        if self.min is not None and number < self.min:
            return f"{number} found, at least {self.min} expected"
        if self.max is not None and number > self.max:
            return f"{number} found, at most {self.max} expected"
        return None


class CheckBase(Spec):
    """What all checks have."""

    id: str = Field(min_length=1)
    about: str = ""
    """What must hold, for people."""
    guard: bool = False
    """Gates the score instead of adding to it."""
    dimension: Literal["completion", "communication"] = "completion"
    """The part of the score vector that a goal counts towards."""
    weight: float = Field(default=1.0, gt=0)
    needs: list[str] = Field(default_factory=list[str])
    """Ids of checks without which this one counts for nothing: a report of work that was not done is worth nothing."""


class RecordCheck(CheckBase):
    """The number of records that fit a pattern is right."""

    kind: Literal["record"]
    type: str
    where: dict[str, Any] = Field(default_factory=dict[str, Any])
    count: Count = Count(min=1)


class FieldCheck(CheckBase):
    """One record's field fits a pattern."""

    kind: Literal["field"]
    type: str
    key: str
    field: str
    is_: Any = Field(alias="is")


class Allowed(Spec):
    """Changes that the agent may make."""

    type: str
    operations: list[Literal["created", "updated", "deleted"]] = Field(
        default_factory=lambda: ["created", "updated", "deleted"]
    )
    where: dict[str, Any] = Field(default_factory=dict[str, Any])
    fields: list[str] | None = None
    """For updates: the only fields that may differ."""
    at_most: int | None = Field(default=None, ge=0)
    """How many such changes."""


class ChangesCheck(CheckBase):
    """Everything the agent changed is on the list."""

    kind: Literal["changes"]
    guard: bool = True
    allow: list[Allowed] = Field(default_factory=list[Allowed])


class CallsCheck(CheckBase):
    """The number of calls that fit a pattern is right."""

    kind: Literal["calls"]
    call: CallPattern
    ok: bool | None = True
    """Only calls that succeeded (true), were refused (false), or all (null)."""
    count: Count


class OrderCheck(CheckBase):
    """Every ``then`` call comes after some ``first`` call; both are calls that succeeded."""

    kind: Literal["order"]
    first: CallPattern
    then: CallPattern


class StatesCheck(CheckBase):
    """A text states facts.

    The text is what the agent said to the user (``source: final`` for the last message, ``user`` for all of them), or a field
    of every record that fits (``source: record``). All required facts must be in it; of the kinds in ``watch``, no other
    facts than the required and the allowed may be.
    """

    kind: Literal["states"]
    dimension: Literal["completion", "communication"] = "communication"
    source: Literal["final", "user", "record"] = "final"
    type: str | None = None
    where: dict[str, Any] = Field(default_factory=dict[str, Any])
    field: str | list[str] = "body"
    """The field that holds the text; several are read one after the other."""
    facts: list[str] = Field(default_factory=list[str])
    """Each in words that state exactly one fact: ``ORD-2041``, ``12 March 2026``, ``EUR 1,240.50``, ``Dana Fox``."""
    allowed: list[str] = Field(default_factory=list[str])
    watch: list[FactKind] = Field(default_factory=list[FactKind])
    """Kinds of facts of which none may be wrong or surplus."""

    @model_validator(mode="after")
    def _record_has_type(self) -> StatesCheck:
        if (self.source == "record") != (self.type is not None):
            raise ValueError("type goes with source: record")
        return self


class AskedCheck(CheckBase):
    """The user had told ``fact`` before the first call that fits ``before``."""

    kind: Literal["asked"]
    fact: str
    before: CallPattern


Check = Annotated[
    RecordCheck | FieldCheck | ChangesCheck | CallsCheck | OrderCheck | StatesCheck | AskedCheck,
    Field(discriminator="kind"),
]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check decided."""

    check: CheckBase
    verdict: Verdict
    detail: str
    """Empty for PASS; otherwise what is wrong."""


@dataclass(frozen=True, slots=True)
class CompiledChecks:
    """Checks with their patterns compiled."""

    checks: tuple[tuple[CheckBase, Decide], ...]


def run_checks(compiled: CompiledChecks, outcome: Outcome) -> list[CheckResult]:
    """Decide every check; what breaks while deciding is an ERROR of that check."""
    results: dict[str, CheckResult] = {}
    for check, decide in compiled.checks:
        try:
            with blame("invalid", "grader"):
                wrong = decide(outcome)
        except EpisodeFault as fault:
            results[check.id] = CheckResult(check, "ERROR", fault.message)
        else:
            results[check.id] = CheckResult(check, "PASS" if wrong is None else "FAIL", wrong or "")
    decided = dict(results)
    for check, _ in compiled.checks:
        without = [name for name in check.needs if decided[name].verdict != "PASS"]
        if without and decided[check.id].verdict == "PASS":
            results[check.id] = CheckResult(check, "FAIL", f"counts only together with {', '.join(without)}")
    return list(results.values())


def compile_checks(checks: Sequence[Check], image: Image, user: UserSpec) -> CompiledChecks:
    """Prepare checks for a workplace.

    Raises:
        SpecError: With every problem: ids twice, unknown types, fields, tools and facts, patterns that are none.
    """
    compiler = _Compiler(image, user)
    compiled: list[tuple[CheckBase, Decide]] = []
    seen: set[str] = set()
    for index, check in enumerate(checks):
        where = f"checks[{index}]"
        if check.id in seen:
            compiler.problems.append(Problem("duplicate_id", f"{where}.id", f"check {check.id!r} is there twice"))
        seen.add(check.id)
        try:
            compiled.append((check, compiler.compile(check, where)))
        except SpecError as error:
            compiler.problems += error.problems
    for index, check in enumerate(checks):
        compiler.problems += [
            Problem("unknown_check", f"checks[{index}].needs", f"no check {name!r}", suggest(name, seen))
            for name in check.needs
            if name not in seen or name == check.id
        ]
    if compiler.problems:
        raise SpecError(compiler.problems)
    return CompiledChecks(tuple(compiled))


class _Compiler:
    def __init__(self, image: Image, user: UserSpec) -> None:
        self.image = image
        self.facts = {fact.id for fact in user.facts}
        self.vocabulary: Vocabulary = vocabulary_of(image)
        self.problems: list[Problem] = []

    def compile(self, check: Check, where: str) -> Decide:
        match check:
            case RecordCheck():
                return self._record(check, where)
            case FieldCheck():
                return self._field(check, where)
            case ChangesCheck():
                return self._changes(check, where)
            case CallsCheck():
                return self._calls(check, where)
            case OrderCheck():
                return self._order(check, where)
            case StatesCheck():
                return self._states(check, where)
            case AskedCheck():
                return self._asked(check, where)

    def _record(self, check: RecordCheck, where: str) -> Decide:
        fits = self._rows(check.type, check.where, where)

        def decide(outcome: Outcome) -> str | None:
            found = sum(fits.test(row) for row in outcome.records(check.type))
            wrong = check.count.wrong(found)
            return None if wrong is None else f"{check.type} where {check.where}: {wrong}"

        return decide

    def _field(self, check: FieldCheck, where: str) -> Decide:
        derived = self._type(check.type, where)
        key = derived.key
        fits = self._rows(check.type, {check.field: check.is_}, where)

        def decide(outcome: Outcome) -> str | None:
            row = next((row for row in outcome.records(check.type) if row[key] == check.key), None)
            if row is None:
                return f"there is no {check.type} {check.key!r} any more"
            if fits.test(row):
                return None
            return f"{check.type} {check.key!r}: {check.field} is {row.get(check.field)!r}, expected {check.is_!r}"

        return decide

    def _changes(self, check: ChangesCheck, where: str) -> Decide:
        allowed = [
            (entry, self._rows(entry.type, entry.where, f"{where}.allow[{index}]"))
            for index, entry in enumerate(check.allow)
        ]

        def decide(outcome: Outcome) -> str | None:
            used = [0] * len(allowed)
            for change in outcome.agent_changes:
                row = outcome.shown(change)
                for index, (entry, fits) in enumerate(allowed):
                    if (
                        entry.type == change.type
                        and change.operation in entry.operations
                        and (entry.fields is None or change.operation != "updated" or set(change.fields) <= set(entry.fields))
                        and (entry.at_most is None or used[index] < entry.at_most)
                        and fits.test(row)
                    ):
                        used[index] += 1
                        break
                else:
                    what = f" ({', '.join(change.fields)})" if change.operation == "updated" else ""
                    return f"{change.operation} {change.type} {change.key!r}{what}, which was not asked for"
            return None

        return decide

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
            happened = False
            for entry in outcome.journal:
                if entry.error is not None:
                    continue
                if not happened and first(entry):
                    happened = True
                elif not happened and then(entry):
                    return f"{_names(check.then)} was called before {_names(check.first)}"
            return None

        return decide

    def _states(self, check: StatesCheck, where: str) -> Decide:
        required = self._facts(check.facts, f"{where}.facts")
        allowed = self._facts(check.allowed, f"{where}.allowed")
        vocabulary = self.vocabulary

        def wrong_in(text: str) -> str | None:
            report = compare(required, allowed, extract(text, vocabulary), watched=check.watch)
            if report.exact:
                return None
            missing = [f"{fact.kind} {fact.value} is not stated" for fact in report.missing]
            surplus = [f"{fact.kind} {fact.value} is stated but wrong or surplus" for fact in report.unexpected]
            return "; ".join([*missing, *surplus])

        if check.source != "record":

            def decide_said(outcome: Outcome) -> str | None:
                words = outcome.final_words if check.source == "final" else "\n".join(outcome.said)
                return wrong_in(words) if words else "the agent said nothing to the user"

            return decide_said
        type_name = check.type or ""
        fits = self._rows(type_name, check.where, where)
        fields = [check.field] if isinstance(check.field, str) else check.field
        derived = self._type(type_name, where)
        for name in fields:
            if derived.column(name) is None and not derived.open:
                raise _unknown("field", f"{where}.field", name, derived.model.model_fields)

        def decide_records(outcome: Outcome) -> str | None:
            texts = [
                "\n".join(str(row.get(name) or "") for name in fields)
                for row in outcome.records(type_name)
                if fits.test(row)
            ]
            if not texts:
                return f"there is no {type_name} where {check.where}"
            return next((wrong for text in texts if (wrong := wrong_in(text)) is not None), None)

        return decide_records

    def _facts(self, texts: Sequence[str], where: str) -> list[Fact]:
        facts: list[Fact] = []
        problems: list[Problem] = []
        for index, text in enumerate(texts):
            found = extract(text, self.vocabulary)
            if len(found) == 1:
                facts += found
            else:
                fix = "Write it like ORD-2041, 12 March 2026, 15:00, EUR 1,240.50, 4 hours, 20% or a full name of the cast."
                problems.append(
                    Problem("no_fact", f"{where}[{index}]", f"{text!r} states {len(found)} facts, one was expected", fix)
                )
        if problems:
            raise SpecError(problems)
        return facts

    def _asked(self, check: AskedCheck, where: str) -> Decide:
        if check.fact not in self.facts:
            raise _unknown("fact of the user", f"{where}.fact", check.fact, dict.fromkeys(self.facts))
        before = self._call(check.before, f"{where}.before")

        def decide(outcome: Outcome) -> str | None:
            told = next((d.after_call for d in outcome.disclosures if d.fact == check.fact), None)
            if told is None:
                return f"the user was never asked about {check.fact}"
            early = next((e for e in outcome.journal if e.error is None and before(e) and e.seq <= told), None)
            return None if early is None else f"{_names(check.before)} was called before the user had told {check.fact}"

        return decide

    def _call(self, pattern: CallPattern, where: str) -> Callable[[JournalEntry], bool]:
        tools = self.image.workplace.tools
        names = frozenset(pattern.tools)
        for name in pattern.tools:
            if name not in tools:
                raise _unknown("tool", f"{where}.tool", name, tools)
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

    def _type(self, name: str, where: str) -> RecordType:
        derived = self.image.workplace.types.get(name)
        if derived is None:
            raise _unknown("record type", f"{where}.type", name, self.image.workplace.types)
        return derived

    def _rows(self, type_name: str, patterns: Mapping[str, Any], where: str) -> FieldsMatcher:
        derived = self._type(type_name, where)
        problems: list[Problem] = []
        normal: dict[str, Any] = {}
        for path, pattern in patterns.items():
            column = derived.column(path.split(".")[0].split("[")[0])
            if column is None and not derived.open:
                fields = derived.model.model_fields
                problems.append(Problem("unknown_field", f"{where}.where.{path}", f"{type_name} has no field {path!r}", suggest(path, fields)))
            normal[path] = _utc(pattern) if column is not None and column.kind == "instant" else pattern
        if problems:
            raise SpecError(problems)
        return compile_fields(normal, f"{where}.where")


def _names(pattern: CallPattern) -> str:
    return " or ".join(pattern.tools)


def _utc(pattern: Any) -> Any:  # noqa: ANN401 - JSON
    """Write every time in a pattern the way records show it."""
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


def _unknown(what: str, where: str, name: str, known: Mapping[str, object]) -> SpecError:
    code = "unknown_" + what.split(" ", maxsplit=1)[0]
    return SpecError([Problem(code, where, f"no {what} {name!r}", suggest(name, known))])
