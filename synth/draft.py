"""A draft: what a workflow family writes an environment into.

Families read like a description of the work: add records, ask for something, say what happens meanwhile, what
must hold, and how the oracle does it. The draft keeps the seeded streams, the ids and the wording out of
their way. ``Draft.environment`` gives the result; nothing here decides whether it is any good
(``synth.certify`` does).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from harness.checks import Check
from harness.environment import Environment, Step
from harness.user import Correction, UserFact, UserSpec
from servers.declared import ServiceSpec
from servers.events import EventSpec
from servers.people import Person
from servers.records import iso_utc
from servers.tools import zone
from synth.graph import WorldGraph, build_graph, data
from synth.streams import stream

VERSION = 2
"""Raised when the same seed gives other environments than before."""
_CHECK: TypeAdapter[Check] = TypeAdapter(Check)


class Draft:
    """One environment while it is being written."""

    def __init__(self, family: str, level: int, seed: str, *, wording: str) -> None:
        self.family = family
        self.level = level
        self.seed = seed
        self.graph: WorldGraph = build_graph(seed)
        self.draw: random.Random = stream(seed, family, level)
        self.cast: list[Person] = list(self.graph.cast)
        self.request = ""
        self.oracle: list[Step] = []
        self.stale: list[Step] = []
        """The oracle of an agent that did not notice what changed."""
        self.blind: list[list[Step]] = []
        """The oracles of agents that guess instead of looking; their lookups are taken out."""
        self.data: Mapping[str, Any] = data(wording)
        """The family's wording and word lists."""
        self._words = stream(seed, family, "words")
        self._declared: list[ServiceSpec] = []
        self._records: dict[str, list[dict[str, Any]]] = {}
        self._rules: list[str] = []
        self._events: list[EventSpec] = []
        self._checks: list[Check] = []
        self._facts: list[UserFact] = []
        self._corrections: list[Correction] = []
        self._decoys: dict[str, list[str]] = {}
        self._temptations: list[dict[str, Any]] = []
        self._ids = 0

    # ------------------------------------------------------------------ the workplace

    @property
    def principal(self) -> Person:
        """The person for whom the agent works."""
        return self.graph.principal

    def words(self, key: str, **slots: object) -> str:
        """One of the family's phrasings for ``key``, slots filled in."""
        options: list[str] = self.data[key]
        return self._words.choice(options).format(**slots)

    def declare(self, spec: Mapping[str, Any]) -> None:
        """Add a service that is given as data."""
        self._declared.append(ServiceSpec.model_validate(spec))

    def new_id(self, kind: str) -> str:
        """A fresh opaque id of 16 hex digits."""
        self._ids += 1
        return hashlib.sha256(f"{self.seed}\0{self.family}\0{kind}\0{self._ids}".encode()).hexdigest()[:16]

    def add(self, type_name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - a record's fields
        """Add a record; gives it back."""
        self._records.setdefault(type_name, []).append(fields)
        return fields

    def mail(
        self,
        sender: Person | str,
        to: Sequence[Person],
        subject: str,
        body: str,
        at: int,
        **fields: Any,  # noqa: ANN401
    ) -> str:
        """Add a message; gives its id."""
        key = self.new_id("mail")
        address = sender if isinstance(sender, str) else sender.email
        self.add(
            "mail.message",
            id=key,
            sender=address,
            to=[person.email for person in to],
            subject=subject,
            body=body,
            sent_at=iso_utc(at),
            **fields,
        )
        return key

    def appointment(self, organizer: Person, title: str, start: int, end: int, **fields: Any) -> str:  # noqa: ANN401
        """Add a calendar event; gives its id."""
        key = self.new_id("event")
        self.add(
            "calendar.event",
            id=key,
            organizer=organizer.email,
            title=title,
            start=iso_utc(start),
            end=iso_utc(end),
            timezone=organizer.timezone,
            **fields,
        )
        return key

    def change(self, person: Person, **values: Any) -> Person:  # noqa: ANN401 - fields of a person
        """Let somebody in the cast be a little different; gives the new person."""
        changed = person.model_copy(update=values)
        self.cast = [changed if one.email == person.email else one for one in self.cast]
        return changed

    # ------------------------------------------------------------------ the task

    def rule(self, text: str) -> None:
        """A standing rule that the agent reads."""
        self._rules.append(text)

    def meanwhile(self, event: Mapping[str, Any]) -> None:
        """Something that happens without the agent."""
        self._events.append(EventSpec.model_validate(event))

    def user_knows(self, fact: Mapping[str, Any]) -> None:
        """Something the user tells when asked."""
        self._facts.append(UserFact.model_validate(fact))

    def user_corrects(self, turn: int, text: str) -> None:
        """The user changes their mind after the agent's turn of this number."""
        self._corrections.append(Correction(turn=turn, text=text))

    def goal(self, **check: Any) -> None:  # noqa: ANN401
        """Something that must hold at the end and counts towards the score."""
        self._checks.append(_CHECK.validate_python({"guard": False, **check}))

    def guard(self, **check: Any) -> None:  # noqa: ANN401
        """Something that must hold and gates the score."""
        self._checks.append(_CHECK.validate_python({"guard": True, **check}))

    def call(self, tool: str, bind: str | None = None, **arguments: Any) -> Step:  # noqa: ANN401
        """The oracle calls a tool; gives the step."""
        step = Step(call=tool, arguments=arguments, bind=bind)
        self.oracle.append(step)
        return step

    def say(self, text: str) -> Step:
        """The oracle says something to the user; gives the step."""
        step = Step(say=text)
        self.oracle.append(step)
        return step

    # ------------------------------------------------------------------ what could go wrong

    def decoy(self, true: str, *wrong: str) -> None:
        """Values that were planted to be mistaken for the true one."""
        self._decoys.setdefault(true, []).extend(wrong)

    def tempt(self, operator: str, *steps: Step, instead: int | None = None) -> None:
        """Something wrong that a careless agent might do, besides or instead of an oracle step."""
        self._temptations.append(
            {"operator": operator, "steps": [_plain(step) for step in steps]}
            | ({} if instead is None else {"instead": instead})
        )

    # ------------------------------------------------------------------ days and times in words

    @property
    def today(self) -> str:
        """The principal's date when the episode begins: ``2 March 2026``."""
        return self.date(self.graph.start)

    def day(self, instant: int, person: Person | None = None) -> str:
        """An instant's date, in the zone of a person (the principal by default): ``Thursday, 5 March 2026``."""
        moment = self._local(instant, person)
        return f"{moment:%A}, {moment.day} {moment:%B} {moment.year}"

    def date(self, instant: int, person: Person | None = None) -> str:
        """An instant's date without the weekday: ``5 March 2026``."""
        moment = self._local(instant, person)
        return f"{moment.day} {moment:%B} {moment.year}"

    def clock(self, instant: int, person: Person | None = None) -> str:
        """An instant's time of day in the zone of a person: ``15:30``."""
        return f"{self._local(instant, person):%H:%M}"

    def zoned_clock(self, instant: int) -> str:
        """An instant's time of day with the offset of the principal's zone: ``15:30 UTC+01:00``.

        As a fact of a check it also holds for that time in UTC or another zone, and for 15:30 without a zone.
        """
        return f"{self.clock(instant)} UTC{self.iso(instant)[-6:]}"

    def quoted_moment(self, instant: int) -> list[str]:
        """Date and time of a message, which a mail program writes above the text that it quotes.

        In the zone of the principal; the date in UTC too where it is another.
        """
        moment = datetime.fromisoformat(iso_utc(instant))
        in_utc = f"{moment.day} {moment:%B} {moment.year}"
        return list(dict.fromkeys([self.date(instant), in_utc, self.zoned_clock(instant)]))

    def iso(self, instant: int, person: Person | None = None) -> str:
        """An instant as ISO time with the offset of a person's zone."""
        return self._local(instant, person).isoformat()

    # ------------------------------------------------------------------ the result

    def environment(self, *, services: Sequence[str], tools: Sequence[str], capabilities: Sequence[str]) -> Environment:
        """The finished environment.

        Raises:
            SpecError: The parts do not fit together.
        """
        hints: dict[str, Any] = {"decoys": self._decoys, "temptations": self._temptations}
        if self.stale:
            hints["stale"] = [_plain(step) for step in self.stale]
        if self.blind:
            hints["blind"] = [[_plain(step) for step in steps] for steps in self.blind]
        return Environment(
            id=f"{self.family}-{self.level}-{hashlib.sha256(self.seed.encode()).hexdigest()[:10]}",
            family=self.family,
            capabilities=list(capabilities),
            difficulty={
                "level": self.level,
                "calls": sum(step.call is not None for step in self.oracle),
                "services": len(services) + len(self._declared),
                "decoys": sum(len(wrong) for wrong in self._decoys.values()),
                "events": len(self._events),
                "rules": len(self._rules),
            },
            seed=self.seed,
            start=self.graph.start,
            principal=self.principal.email,
            cast=self.cast,
            services=list(services),
            declared=self._declared,
            tools=list(tools),
            records=self._records,
            request=self.request,
            rules=self._rules,
            user=UserSpec(facts=self._facts, corrections=self._corrections),
            events=self._events,
            checks=self._checks,
            oracle=self.oracle,
            meta={"author": "template", "version": VERSION, "hints": hints},
        )

    def _local(self, instant: int, person: Person | None) -> datetime:
        return datetime.fromtimestamp(instant, zone((person or self.principal).timezone))


def _plain(step: Step) -> dict[str, Any]:
    return step.model_dump(mode="json", exclude_defaults=True)
