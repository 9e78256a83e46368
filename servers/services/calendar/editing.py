"""Tools that change calendars: create, update, delete, respond."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from servers.services.calendar.access import (
    MOST_PEOPLE,
    Target,
    find_addresses,
    find_event,
    find_own_event,
    refuse_cancelled,
)
from servers.services.calendar.availability import conflicts
from servers.services.calendar.moments import (
    DAY,
    LONGEST,
    day_of,
    known_zone,
    midnight,
    read_day,
    read_time,
    zone_problem,
)
from servers.services.calendar.records import Attendee, Event, invited
from servers.services.calendar.recurrence import Series, parse_rule
from servers.services.calendar.series import (
    Changed,
    Edit,
    Scope,
    cancel,
    change_all,
    change_event,
    change_following,
    change_this,
    fitting,
    take_out,
)
from servers.services.calendar.store import Occurrence, changed_occurrences, end_of
from servers.services.calendar.views import detail, times
from servers.tools import Arguments, Call, JsonObject

LONGEST_REPEATED = 31 * DAY
"""Longest occurrence of a series."""

SCOPE = (
    "For recurring events: this (only this occurrence; the default for an occurrence), following (this and "
    "all later ones) or all (the whole series)"
)
TIME = "such as 2026-03-02T09:00:00, in the given timezone or else yours, unless it has an offset; a date if all-day"
RULE = "RRULE such as FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10 or FREQ=MONTHLY;BYDAY=-1FR;UNTIL=20261231"


class CreateEvent(Arguments):
    """Create an event on your calendar and invite people.

    Answers with conflicts if you or colleagues are busy then; the event is created all the same.
    """

    title: str = Field(min_length=1, max_length=300)
    start: str = Field(description=f"Begin, {TIME}")
    end: str = Field(description="End, written like start; of an all-day event the day after the last day")
    attendees: list[str] = Field(default_factory=list, max_length=MOST_PEOPLE, description="Names or mail addresses")
    location: str = Field(default="", max_length=500)
    description: str = Field(default="", max_length=20_000)
    timezone: str | None = Field(
        default=None, description="IANA zone of the event, in which it recurs; yours by default"
    )
    recurrence: str | None = Field(default=None, description=f"{RULE}; start must be one of its occurrences")
    private: bool = Field(default=False, description="Others who are not invited see only that you are busy")
    all_day: bool = Field(default=False, description="start and end are dates")
    busy: bool = Field(default=True, description="Whether the event blocks time")


class UpdateEvent(Arguments):
    """Change an event that you organise; what you leave out stays.

    A new time asks the attendees to respond again. A new time or guest list is answered with conflicts.
    """

    event_id: str = Field(max_length=400, description="An event, an occurrence or a series")
    title: str | None = Field(default=None, min_length=1, max_length=300)
    start: str | None = Field(default=None, description=f"New begin, {TIME}. Without end, the length stays")
    end: str | None = Field(default=None, description="New end, written like start")
    attendees: list[str] | None = Field(
        default=None,
        max_length=MOST_PEOPLE,
        description="All who shall be invited; who is not listed is removed",
    )
    location: str | None = Field(default=None, max_length=500)
    description: str | None = Field(default=None, max_length=20_000)
    timezone: str | None = Field(default=None, description="New IANA zone of the event")
    recurrence: str | None = Field(default=None, description=f"{RULE}; empty text: no longer recurring")
    private: bool | None = Field(default=None)
    busy: bool | None = Field(default=None, description="Whether the event blocks time")
    scope: Scope | None = Field(default=None, description=SCOPE)


class DeleteEvent(Arguments):
    """Cancel an event that you organise, for everyone invited."""

    event_id: str = Field(max_length=400, description="An event, an occurrence or a series")
    scope: Scope | None = Field(default=None, description=SCOPE)


class Respond(Arguments):
    """Answer an invitation, for yourself.

    Declining frees the time. Takes an occurrence, or a series for all of it.
    """

    event_id: str = Field(max_length=400, description="An event, an occurrence or a series")
    response: Literal["accepted", "declined", "tentative"]
    comment: str | None = Field(default=None, max_length=2000, description="A note to the organizer")


def create_event(call: Call, args: CreateEvent) -> JsonObject:
    """Create an event."""
    timezone = _zone(call, args.timezone) or call.person.timezone
    if args.all_day:
        start, end = (read_day(call, text, name, timezone) for text, name in ((args.start, "start"), (args.end, "end")))
    else:
        start, end = (
            read_time(call, text, name, timezone) for text, name in ((args.start, "start"), (args.end, "end"))
        )
    rule = _rule(call, args.recurrence) or ""
    _possible(call, start, end, repeated=bool(rule))
    event = Event(
        id=call.new_id("calendar.event"),
        organizer=call.person.email,
        title=args.title,
        description=args.description,
        location=args.location,
        start=start,
        end=end,
        timezone=timezone,
        attendees=[invited(email) for email in _invitees(call, args.attendees)],
        recurrence=fitting(call, Series(rule, start, timezone)) if rule else "",
        visibility="private" if args.private else "default",
        busy=args.busy,
        all_day=args.all_day,
    )
    call.world.insert(event)
    return {**detail(call, Target(event, None, None)), **conflicts(call, event)}


def update_event(call: Call, args: UpdateEvent) -> JsonObject:
    """Change an event, an occurrence or a series."""
    target = find_own_event(call, args.event_id)
    scope = _scope(call, target, args.scope)
    edit = _edit(call, args, target, scope)
    changed = _carry_out(call, target, scope, edit)
    event = changed.event
    series = call.world.get(Event, event.series_id) if event.series_id else None
    answer = detail(call, Target(event, event.original_start, series))
    if changed.reset:
        answer["reset_occurrences"] = list(changed.reset)
    return {**answer, **conflicts(call, event)} if edit.touches_time else answer


def delete_event(call: Call, args: DeleteEvent) -> JsonObject:
    """Cancel an event, an occurrence or a series."""
    target = find_own_event(call, args.event_id)
    scope = _scope(call, target, args.scope)
    cancel(call, target, scope or "all")
    answer: JsonObject = {"event_id": args.event_id, "title": target.event.title, "status": "cancelled"}
    return {**answer, "scope": scope} if scope else answer


def respond(call: Call, args: Respond) -> JsonObject:
    """Record the caller's own response."""
    target = find_event(call, args.event_id)
    event = target.event
    if event.attendee(call.person.email) is None:
        own = event.organizer == call.person.email
        raise call.refuse(
            f"you organise {event.title!r}; change or delete it instead."
            if own
            else f"you are not invited to {event.title!r}, so there is nothing to answer."
        )
    refuse_cancelled(call, target)
    values = {"attendees": _answered(call, event, args)}
    if target.series is event and target.original_start is not None:
        take_out(call, event, target.original_start, values)
    else:
        call.world.update(event, **values)
        for changed in changed_occurrences(call.world, event) if event.recurrence else ():
            call.world.update(changed, attendees=_answered(call, changed, args))
    occurrence = target.occurrence
    return {
        "event_id": args.event_id,
        "title": event.title,
        **times(call, event, occurrence.start, occurrence.end),
        "organizer": event.organizer,
        "response": args.response,
    }


