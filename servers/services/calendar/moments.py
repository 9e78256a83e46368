"""Moments and wall clocks: what a calendar needs to know about time zones.

An instant is whole seconds since 1970 UTC; a wall time is a naive datetime as a clock in some zone shows it.
A wall time that a clock change skips counts as if the clock had not changed yet (02:30 becomes 03:30), one
that comes twice is the first of the two, as RFC 5545 section 3.3.5 wants it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from servers.errors import suggest
from servers.tools import Call, zone

MINUTE = 60
DAY = 86400
LONGEST = 366 * DAY
"""Longest event and longest time range that anyone may ask for."""
LAST_YEAR = 2100
FIRST_INSTANT = 0
LAST_INSTANT = int(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp())


def wall(instant: int, timezone: str) -> datetime:
    """What a clock in the zone shows at the instant, without zone."""
    return datetime.fromtimestamp(instant, zone(timezone)).replace(tzinfo=None, fold=0)


def at(moment: datetime, timezone: str) -> int:
    """The instant at which a clock in the zone shows the given wall time."""
    return int(moment.replace(tzinfo=zone(timezone)).timestamp())


def day_of(instant: int, timezone: str) -> date:
    """The date in the zone at the instant."""
    return datetime.fromtimestamp(instant, zone(timezone)).date()


def midnight(day: date, timezone: str) -> int:
    """The instant at which a day begins in the zone."""
    return at(datetime(day.year, day.month, day.day), timezone)  # noqa: DTZ001 - a wall time by intent


def known_zone(name: str) -> bool:
    """Whether this is the IANA name of a place, or UTC; not a name whose meaning depends on the machine."""
    if name == "UTC":
        return True
    if "/" not in name or name.startswith(("posix/", "right/")):
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def zone_problem(name: str) -> str:
    """Why a name is no time zone, and which ones are close."""
    name = name[:60]
    return f"{name!r} is not an IANA time zone such as Europe/Berlin. {suggest(name, available_timezones())}"


def read_time(call: Call, text: str, argument: str, timezone: str) -> int:
    """Read a time argument; without offset it is a wall time in ``timezone``.

    Raises:
        ToolError: No time, outside 1970 to 2100, or in the hour that clocks there skip in spring.
    """
    instant = call.instant(text, argument)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        _bounded(call, instant, text, argument)  # near the years 1 and 9999 there is no other zone to go to
        instant = at(moment, timezone)
        if wall(instant, timezone) != moment.replace(microsecond=0, fold=0):
            later = call.local(instant, timezone)
            raise call.refuse(
                f"{argument} {text[:60]!r} does not exist: on that day the clocks in {timezone} go forward and skip "
                f"{moment:%H:%M}. Take a time that exists, such as {later}."
            )
    return _bounded(call, instant, text, argument)


def read_day(call: Call, text: str, argument: str, timezone: str) -> int:
    """Read a date argument as the instant at which that day begins in ``timezone``.

    Raises:
        ToolError: No date, or outside 1970 to 2100.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise call.refuse(
            f"{argument} {text[:60]!r} is not a date. The event is all-day: write dates like 2026-03-02, "
            "end being the day after the last day."
        ) from None
    if not 1970 < day.year <= LAST_YEAR:
        raise _out_of_bounds(call, text, argument)
    return midnight(day, timezone)


def read_range(call: Call, start: str, end: str, names: tuple[str, str], longest: int = LONGEST) -> tuple[int, int]:
    """Read two time arguments as a range, in the caller's zone where they have no offset.

    Raises:
        ToolError: No times, not in order, or further apart than ``longest`` seconds.
    """
    begin = read_time(call, start, names[0], call.person.timezone)
    finish = read_time(call, end, names[1], call.person.timezone)
    if finish <= begin:
        raise call.refuse(f"{names[1]} {end!r} is not after {names[0]} {start!r}. Swap or correct them.")
    if finish - begin > longest:
        raise call.refuse(
            f"{names[0]} and {names[1]} are {(finish - begin) // DAY} days apart; "
            f"at most {longest // DAY} days at a time."
        )
    return begin, finish


def shifted(instant: int, timezone: str, by: timedelta, to_timezone: str) -> int:
    """Move an instant by a difference of wall clocks, so that 09:00 stays 09:00 across a clock change."""
    return at(wall(instant, timezone) + by, to_timezone)


def _bounded(call: Call, instant: int, text: str, argument: str) -> int:
    if not FIRST_INSTANT + DAY <= instant < LAST_INSTANT:
        raise _out_of_bounds(call, text, argument)
    return instant


def _out_of_bounds(call: Call, text: str, argument: str) -> Exception:
    return call.refuse(f"{argument} {text[:60]!r} is out of range: this calendar goes from 1970 to {LAST_YEAR}.")
