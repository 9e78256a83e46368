"""Information flow: every value that the oracle uses must have been obtainable.

An oracle that uses an id nobody showed it solves a task that no agent can solve. So each literal in its calls
has to appear in what an agent would have read by then: the prompt, the request, what the user said, earlier
results. Ids and addresses must appear as they are; times may be written otherwise but must be the same
instant, or a day and a time of day that were both read; in free text the facts count, not the words.

In the free text of a call, what the oracle worked out itself (a sum, a difference) is shown by nothing; authors list
such texts under ``meta.hints.derived``. Ids, addresses and names must have been read all the same.

Search words, the windows of lookups, options of an enumeration and numbers that are not facts are the agent's
own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from harness.environment import Environment, Step
from harness.facts import ClockTime, Fact, FactKind, extract
from harness.prompt import system_prompt
from harness.vocabulary import vocabulary_of
from servers.bindings import references
from synth.defects import Defect
from synth.hints import hints_of
from synth.rehearse import Performance

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")
COPIED: frozenset[FactKind] = frozenset({"id", "email", "name"})
"""Facts that nobody can work out."""
SEARCH_WORDS = ("query", "text")


class Reader:
    """What an agent has read so far."""

    def __init__(self, environment: Environment) -> None:
        self.vocabulary = vocabulary_of(environment.image)
        self.zone = ZoneInfo(environment.image.people[environment.principal].timezone)
        self.ids = _ids(environment)
        self.instants: set[datetime] = set()
        self._seen: list[str] = []
        """The texts in lower case."""
        self._facts: set[Fact] = set()
        self._derived = {
            fact
            for text in hints_of(environment).derived
            for fact in extract(text, self.vocabulary)
            if fact.kind not in COPIED
        }
        self._unsearched: list[str] = []
        """Texts that nobody has searched for facts yet; most never need to be."""

    def read(self, text: str) -> None:
        """Take in a text."""
        self._seen.append(text.casefold())
        self._unsearched.append(text)
        moments = (self.moment(found) for found in ISO.findall(text))
        self.instants.update(moment for moment in moments if moment is not None)

    @property
    def facts(self) -> set[Fact]:
        """Everything stated in what was read."""
        for text in self._unsearched:
            self._facts.update(extract(text, self.vocabulary))
        self._unsearched.clear()
        return self._facts

    def moment(self, text: str) -> datetime | None:
        """An ISO time as an instant; without an offset it is the principal's local time."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=self.zone)

    def knows(self, value: str) -> bool:
        """Whether a value of a call was obtainable."""
        if value in self.ids:
            return self._saw_word(value)
        wanted = value.casefold()
        if any(wanted in text for text in self._seen):
            return True
        if ISO.fullmatch(value):
            return self._knows_moment(value)
        stated = extract(value, self.vocabulary)
        if stated:
            return all(fact.relative or self._knows_fact(fact, value[slice(*fact.span)]) for fact in stated)
        return " " in value.strip() or value.isalpha()

    def _knows_fact(self, fact: Fact, written: str) -> bool:
        if self._saw_word(written):
            return True
        if fact.kind in ("date", "time") and any(self._is_part(moment, fact) for moment in self.instants):
            return True
        return fact in self.facts or fact in self._derived

    def _saw_word(self, written: str) -> bool:
        word = re.compile(rf"(?<!\w){re.escape(written.casefold())}(?!\w)")
        return any(word.search(text) for text in self._seen)

    def _is_part(self, moment: datetime, fact: Fact) -> bool:
        """Whether a fact is the day or the time of day of a moment, there or where the principal is."""
        for local in (moment, moment.astimezone(self.zone)):
            if fact.kind == "date" and fact.value == local.date():
                return True
            clock = fact.value
            if isinstance(clock, ClockTime) and (clock.hour, clock.minute) == (local.hour, local.minute):
                return True
        return False

    def _knows_moment(self, value: str) -> bool:
        moment = self.moment(value)
        if moment is None or moment in self.instants:
            return moment is not None
        local = moment.astimezone(self.zone)
        clocks = [fact.value for fact in self.facts if isinstance(fact.value, ClockTime)]
        days = {fact.value for fact in self.facts if fact.kind == "date"}
        days |= {instant.astimezone(self.zone).date() for instant in self.instants}
        same_clock = any((clock.hour, clock.minute) == (local.hour, local.minute) for clock in clocks)
        return same_clock and local.date() in days


def _ids(environment: Environment) -> frozenset[str]:
    """Keys of records: they may look like words, but nobody guesses them."""
    types = environment.image.workplace.types
    return frozenset(
        str(row[types[name].key])
        for name, rows in environment.records.items()
        for row in rows
        if types[name].key in row
    )


def not_obtainable(environment: Environment, oracle: Performance) -> list[Defect]:
    """Every literal in the calls of the oracle that an agent could not have known."""
    reader = Reader(environment)
    for text in (system_prompt(environment), environment.request):
        reader.read(text)
    defects: list[Defect] = []
    for index, (step, trace) in enumerate(zip(environment.oracle, oracle.traces, strict=False)):
        if step.call is not None:
            defects += _unknown(environment, step, index, reader)
        reader.read(trace.result)
    return defects


def _unknown(environment: Environment, step: Step, index: int, reader: Reader) -> Iterator[Defect]:
    tool = environment.exposed[step.call or ""]
    schema: dict[str, Any] = tool.input_schema.get("properties", {})
    for name, value in step.arguments.items():
        searching = tool.effect == "read" and name in SEARCH_WORDS
        if searching or schema.get(name, {}).get("enum"):
            continue
        for text in _strings(value):
            window = tool.effect == "read" and ISO.fullmatch(text)
            if window or references(text) or reader.knows(text):
                continue
            yield Defect(
                "not_obtainable",
                f"oracle[{index}].arguments.{name}",
                "a value that the request, a rule or an earlier result shows",
                f"{text!r:.120}",
                "Show it somewhere, look it up before, refer to the result that holds it ($name.path), "
                "or list it under meta.hints.derived if it follows from what was read.",
            )


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in cast("list[object]", value) for text in _strings(item)]
    if isinstance(value, dict):
        return [text for item in cast("dict[str, object]", value).values() for text in _strings(item)]
    return []