def _answered(call: Call, event: Event, args: Respond) -> list[Attendee]:
    answered: list[Attendee] = []
    for attendee in event.attendees:
        if attendee["email"] != call.person.email:
            answered.append(attendee)
            continue
        mine: Attendee = {**attendee, "response": args.response}
        if args.comment is not None:
            mine["comment"] = args.comment
        answered.append(mine)
    return answered


def _scope(call: Call, target: Target, scope: Scope | None) -> Scope | None:
    """What an edit reaches; None for a single event."""
    if target.original_start is not None:
        return scope or "this"
    if not target.event.recurrence:
        return None
    if scope != "all":
        raise call.refuse(
            f"{target.event.id} is a whole series. Give scope all, or the event_id of an occurrence "
            "(from calendar_list_events) with scope this or following."
        )
    return scope


def _edit(call: Call, args: UpdateEvent, target: Target, scope: Scope | None) -> Edit:
    base = target.occurrence
    if scope in ("following", "all") and target.series is not None and target.original_start is not None:
        base = Occurrence(target.series, target.original_start, end_of(target.series, target.original_start))
    if args.recurrence is not None and target.original_start is not None and scope == "this":
        raise call.refuse("a single occurrence cannot recur. Use scope following or all to change the recurrence.")
    start, end, timezone = _new_times(call, args, base)
    rule = _rule(call, args.recurrence)
    repeated = bool(base.event.recurrence if rule is None else rule) and scope != "this"
    _possible(call, start, end, repeated=repeated)
    details: dict[str, Any] = {
        name: value
        for name in ("title", "location", "description", "busy")
        if (value := getattr(args, name)) is not None
    }
    if args.private is not None:
        details["visibility"] = "private" if args.private else "default"
    attendees = None if args.attendees is None else tuple(_invitees(call, args.attendees))
    moved = (start, end) != (base.start, base.end)
    return Edit(details, attendees, start, end, timezone, moved, rule)


