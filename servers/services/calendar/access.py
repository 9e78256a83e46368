"""Who may see and do what, and who is meant: finding events and people with the caller's rights.

* People of the organisation see each other's events; of private ones only when they are busy. People outside
  see nothing but the events they organise or are invited to.
* Only the organizer changes or deletes. Attendees respond, for themselves.
* An event that the caller may not see is refused with the same words as one that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from servers.errors import ToolError
from servers.people import Person, find_person
from servers.services.calendar.records import Event, occurrence_id
from servers.services.calendar.recurrence import is_occurrence, next_start
from servers.services.calendar.store import Occurrence, end_of
from servers.tools import Call

OCCURRENCE_ID = re.compile(r"(.+)_([0-9]{8}T[0-9]{6}Z)", re.DOTALL)
ADDRESS = re.compile(r"[^@\s\"<>,;]+@[^@\s\"<>,;]+\.[^@\s\"<>,;]+")
MOST_PEOPLE = 100


@dataclass(frozen=True, slots=True)
class Target:
    """What an event id stands for."""

    event: Event
    """The record: a single event, a series, or a changed occurrence."""
    original_start: int | None
    """Set when one occurrence of a series is meant."""
    series: Event | None
    """The series of that occurrence."""

    @property
    def occurrence(self) -> Occurrence:
        """The time that is meant; of a whole series its first."""
        if self.series is self.event and self.original_start is not None:
            return Occurrence(self.event, self.original_start, end_of(self.event, self.original_start))
        return Occurrence(self.event, self.event.start, self.event.end)


def sees_details(person: Person, event: Event) -> bool:
    """Whether a person may see more of an event than that somebody is busy."""
    return event.involves(person.email) or (event.visibility == "default" and not person.external)


def sees_calendar(person: Person, other: str, people: Mapping[str, Person]) -> bool:
    """Whether a person may look at the calendar of another one at all."""
    if person.email == other:
        return True
    return not person.external and other in people and not people[other].external


def find_event(call: Call, event_id: str) -> Target:
    """Find what an id stands for.

    Raises:
        ToolError: Nothing that the caller may see; or a series that does not happen then.
    """
    event = call.world.get(Event, event_id)
    if event is not None and sees_details(call.person, event):
        series = call.world.get(Event, event.series_id) if event.series_id else None
        return Target(event, event.original_start, series)
    match = OCCURRENCE_ID.fullmatch(event_id)
    series = call.world.get(Event, match[1]) if match and event is None else None
    if match is None or series is None or not series.recurrence or not sees_details(call.person, series):
        raise call.refuse(f"there is no event {event_id[:80]!r}. Look with calendar_list_events or calendar_search.")
    start = _stamp(match[2])
    if start is None or not is_occurrence(series.series, start) or start in series.excluded:
        raise _no_occurrence(call, series, start)
    return Target(series, start, series)


def find_own_event(call: Call, event_id: str) -> Target:
    """Find an event that the caller may change.

    Raises:
        ToolError: There is none, or it belongs to somebody else, or is cancelled.
    """
    target = find_event(call, event_id)
    if target.event.organizer != call.person.email:
        hint = "answer with calendar_respond, or " if target.event.involves(call.person.email) else ""
        raise call.refuse(
            f"only the organizer {target.event.organizer} may change or delete {target.event.title!r}. "
            f"You can {hint}ask the organizer."
        )
    refuse_cancelled(call, target)
    return target


def refuse_cancelled(call: Call, target: Target) -> None:
    """Refuse what cannot be done with a cancelled event.

    Raises:
        ToolError: It is cancelled.
    """
    if "cancelled" in (target.event.status, target.series.status if target.series else ""):
        raise call.refuse(f"{target.event.title!r} was cancelled. Create a new event instead.")


def find_colleague(call: Call, text: str) -> Person:
    """Find a person whose calendar the caller may look at.

    Raises:
        ToolError: Nobody, several people, or somebody whose calendar is not visible.
    """
    person = find_person(call, text)
    if not sees_calendar(call.person, person.email, call.world.people):
        raise call.refuse(f"the calendar of {person.email} is not visible to you: it belongs to another organisation.")
    return person


def find_addresses(call: Call, texts: list[str]) -> list[str]:
    """Turn names and addresses into addresses, without repetition; people outside need not be known.

    Raises:
        ToolError: A name or a colleague's address that nobody has, or that several people have; or no address
        at all.
    """
    found: dict[str, None] = {}
    for text in texts:
        found[_address(call, text)] = None
    return list(found)


def _address(call: Call, text: str) -> str:
    wanted = text.strip()
    if "@" not in wanted:
        return find_person(call, wanted).email
    lowered = wanted.casefold()
    for email in call.world.people:
        if email.casefold() == lowered:
            return email
    if ADDRESS.fullmatch(wanted) is None or len(wanted) > 254:
        raise call.refuse(f"{wanted[:80]!r} is neither a name nor a mail address. Write it like name@company.example.")
    if lowered.rpartition("@")[2] in own_domains(call.world.people.values()):
        return find_person(call, wanted).email  # refuses with the closest colleagues
    return wanted.lower()


def own_domains(people: Iterable[Person]) -> set[str]:
    """The mail domains of the organisation."""
    return {person.email.casefold().rpartition("@")[2] for person in people if not person.external}


def _stamp(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None


def _no_occurrence(call: Call, series: Event, start: int | None) -> ToolError:
    words = f"{series.title!r} has no occurrence at that time"
    if start is not None and start in series.excluded:
        words = f"that occurrence of {series.title!r} was cancelled"
    following = next_start(series.series, max(call.now, series.start), 366 * 86400)
    hint = "" if following is None else f" The next one is {occurrence_id(series.id, following)}."
    return call.refuse(f"{words}.{hint} The series itself is {series.id}; calendar_list_events shows its occurrences.")
