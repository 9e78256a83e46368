"""The calendar's one record type.

An event is single, or a series (it has ``recurrence``), or a changed occurrence of a series (it has
``series_id`` and ``original_start``). What keeps these three simple:

* A series lists in ``excluded`` the starts of all occurrences that it no longer stands for, deleted or
  changed ones alike.
* A changed occurrence is a record of its own under the very id that the occurrence had: ``<series
  id>_<YYYYMMDDTHHMMSSZ>``. Expanding a series therefore never looks at other records.
* A deleted event stays, with ``status: cancelled``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, NotRequired, cast

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from servers.records import Instant, Record, Ref
from servers.services.calendar.recurrence import Series

Response = Literal["needs_action", "accepted", "declined", "tentative"]


class Attendee(TypedDict):
    """Someone invited. A plain dictionary, because that is what a stored list gives back."""

    email: str
    response: Response
    optional: bool
    comment: NotRequired[str]
    """What the attendee wrote with the response, for the organizer."""


def invited(email: str) -> Attendee:
    """An attendee who has not answered yet."""
    return {"email": email, "response": "needs_action", "optional": False}


def _complete(value: object) -> object:
    """Let authors write an attendee as an address, and leave out what is as usual."""
    if isinstance(value, str):
        return invited(value)
    if isinstance(value, Mapping):
        return {**invited(""), **cast("Mapping[str, Any]", value)}
    return value


class Event(Record):
    """An event, a series of events, or a changed occurrence of a series."""

    type_name: ClassVar[str] = "calendar.event"

    id: str = Field(min_length=1)
    organizer: str
    """Mail address. The organizer attends without being listed among the attendees."""
    title: str
    description: str = ""
    location: str = ""
    start: Instant
    end: Instant
    """Exclusive. Of an all-day event: the midnight at which the day after the last one begins."""
    timezone: str = ""
    """IANA name; the organizer's when empty. A series recurs on this zone's clock."""
    attendees: list[Annotated[Attendee, BeforeValidator(_complete)]] = Field(default_factory=list[Attendee])
    recurrence: str = ""
    """RRULE; empty for a single event."""
    excluded: list[Instant] = Field(default_factory=list[int])
    """Starts of occurrences that were deleted or changed, in order."""
    visibility: Literal["default", "private"] = "default"
    busy: bool = True
    all_day: bool = False
    status: Literal["confirmed", "cancelled"] = "confirmed"
    series_id: Annotated[str, Ref("calendar.event")] | None = None
    original_start: Instant | None = None
    """When a changed occurrence would have been."""

    @property
    def series(self) -> Series:
        """What decides when this series happens."""
        return Series(self.recurrence, self.start, self.timezone)

    def attendee(self, email: str) -> Attendee | None:
        """The entry of a person among the attendees, or None."""
        for attendee in self.attendees:
            if attendee["email"] == email:
                return attendee
        return None

    def involves(self, email: str) -> bool:
        """Whether a person organises the event or is invited to it."""
        return self.organizer == email or self.attendee(email) is not None

    def takes_time_of(self, email: str) -> bool:
        """Whether the event makes this person busy: involved, and not declined."""
        attendee = self.attendee(email)
        if not self.busy or self.status == "cancelled":
            return False
        return attendee["response"] != "declined" if attendee else self.organizer == email


def occurrence_id(series_id: str, start: int) -> str:
    """The id of the occurrence of a series that starts at this instant."""
    return f"{series_id}_{datetime.fromtimestamp(start, UTC):%Y%m%dT%H%M%SZ}"
