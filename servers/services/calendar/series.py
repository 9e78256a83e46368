"""Edits and deletions of one event, one occurrence, an occurrence and all that follow, or a whole series.

An ``Edit`` says what shall be different of the occurrence that is meant; the functions here carry it over to
the records:

* ``this``: the occurrence becomes a record of its own, and the series excludes it.
* ``following``: the series ends before the occurrence, a new series begins with it.
* ``all``: the series itself changes. When its times change, occurrences that had been changed one by one go
  back into it, as in the calendars people know; deleted ones stay deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from servers.services.calendar.access import Target
from servers.services.calendar.moments import day_of, midnight, shifted, wall
from servers.services.calendar.records import Attendee, Event, invited, occurrence_id
from servers.services.calendar.recurrence import Series, count_before, is_occurrence, next_start, parse_rule
from servers.services.calendar.store import changed_occurrences, end_of
from servers.tools import Call

Scope = Literal["this", "following", "all"]


@dataclass(frozen=True, slots=True)
class Edit:
    """What shall be different."""

    details: Mapping[str, Any]
    """Fields that have nothing to do with time or people."""
    attendees: tuple[str, ...] | None
    """Addresses of all who shall be invited; None leaves them."""
    start: int
    end: int
    timezone: str
    """When the occurrence that is meant shall be."""
    moved: bool
    """Start or end differ from what they were."""
    recurrence: str | None = None
    """Canonical rule; empty for none; None leaves it."""

    @property
    def touches_time(self) -> bool:
        """Whether somebody may be busy now who was not asked before."""
        return self.moved or self.attendees is not None or self.recurrence is not None or "busy" in self.details

    def apply(self, event: Event) -> dict[str, Any]:
        """Details and attendees for one record; who stays keeps the response, unless the time changes."""
        values = dict(self.details)
        if self.attendees is not None or self.moved:
            emails = [a["email"] for a in event.attendees] if self.attendees is None else self.attendees
            values["attendees"] = [self._attendee(event, email) for email in emails]
        return values

    def _attendee(self, event: Event, email: str) -> Attendee:
        known = event.attendee(email)
        if known is None:
            return invited(email)
        if self.moved and email != event.organizer:
            return {"email": email, "response": "needs_action", "optional": known["optional"]}
        return known


@dataclass(frozen=True, slots=True)
class Changed:
    """What an edit led to."""

    event: Event
    reset: tuple[str, ...] = ()
    """Ids of changed occurrences that went back into their series."""


def change_event(call: Call, event: Event, edit: Edit) -> Changed:
    """Change a single event or a changed occurrence; with ``recurrence`` a single event becomes a series."""
    values = edit.apply(event) | {"start": edit.start, "end": edit.end, "timezone": edit.timezone}
    if edit.recurrence:
        values["recurrence"] = fitting(call, Series(edit.recurrence, edit.start, edit.timezone))
    return Changed(call.world.update(event, **values))


def change_this(call: Call, series: Event, original_start: int, edit: Edit) -> Changed:
    """Change one occurrence that was as its series says."""
    changed = take_out(call, series, original_start, edit.apply(series))
    return Changed(call.world.update(changed, start=edit.start, end=edit.end, timezone=edit.timezone))


def take_out(call: Call, series: Event, original_start: int, values: Mapping[str, Any]) -> Event:
    """Make an occurrence a record of its own, with some fields changed."""
    copy = Event.model_validate(
        {
            **series.__dict__,
            "id": occurrence_id(series.id, original_start),
            "start": original_start,
            "end": end_of(series, original_start),
            "recurrence": "",
            "excluded": [],
            "series_id": series.id,
            "original_start": original_start,
            **values,
        }
    )
    call.world.insert(copy)
    exclude(call, series, original_start)
    return copy


def exclude(call: Call, series: Event, start: int) -> None:
    """Take one start out of a series."""
    call.world.update(series, excluded=sorted({*series.excluded, start}))


def change_all(call: Call, series: Event, original_start: int, edit: Edit) -> Changed:
    """Change a whole series so that the occurrence at ``original_start`` becomes what the edit says."""
    rule, by = _moved_rule(series, original_start, edit)
    start = shifted(series.start, series.timezone, by, edit.timezone)
    retimed = _retimed(series, edit, rule)
    values = edit.apply(series)
    values |= {
        "start": start,
        "end": _end(series, start, edit),
        "timezone": edit.timezone,
        "recurrence": rule,
    }
    reset: list[str] = []
    changed = changed_occurrences(call.world, series)
    if retimed:
        if rule:
            fitting(call, Series(rule, start, edit.timezone))
        values["excluded"] = _carried(_deleted(series, changed), series, by, Series(rule, start, edit.timezone))
        reset = _put_back(call, changed)
    else:
        for event in _confirmed(changed):
            call.world.update(event, **edit.apply(event))
    return Changed(call.world.update(series, **values), tuple(reset))


def change_following(call: Call, series: Event, original_start: int, edit: Edit) -> Changed:
    """Split a series before an occurrence and change the second part."""
    if original_start == series.start:
        return change_all(call, series, original_start, edit)
    rule, by = _moved_rule(series, original_start, edit)
    if edit.recurrence is None:
        rule = _remaining(series, original_start, rule)
    second = Series(rule, edit.start, edit.timezone)
    if rule:
        fitting(call, second)
    changed = changed_occurrences(call.world, series, original_start)
    deleted = [gone for gone in _deleted(series, changed) if gone >= original_start]
    new = Event.model_validate(
        {
            **series.__dict__,
            **edit.apply(series),
            "id": call.new_id("calendar.event"),
            "start": edit.start,
            "end": edit.end,
            "timezone": edit.timezone,
            "recurrence": rule,
            "excluded": _carried(deleted, series, by, second),
        }
    )
    call.world.insert(new)
    end_before(call, series, original_start)
    reset = _put_back(call, changed)
    if not _retimed(series, edit, edit.recurrence or series.recurrence):
        for event in _confirmed(changed):
            new = _adopt(call, new, event, edit)
        reset = []
    return Changed(new, tuple(reset))


def cancel(call: Call, target: Target, scope: Scope) -> None:
    """Cancel what an id stands for, in the given scope."""
    series, start = target.series, target.original_start
    if series is None or start is None:
        _cancel_record(call, target.event)
        return
    if scope == "this":
        if target.event is series:
            exclude(call, series, start)
        else:
            _cancel_record(call, target.event)
    elif scope == "all" or start == series.start:
        _cancel_record(call, series)
    else:
        for event in changed_occurrences(call.world, series, start):
            call.world.update(event, status="cancelled")
        end_before(call, series, start)


def end_before(call: Call, series: Event, start: int) -> None:
    """Let a series end before one of its starts."""
    rule = parse_rule(series.recurrence).ending_before(start).text()
    call.world.update(series, recurrence=rule, excluded=[gone for gone in series.excluded if gone < start])


def fitting(call: Call, series: Series) -> str:
    """Give the rule of a series if its start is an occurrence of it.

    Raises:
        ToolError: It is not; says what would fit.
    """
    problem = start_problem(series)
    if problem is not None:
        raise call.refuse(problem)
    return series.recurrence


def start_problem(series: Series) -> str | None:
    """Why the start of a series is none of its occurrences, and what would be; None when it is one."""
    if is_occurrence(series, series.start):
        return None
    start = wall(series.start, series.timezone)
    words = f"the start {start:%A %Y-%m-%d} is no occurrence of {series.recurrence}"
    fits = next_start(series, series.start, 5 * 366 * 86400)
    if fits is None:
        return f"{words}, which does not happen in the five years after it. Correct the rule."
    return f"{words}. Start on {wall(fits, series.timezone):%A %Y-%m-%d}, or correct the rule."


def _cancel_record(call: Call, event: Event) -> None:
    for changed in changed_occurrences(call.world, event):
        call.world.update(changed, status="cancelled")
    call.world.update(event, status="cancelled")


def _moved_rule(series: Event, original_start: int, edit: Edit) -> tuple[str, timedelta]:
    """The rule after an edit, and by how much wall clocks move; the end of the rule moves along."""
    by = wall(edit.start, edit.timezone) - wall(original_start, series.timezone)
    if edit.recurrence is not None:
        return edit.recurrence, by
    rule = parse_rule(series.recurrence)
    if rule.until.endswith("Z") and (by or edit.timezone != series.timezone):
        last = int(datetime.fromisoformat(rule.until).timestamp())
        moved = datetime.fromtimestamp(shifted(last, series.timezone, by, edit.timezone), UTC)
        return replace(rule, until=moved.strftime("%Y%m%dT%H%M%SZ")).text(), by
    return series.recurrence, by


def _remaining(series: Event, original_start: int, rule: str) -> str:
    parsed = parse_rule(rule)
    if parsed.count is None:
        return rule
    return replace(parsed, count=parsed.count - count_before(series.series, original_start)).text()


def _retimed(series: Event, edit: Edit, rule: str) -> bool:
    return edit.moved or edit.timezone != series.timezone or rule != series.recurrence


def _end(series: Event, start: int, edit: Edit) -> int:
    """The end of the first occurrence when it starts at ``start`` and lasts as long as the edited one."""
    if not series.all_day:
        return start + edit.end - edit.start
    days = day_of(edit.end, edit.timezone) - day_of(edit.start, edit.timezone)
    return midnight(day_of(start, edit.timezone) + days, edit.timezone)


def _carried(deleted: Iterable[int], series: Event, by: timedelta, to: Series) -> list[int]:
    """Deleted starts of a series as starts of its successor."""
    if not to.recurrence:
        return []
    moved = {shifted(start, series.timezone, by, to.timezone) for start in deleted}
    return sorted(start for start in moved if is_occurrence(to, start))


def _confirmed(changed: Iterable[Event]) -> list[Event]:
    return [event for event in changed if event.status == "confirmed"]


def _deleted(series: Event, changed: Iterable[Event]) -> list[int]:
    """Starts that a series excludes because nothing happens then."""
    alive = {event.original_start for event in _confirmed(changed)}
    return [start for start in series.excluded if start not in alive]


def _put_back(call: Call, changed: Sequence[Event]) -> list[str]:
    """Remove the records of changed occurrences; gives the ids of those that took place."""
    for event in changed:
        call.world.delete(event)
    return [event.id for event in _confirmed(changed)]


def _adopt(call: Call, series: Event, event: Event, edit: Edit) -> Event:
    """Give a changed occurrence to the series that begins with the split."""
    start = event.original_start or 0
    values = {
        **event.__dict__,
        **edit.apply(event),
        "id": occurrence_id(series.id, start),
        "series_id": series.id,
    }
    call.world.insert(Event.model_validate(values))
    return call.world.update(series, excluded=sorted({*series.excluded, start}))
