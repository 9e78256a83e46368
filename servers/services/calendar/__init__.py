"""Calendar: events across time zones, recurring series, invitations, free/busy and common free times.

* ``records``: the one record type, and how series and their changed occurrences are kept.
* ``moments``, ``recurrence``, ``spans``: time zones, recurrence rules, and sets of time. They know nothing of
  calendars.
* ``store``: events as occurrences in a window. ``access``: who may see and change what. ``views``: what
  answers show.
* ``reading``, ``editing``, ``availability``: the tools. ``series``: edits and deletions within a series.
* ``authoring``: what is checked and completed in records from outside.

Not promised: several calendars per person, rooms and other resources, reminders, invitations by mail.
"""

from __future__ import annotations

from servers.services.calendar.authoring import check, prepare
from servers.services.calendar.availability import FreeBusy, SuggestTimes, free_busy, suggest_times
from servers.services.calendar.editing import (
    CreateEvent,
    DeleteEvent,
    Respond,
    UpdateEvent,
    create_event,
    delete_event,
    respond,
    update_event,
)
from servers.services.calendar.reading import (
    GetEvent,
    ListEvents,
    SearchEvents,
    get_event,
    list_events,
    search_events,
)
from servers.services.calendar.records import Event
from servers.tools import Service, tool

CALENDAR = Service(
    name="calendar",
    title="Calendar",
    summary="Events across time zones, recurring series, invitations, free/busy and common free times.",
    records=(Event,),
    tools=(
        tool("calendar_list_events", ListEvents, list_events),
        tool("calendar_search", SearchEvents, search_events),
        tool("calendar_get_event", GetEvent, get_event),
        tool("calendar_create_event", CreateEvent, create_event, effect="write"),
        tool("calendar_update_event", UpdateEvent, update_event, effect="write"),
        tool("calendar_delete_event", DeleteEvent, delete_event, effect="destroy"),
        tool("calendar_respond", Respond, respond, effect="write", idempotent=True),
        tool("calendar_free_busy", FreeBusy, free_busy),
        tool("calendar_suggest_times", SuggestTimes, suggest_times),
    ),
    check=check,
    prepare=prepare,
)

__all__ = ["CALENDAR"]
