"""What is stored, as occurrences in time: expanding events in a window, and who is busy when.

Everything that looks at a calendar goes through ``calendar_of``, so bounds hold everywhere: a calendar that
is too full for a window is refused, never half shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import cast

import sqlalchemy as sa
from pydantic_core import to_json

from servers.records import record_type
from servers.services.calendar.moments import DAY, day_of, midnight
from servers.services.calendar.records import Event, occurrence_id
from servers.services.calendar.recurrence import Series, occurrences
from servers.services.calendar.spans import Span, merged
from servers.sql import Query, Statement, param, table
from servers.tools import Call
from servers.world import World

MOST_IN_WINDOW = 2000
"""Most occurrences of one calendar that one call looks at."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event at one time: a single event, or one of a series."""

    event: Event
    start: int
    end: int

    @property
    def event_id(self) -> str:
        """The id under which tools know it."""
        return occurrence_id(self.event.id, self.start) if self.event.recurrence else self.event.id


def _of_person(events: sa.Table) -> sa.ColumnElement[bool]:
    # A quote inside a JSON string is escaped, so only an address can match; json_each costs much more.
    invited = sa.func.instr(events.c.attendees, param("invited")) > 0
    return sa.and_(events.c.status == "confirmed", sa.or_(events.c.organizer == param("person"), invited))


IN_WINDOW = Query(
    Event,
    lambda t: sa.select(t).where(
        t.c.start < param("before"), sa.or_(t.c.end > param("after"), t.c.recurrence != ""), _of_person(t)
    ),
)
CHANGED = Query(
    Event,
    lambda t: (
        sa.select(t)
        .where(t.c.series_id == param("series"), t.c.original_start >= param("first"))
        .order_by(t.c.original_start)
    ),
)
TEXTS = Statement(lambda: _texts(table(Event)))
"""Texts of all events of a person: id, then what a search looks at, with the attendees as JSON."""
ALL = Query(Event, lambda t: sa.select(t).order_by(t.c.id))


def _texts(t: sa.Table) -> sa.sql.expression.Executable:
    return (
        sa.select(t.c.id, t.c.title, t.c.location, t.c.description, t.c.organizer, t.c.attendees)
        .where(_of_person(t))
        .order_by(t.c.start, t.c.id)
    )


def invited_mark(email: str) -> str:
    """How an attendee's address stands in the stored list."""
    return f'"email":{to_json(email).decode()}'


def expand(event: Event, begin: int, end: int) -> list[Occurrence]:
    """The occurrences of an event that overlap a window, in order."""
    if not event.recurrence:
        return [Occurrence(event, event.start, event.end)] if event.start < end and event.end > begin else []
    # An all-day event across a clock change lasts up to a few hours longer than its first occurrence.
    lookback = event.end - event.start + (DAY if event.all_day else 0)
    starts = occurrences(event.series, begin - lookback, end)
    if event.excluded:
        gone = set(event.excluded)
        starts = [start for start in starts if start not in gone]
    found = [Occurrence(event, start, end_of(event, start)) for start in starts]
    return [occurrence for occurrence in found if occurrence.end > begin]


def end_of(event: Event, start: int) -> int:
    """When the occurrence of a series that starts at ``start`` ends; days stay days across a clock change."""
    if not event.all_day:
        return start + event.end - event.start
    days = (day_of(event.end, event.timezone) - day_of(event.start, event.timezone)).days
    return midnight(day_of(start, event.timezone) + timedelta(days=days), event.timezone)


def calendar_of(call: Call, email: str, begin: int, end: int) -> list[Occurrence]:
    """All occurrences on a person's calendar that overlap a window, by start, end and id; whoever asks.

    Raises:
        ToolError: There are too many.
    """
    derived = record_type(Event)
    when = itemgetter(*(derived.position[name] for name in ("recurrence", "start", "end", "timezone")))
    found: list[Occurrence] = []
    rows = call.world.rows(IN_WINDOW, person=email, invited=invited_mark(email), after=begin, before=end)
    for row in rows:
        recurrence, start, finish, timezone = when(row)
        # Most series miss a short window, and making a record costs more than finding that out.
        if recurrence and not occurrences(Series(recurrence, start, timezone), begin - finish + start - DAY, end):
            continue
        found += expand(cast("Event", derived.decode(row)), begin, end)
        if len(found) > MOST_IN_WINDOW:
            raise call.refuse(
                f"the calendar of {email} holds more than {MOST_IN_WINDOW} occurrences in that time. "
                "Ask for a shorter time."
            )
    found.sort(key=_order)
    return found


def busy_of(call: Call, email: str, begin: int, end: int) -> list[Occurrence]:
    """The occurrences in a window that take a person's time."""
    return [found for found in calendar_of(call, email, begin, end) if found.event.takes_time_of(email)]


def busy_spans(call: Call, email: str, begin: int, end: int) -> list[Span]:
    """When a person is busy in a window, joined and cut to it."""
    return merged((max(found.start, begin), min(found.end, end)) for found in busy_of(call, email, begin, end))


def changed_occurrences(world: World, series: Event, first: int = 0) -> list[Event]:
    """The changed occurrences of a series that were originally at ``first`` or later; cancelled ones too."""
    return world.select(CHANGED, series=series.id, first=first)


def _order(occurrence: Occurrence) -> tuple[int, int, str]:
    return occurrence.start, occurrence.end, occurrence.event.id
