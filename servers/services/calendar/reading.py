"""Tools that look at calendars: list, search, get."""

from __future__ import annotations

from pydantic import Field

from servers.paging import page
from servers.services.calendar.access import find_colleague, find_event, sees_details
from servers.services.calendar.moments import LONGEST, read_range
from servers.services.calendar.records import Event
from servers.services.calendar.recurrence import next_start
from servers.services.calendar.store import TEXTS, Occurrence, calendar_of, end_of, invited_mark
from servers.services.calendar.views import detail, listed
from servers.tools import Arguments, Call, JsonObject


class ListEvents(Arguments):
    """List events in a time range, in order; every occurrence of a recurring event on its own.

    Shows your calendar, or a colleague's as far as you may see it: private events only as busy time.
    """

    start: str = Field(description="Begin of the range, such as 2026-03-02 or 2026-03-02T09:00:00 (your time zone)")
    end: str = Field(description="End of the range, not included; at most 366 days after start")
    person: str | None = Field(default=None, description="Name or address of a colleague; yourself if left out")
    page_size: int = Field(default=20, ge=1, le=50, description="Events per page, at most 50")
    cursor: str | None = Field(default=None, description="next_cursor of the previous page")


class SearchEvents(Arguments):
    """Search the events you organise or are invited to.

    All words must occur in title, location, description or the people's addresses. A recurring event is
    found once, as its series.
    """

    query: str = Field(max_length=400, description="Words to look for")
    start: str | None = Field(default=None, description="Only events from this time on; give end too")
    end: str | None = Field(default=None, description="Only events before this time; give start too")
    page_size: int = Field(default=20, ge=1, le=50, description="Events per page, at most 50")
    cursor: str | None = Field(default=None, description="next_cursor of the previous page")


class GetEvent(Arguments):
    """Get everything about one event: people and their responses, description, recurrence.

    Takes the id of an event, of one occurrence, or of a series.
    """

    event_id: str = Field(max_length=400, description="An event_id or series_id")


def list_events(call: Call, args: ListEvents) -> JsonObject:
    """List one calendar in a window."""
    owner = call.person if args.person is None else find_colleague(call, args.person)
    begin, end = read_range(call, args.start, args.end, ("start", "end"))
    found = calendar_of(call, owner.email, begin, end)
    if owner is not call.person:
        found = [one for one in found if sees_details(call.person, one.event) or one.event.takes_time_of(owner.email)]
    result = page(
        call,
        f"{owner.email}\0{begin}\0{end}",
        found,
        key=lambda one: one.event_id,
        size=args.page_size,
        cursor=args.cursor,
    )
    return {
        "events": [listed(call, occurrence, owner.email) for occurrence in result.items],
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def search_events(call: Call, args: SearchEvents) -> JsonObject:
    """Find the caller's own events by words."""
    found: dict[str, int | None] = dict.fromkeys(_matching(call, args.query.casefold().split()))
    if args.start is not None and args.end is not None:
        begin, end = read_range(call, args.start, args.end, ("start", "end"))
        firsts: dict[str, int | None] = {}
        for occurrence in calendar_of(call, call.person.email, begin, end):
            if occurrence.event.id in found:
                firsts.setdefault(occurrence.event.id, occurrence.start)
        found = firsts
    elif args.start is not None or args.end is not None:
        raise call.refuse("give both start and end, or neither.")
    scope = f"{args.query}\0{args.start}\0{args.end}"
    result = page(call, scope, list(found.items()), key=lambda hit: hit[0], size=args.page_size, cursor=args.cursor)
    return {
        "events": [_hit(call, event_id, start) for event_id, start in result.items],
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def get_event(call: Call, args: GetEvent) -> JsonObject:
    """Show one event."""
    return detail(call, find_event(call, args.event_id))


def _matching(call: Call, words: list[str]) -> list[str]:
    email = call.person.email
    ids: list[str] = []
    for event_id, *texts in call.world.rows(TEXTS, person=email, invited=invited_mark(email)):
        text = "\n".join(texts).casefold()
        if all(word in text for word in words):
            ids.append(event_id)
    return ids


def _hit(call: Call, event_id: str, start: int | None) -> JsonObject:
    event = call.world.get(Event, event_id)
    if event is None:
        raise LookupError(event_id)  # it was selected in this very call
    if not event.recurrence:
        return listed(call, Occurrence(event, event.start, event.end), call.person.email)
    if start is None:
        start = next_start(event.series, max(call.now, event.start), LONGEST)
    shown = event.start if start is None else start
    occurrence = Occurrence(event, shown, end_of(event, shown))
    line = listed(call, occurrence, call.person.email)
    return {
        **line,
        "event_id": event.id,
        "recurrence": event.recurrence,
        "occurrence_id": occurrence.event_id,
    }
