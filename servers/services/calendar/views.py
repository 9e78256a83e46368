"""Events as answers show them: in the caller's local time, and in the event's own zone where that differs."""

from __future__ import annotations

from servers.services.calendar.access import Target, sees_details
from servers.services.calendar.moments import DAY, day_of
from servers.services.calendar.records import Attendee, Event, occurrence_id
from servers.services.calendar.recurrence import occurrences
from servers.services.calendar.store import Occurrence
from servers.tools import Call, JsonObject

UPCOMING = 3


def times(call: Call, event: Event, start: int, end: int) -> JsonObject:
    """Start and end. An all-day event has dates, in its own zone, the end being the day after the last."""
    away = event.timezone != call.person.timezone
    if event.all_day:
        shown: JsonObject = {
            "start": day_of(start, event.timezone).isoformat(),
            "end": day_of(end, event.timezone).isoformat(),
            "all_day": True,
        }
        return {**shown, "timezone": event.timezone} if away else shown
    shown = {"start": call.local(start), "end": call.local(end)}
    if away:
        shown["timezone"] = event.timezone
        shown["start_in_timezone"] = call.local(start, event.timezone)
        shown["end_in_timezone"] = call.local(end, event.timezone)
    return shown


def listed(call: Call, occurrence: Occurrence, owner: str) -> JsonObject:
    """One line of the calendar of ``owner``; only busy time where the caller may not see more."""
    event = occurrence.event
    if not sees_details(call.person, event):
        return {"title": "Busy", "start": call.local(occurrence.start), "end": call.local(occurrence.end)}
    when = times(call, event, occurrence.start, occurrence.end)
    shown: JsonObject = {
        "event_id": occurrence.event_id,
        "title": event.title,
        **when,
        "organizer": event.organizer,
    }
    if event.location:
        shown["location"] = event.location
    attendee = event.attendee(owner)
    if attendee is not None:
        shown["response"] = attendee["response"]
    if event.attendees:
        shown["attendee_count"] = len(event.attendees)
    if event.recurrence or event.series_id:
        shown["series_id"] = event.series_id or event.id
    return {**shown, **_marks(event)}


def detail(call: Call, target: Target) -> JsonObject:
    """Everything about one event, occurrence or series."""
    event, occurrence = target.event, target.occurrence
    one = target.original_start is not None
    shown: JsonObject = {
        "event_id": occurrence.event_id if one else event.id,
        "title": event.title,
        **times(call, event, occurrence.start, occurrence.end),
        "timezone": event.timezone,
        "organizer": event.organizer,
        "attendees": [_attendee(call, event, attendee) for attendee in event.attendees],
        "location": event.location,
        "description": event.description,
        **_marks(event),
    }
    if event.status == "cancelled":
        shown["status"] = "cancelled"
    if target.series is not None:
        shown["series_id"] = target.series.id
        if event.series_id and event.original_start is not None:
            shown["original_start"] = call.local(event.original_start)
    rule = target.series.recurrence if target.series else event.recurrence
    if rule:
        shown["recurrence"] = rule
    if event.recurrence and not one and event.status == "confirmed":
        shown["upcoming"] = _upcoming(call, event)
    return shown


def target_of(event: Event) -> Target:
    """A record as the thing that is meant."""
    return Target(event, event.original_start, None)


def _marks(event: Event) -> JsonObject:
    marks: JsonObject = {}
    if event.visibility == "private":
        marks["private"] = True
    if not event.busy:
        marks["busy"] = False
    return marks


def _attendee(call: Call, event: Event, attendee: Attendee) -> JsonObject:
    shown: JsonObject = {"email": attendee["email"], "response": attendee["response"]}
    if attendee["optional"]:
        shown["optional"] = True
    comment = attendee.get("comment")
    if comment and call.person.email in (event.organizer, attendee["email"]):
        shown["comment"] = comment
    return shown


def _upcoming(call: Call, series: Event) -> list[JsonObject]:
    gone = set(series.excluded)
    begin = max(call.now, series.start)
    starts = [start for start in occurrences(series.series, begin, begin + 366 * DAY) if start not in gone]
    return [{"event_id": occurrence_id(series.id, start), "start": call.local(start)} for start in starts[:UPCOMING]]
