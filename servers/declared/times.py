"""Moments as records write them: instants, texts with or without a time, bare dates.

A bare date in a tool's argument means the whole day *as the records write it*: an agent that reads
``2026-03-02T23:30:00+01:00`` and asks for 2026-03-02 gets that record, wherever its own clock stands. An
argument with a time means a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from servers.tools import Call, zone

EARLIEST = -2_208_988_800
"""1900-01-01; what lies outside is a slip, and calendars break there."""
LATEST = 7_258_118_400
"""2200-01-01."""
LONGEST_DAYS = 36_500
Bound: TypeAlias = date | int
"""A day, or a moment in seconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment that a record holds."""

    day: date
    """The date as written."""
    seconds: int
    """Since 1970 UTC; midnight for a bare date."""


def read_moment(value: object, timezone: str) -> Moment | None:
    """Read what a record holds; a text without an offset is in ``timezone``. None when it is no moment."""
    if isinstance(value, str):
        return _read_text(value, timezone)
    if isinstance(value, int) and not isinstance(value, bool) and EARLIEST <= value <= LATEST:
        return Moment(datetime.fromtimestamp(value, zone(timezone)).date(), value)
    return None


@lru_cache(maxsize=16_384)
def _read_text(text: str, timezone: str) -> Moment | None:
    # Kept, because every list reads the moments of all records again.
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone(timezone))
        return Moment(moment.date(), int(aware.timestamp()))
    except (ValueError, OverflowError):
        return None


def read_bound(call: Call, value: object, argument: str) -> Bound:
    """Read an argument as a whole day or as a moment.

    Raises:
        ToolError: It is neither.
    """
    text = str(value)
    day = _bare_date(text)
    return day if day is not None else read_instant(call, text, argument)


def read_day(call: Call, value: object, argument: str) -> date:
    """Read an argument as a day; of a text with a time, the date as written.

    Raises:
        ToolError: It is none.
    """
    bound = read_bound(call, value, argument)
    return bound if isinstance(bound, date) else datetime.fromisoformat(str(value)).date()


def read_instant(call: Call, text: str, argument: str) -> int:
    """Read an argument as a moment between 1900 and 2200.

    Raises:
        ToolError: It is none.
    """
    instant = call.instant(text, argument)
    if not EARLIEST <= instant <= LATEST:
        raise call.refuse(f"{argument} {text!r} is out of range; give a time between 1900 and 2200.")
    return instant


def check_text(call: Call, value: object, form: str, argument: str) -> None:
    """Refuse a text that is not of the form ``date`` or ``time``.

    Raises:
        ToolError: It is not.
    """
    text = str(value)
    if form == "date":
        if _bare_date(text) is None:
            raise call.refuse(f"{argument} {text!r} is not a date. Write it like 2026-03-02.")
    elif _bare_date(text) is None:
        read_instant(call, text, argument)


def not_before(moment: Moment, bound: Bound) -> bool:
    """Whether a moment is not before a bound."""
    return moment.day >= bound if isinstance(bound, date) else moment.seconds >= bound


def not_after(moment: Moment, bound: Bound) -> bool:
    """Whether a moment is not after a bound; a day lasts until its end."""
    return moment.day <= bound if isinstance(bound, date) else moment.seconds <= bound


def last_day(call: Call, first: date, days: int, argument: str) -> date:
    """The last day of ``days`` days that begin with ``first``.

    Raises:
        ToolError: The number makes no sense.
    """
    if not 1 <= days <= LONGEST_DAYS:
        raise call.refuse(f"{argument} must be between 1 and {LONGEST_DAYS} (got {days}).")
    try:
        return first + timedelta(days=days - 1)
    except OverflowError:
        return date.max


def _bare_date(text: str) -> date | None:
    if len(text) != 10:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