def _new_times(call: Call, args: UpdateEvent, base: Occurrence) -> tuple[int, int, str]:
    event = base.event
    timezone = _zone(call, args.timezone) or event.timezone
    if event.all_day:
        # A day is a day in whichever zone; only its midnight is another instant.
        first, after = day_of(base.start, event.timezone), day_of(base.end, event.timezone)
        start = midnight(first, timezone) if args.start is None else read_day(call, args.start, "start", timezone)
        if args.end is not None:
            return start, read_day(call, args.end, "end", timezone), timezone
        return start, midnight(day_of(start, timezone) + (after - first), timezone), timezone
    clock = args.timezone or call.person.timezone
    start = base.start if args.start is None else read_time(call, args.start, "start", clock)
    end = start + base.end - base.start if args.end is None else read_time(call, args.end, "end", clock)
    return start, end, timezone


def _carry_out(call: Call, target: Target, scope: Scope | None, edit: Edit) -> Changed:
    series, start = target.series, target.original_start
    if scope == "all" and start is None:
        return change_all(call, target.event, target.event.start, edit)
    if series is None or start is None or (scope == "this" and target.event is not series):
        return change_event(call, target.event, edit)
    if scope == "this":
        return change_this(call, series, start, edit)
    return (change_all if scope == "all" else change_following)(call, series, start, edit)


def _zone(call: Call, name: str | None) -> str | None:
    if name is not None and not known_zone(name):
        raise call.refuse(f"timezone {zone_problem(name)}")
    return name


def _rule(call: Call, text: str | None) -> str | None:
    if not text:
        return text
    try:
        return parse_rule(text).text()
    except ValueError as error:
        raise call.refuse(
            f"recurrence {text[:80]!r}: {error}. Write it like FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10."
        ) from None


def _possible(call: Call, start: int, end: int, *, repeated: bool) -> None:
    if end <= start:
        raise call.refuse(
            f"the end {call.local(end)} is not after the start {call.local(start)}. Give an end after the "
            "start; an all-day event ends on the day after its last day."
        )
    longest = LONGEST_REPEATED if repeated else LONGEST
    if end - start > longest:
        raise call.refuse(
            f"the event would last {(end - start) // DAY} days; at most {longest // DAY} days"
            f"{' for one that recurs' if repeated else ''}. Check start and end."
        )


def _invitees(call: Call, texts: list[str]) -> list[str]:
    return [email for email in find_addresses(call, texts) if email != call.person.email]
