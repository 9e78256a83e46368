"""Who is free when: conflicts of an event, free/busy, and common free time.

Busy time of colleagues is visible to everyone inside the organisation; what fills it only where the caller
may see the event. People outside are never looked into: they are named as not visible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from operator import itemgetter

from pydantic import Field

from servers.services.calendar.access import find_addresses, sees_calendar, sees_details
from servers.services.calendar.moments import DAY, MINUTE, at, day_of, read_range
from servers.services.calendar.records import Event
from servers.services.calendar.spans import Span, common, merged, without
from servers.services.calendar.store import Occurrence, busy_of, busy_spans, expand
from servers.services.calendar.views import times
from servers.tools import Arguments, Call, JsonObject

CONFLICT_HORIZON = 60 * DAY
"""A series is compared with calendars this far ahead."""
MOST_CONFLICTS = 10
LONGEST_FREE_BUSY = 92 * DAY
LONGEST_SUGGESTION = 62 * DAY
WORK_BEGIN, WORK_END = time(9), time(17)
"""Working hours, local, Monday to Friday."""
GRID = 15 * MINUTE


class FreeBusy(Arguments):
    """See when people are busy, without what they do. Everybody is free in the rest of the range."""

    people: list[str] = Field(min_length=1, max_length=20, description="Names or mail addresses, at most 20")
    start: str = Field(description="Begin of the range, in your time zone unless it has an offset")
    end: str = Field(description="End of the range; at most 92 days after start")


class SuggestTimes(Arguments):
    """Find times at which you and other people are all free, earliest first.

    Inside everyone's working hours: 09:00 to 17:00 local, Monday to Friday.
    """

    people: list[str] = Field(
        min_length=1, max_length=20, description="Names or mail addresses; you are always included"
    )
    duration_minutes: int = Field(ge=5, le=480, description="Length of the meeting")
    earliest: str = Field(description="Not before this time, in your time zone unless it has an offset")
    latest: str = Field(description="Over by this time; at most 62 days after earliest")
    limit: int = Field(default=5, ge=1, le=20, description="Most suggestions")


def free_busy(call: Call, args: FreeBusy) -> JsonObject:
    """Show when several people are busy."""
    begin, end = read_range(call, args.start, args.end, ("start", "end"), LONGEST_FREE_BUSY)
    visible, hidden = _divided(call, find_addresses(call, args.people))
    shown = [
        {
            "person": email,
            "timezone": call.world.people[email].timezone,
            "busy": [_span(call, span) for span in busy_spans(call, email, begin, end)],
        }
        for email in visible
    ]
    return {"start": call.local(begin), "end": call.local(end), "people": shown, "not_visible": hidden}


def suggest_times(call: Call, args: SuggestTimes) -> JsonObject:
    """Find common free times."""
    begin, end = read_range(call, args.earliest, args.latest, ("earliest", "latest"), LONGEST_SUGGESTION)
    begin = max(begin, call.now)
    length = args.duration_minutes * MINUTE
    visible, hidden = _divided(call, list(dict.fromkeys([call.person.email, *find_addresses(call, args.people)])))
    shared: list[Span] = [(begin, end)] if begin < end else []
    for timezone in sorted({call.world.people[email].timezone for email in visible}):
        shared = common(shared, list(working_time(timezone, begin, end)))
    free = shared
    for email in visible:
        free = without(free, busy_spans(call, email, begin, end))
    slots = list(slots_in(free, length, args.limit))
    answer: JsonObject = {"suggestions": [_slot(call, slot, visible) for slot in slots], "people": visible}
    answer["not_visible"] = hidden
    if not slots:
        shareable = any(True for _ in slots_in(shared, length, 1))
        answer["reason"] = (
            "somebody is busy in all common working hours; try a longer range or a shorter meeting"
            if shareable
            else f"the working hours of these people share no {args.duration_minutes} minutes in that range"
        )
    return answer


def conflicts(call: Call, event: Event) -> JsonObject:
    """What the organizer and the attendees of an event have at the same time; empty when there is nothing.

    Looks at calendars that the caller may see. A title is shown only where the caller may see that event.
    """
    if not event.busy:
        return {}
    begin = max(event.start, call.now) if event.recurrence else event.start
    mine = expand(event, begin, begin + CONFLICT_HORIZON if event.recurrence else event.end)
    people = dict.fromkeys([event.organizer, *(attendee["email"] for attendee in event.attendees)])
    attending = [email for email in people if event.takes_time_of(email)]
    taken = merged((one.start, one.end) for one in mine)
    found: list[JsonObject] = []
    for email in _divided(call, attending)[0] if mine else ():
        others = [other for other in busy_of(call, email, taken[0][0], taken[-1][1]) if other.event.id != event.id]
        found += [_conflict(call, email, other) for other in others if _overlaps(other, taken)]
    if not found:
        return {}
    more = len(found) - MOST_CONFLICTS
    return {"conflicts": found[:MOST_CONFLICTS], **({"more_conflicts": more} if more > 0 else {})}


def working_time(timezone: str, begin: int, end: int) -> Iterator[Span]:
    """The working hours of a zone in a window, in order."""
    day, last = day_of(begin, timezone), day_of(end, timezone)
    while day <= last:
        if day.weekday() < 5:
            opens = at(datetime.combine(day, WORK_BEGIN), timezone)
            closes = at(datetime.combine(day, WORK_END), timezone)
            if max(opens, begin) < min(closes, end):
                yield max(opens, begin), min(closes, end)
        day += timedelta(days=1)


def slots_in(free: list[Span], length: int, limit: int) -> Iterator[Span]:
    """Cut free spans into meetings that do not overlap, beginning on the quarter hour; at most ``limit``."""
    step = -(-length // GRID) * GRID
    for begin, end in free:
        start = -(-begin // GRID) * GRID
        while start + length <= end:
            if limit == 0:
                return
            yield start, start + length
            limit -= 1
            start += step


def _divided(call: Call, emails: list[str]) -> tuple[list[str], list[str]]:
    visible = [email for email in emails if sees_calendar(call.person, email, call.world.people)]
    return visible, [email for email in emails if email not in visible]


def _span(call: Call, span: Span) -> JsonObject:
    return {"start": call.local(span[0]), "end": call.local(span[1])}


def _slot(call: Call, slot: Span, people: list[str]) -> JsonObject:
    zones = {call.world.people[email].timezone for email in people}
    here = call.local(slot[0])
    local = {name: call.local(slot[0], name) for name in sorted(zones)}
    elsewhere = {name: text for name, text in local.items() if text != here}
    return {**_span(call, slot), **({"start_elsewhere": elsewhere} if elsewhere else {})}


def _overlaps(other: Occurrence, taken: list[Span]) -> bool:
    before_its_end = bisect_left(taken, other.end, key=itemgetter(0))
    return before_its_end > 0 and taken[before_its_end - 1][1] > other.start


def _conflict(call: Call, email: str, other: Occurrence) -> JsonObject:
    event = other.event
    if not sees_details(call.person, event):
        return {"person": email, **_span(call, (other.start, other.end))}
    shown = times(call, event, other.start, other.end)
    return {"person": email, **shown, "title": event.title, "event_id": other.event_id}
