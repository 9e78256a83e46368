"""Recurrence rules: the part of RFC 5545 that calendars show in their dialogs, expanded within fixed bounds.

* ``parse_rule`` reads an RRULE; ``Rule.text`` writes it in one canonical form, so that equal rules are equal
  text.
* ``occurrences`` gives the starts of a series in a window; ``is_occurrence``, ``count_before`` and
  ``next_start`` build on it.

Rules expand on the wall clock of the event's zone: 09:00 stays 09:00 when the clocks change.

Why not ``dateutil.rrule``: a rule that never happens (30 February) makes it search until the year 9999,
seconds of work that no argument limits, and a window far from the start costs all occurrences before it. Here
a window costs its own periods only, whatever the rule. The tests hold this module to dateutil's results.

Not supported: frequencies below a day, BYHOUR and finer, BYYEARDAY, BYWEEKNO.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import isleap, monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple, get_args

from servers.services.calendar.moments import DAY, LAST_INSTANT, LAST_YEAR, at, day_of, midnight, wall

Frequency = Literal["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]
FREQUENCIES: tuple[str, ...] = get_args(Frequency)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
PARTS = ("FREQ", "INTERVAL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST", "COUNT", "UNTIL")
MOST_OCCURRENCES = 1000
"""Largest COUNT."""
LONGEST_INTERVAL = 400
LONGEST_TEXT = 400
BLOCK = 32 * DAY
"""Series without COUNT are expanded, and kept, in blocks of this many seconds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A recurrence rule as written; empty tuples where a part is not given."""

    freq: Frequency
    interval: int = 1
    months: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    """1 to 31, or -1 to -31 from the end of the month."""
    weekdays: tuple[tuple[int, int], ...] = ()
    """(weekday, n): Monday is 0; n-th in the month or year, negative from its end, 0 for every one."""
    positions: tuple[int, ...] = ()
    """Which of the days of a month or year remain, from 1 or from -1."""
    week_start: int = 0
    count: int | None = None
    until: str = ""
    """``YYYYMMDD`` (that day included), or ``YYYYMMDDTHHMMSS`` with Z for UTC and without for the event's
    zone."""

    def text(self) -> str:
        """The rule in canonical form."""
        parts = [f"FREQ={self.freq}"]
        if self.interval > 1:
            parts.append(f"INTERVAL={self.interval}")
        for name, values in (("BYMONTH", self.months), ("BYMONTHDAY", self.month_days)):
            if values:
                parts.append(f"{name}={_joined(values)}")
        if self.weekdays:
            parts.append("BYDAY=" + ",".join(f"{n or ''}{WEEKDAYS[day]}" for day, n in self.weekdays))
        if self.positions:
            parts.append(f"BYSETPOS={_joined(self.positions)}")
        if self.week_start:
            parts.append(f"WKST={WEEKDAYS[self.week_start]}")
        if self.count is not None:
            parts.append(f"COUNT={self.count}")
        if self.until:
            parts.append(f"UNTIL={self.until}")
        return ";".join(parts)

    def ending_before(self, instant: int) -> Rule:
        """The same rule, over before ``instant``."""
        last = datetime.fromtimestamp(instant - 1, UTC)
        return replace(self, count=None, until=last.strftime("%Y%m%dT%H%M%SZ"))


class Series(NamedTuple):
    """What decides when a series happens."""

    recurrence: str
    start: int
    timezone: str


# ---------------------------------------------------------------------- reading


@lru_cache(maxsize=4096)
def parse_rule(text: str) -> Rule:
    """Read an RRULE, with or without the ``RRULE:`` in front.

    Raises:
        ValueError: With words for whoever wrote it.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"the rule is longer than {LONGEST_TEXT} characters")
    given: dict[str, str] = {}
    for part in text.strip().upper().removeprefix("RRULE:").rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        if not (equals and value):
            raise ValueError(f"{part[:40]!r} is not of the form NAME=VALUE")
        if name not in PARTS:
            raise ValueError(f"{name[:40]!r} is not supported; the parts are {', '.join(PARTS)}")
        if name in given:
            raise ValueError(f"{name} is there twice")
        given[name] = value
    rule = Rule(
        freq=_frequency(given.get("FREQ", "")),
        interval=_number("INTERVAL", given.get("INTERVAL", "1"), LONGEST_INTERVAL),
        months=_numbers(given, "BYMONTH", 12, signed=False),
        month_days=_numbers(given, "BYMONTHDAY", 31, signed=True),
        weekdays=_weekdays(given.get("BYDAY", "")),
        positions=_numbers(given, "BYSETPOS", 366, signed=True),
        week_start=_weekday("WKST", given.get("WKST", "MO")),
        count=_number("COUNT", given["COUNT"], MOST_OCCURRENCES) if "COUNT" in given else None,
        until=_until(given.get("UNTIL", "")),
    )
    _hold_together(rule)
    return rule


def _hold_together(rule: Rule) -> None:
    if rule.count is not None and rule.until:
        raise ValueError("COUNT and UNTIL exclude each other; give one of them")
    if rule.freq in ("DAILY", "WEEKLY"):
        if any(n for _, n in rule.weekdays):
            raise ValueError(f"FREQ={rule.freq} takes plain weekdays in BYDAY (MO, not 1MO); use FREQ=MONTHLY for 1MO")
        if rule.month_days or rule.positions:
            raise ValueError(f"FREQ={rule.freq} takes neither BYMONTHDAY nor BYSETPOS; use FREQ=MONTHLY")
    if rule.positions and not (rule.weekdays or rule.month_days):
        raise ValueError("BYSETPOS chooses among days, so it needs BYDAY or BYMONTHDAY")
    if any(abs(n) > 5 for _, n in rule.weekdays) and (rule.freq == "MONTHLY" or rule.months):
        raise ValueError("a month has at most five of a weekday; BYDAY goes from -5 to 5 there")


def _frequency(value: str) -> Frequency:
    for frequency in get_args(Frequency):
        if value == frequency:
            return frequency
    raise ValueError(f"FREQ must be one of {', '.join(FREQUENCIES)} (got {value[:20]!r})")


def _number(name: str, value: str, most: int) -> int:
    if re.fullmatch("[0-9]{1,6}", value) is None or not 1 <= int(value) <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most} (got {value[:20]!r})")
    return int(value)


def _numbers(given: Mapping[str, str], name: str, most: int, *, signed: bool) -> tuple[int, ...]:
    numbers: set[int] = set()
    for value in given[name].split(",") if name in given else ():
        sign = -1 if signed and value.startswith("-") else 1
        numbers.add(sign * _number(name, value.lstrip("+-") if signed else value, most))
    return tuple(sorted(numbers))


def _weekdays(value: str) -> tuple[tuple[int, int], ...]:
    days: set[tuple[int, int]] = set()
    for item in value.split(",") if value else ():
        match = re.fullmatch("([+-]?[0-9]{1,2})?([A-Z]{2})", item)
        n = int(match[1] or 0) if match else 0
        if match is None or abs(n) > 53 or (match[1] is not None and n == 0):
            raise ValueError(f"BYDAY lists weekdays such as MO, TU, 1MO or -1FR (got {item[:20]!r})")
        days.add((_weekday("BYDAY", match[2]), n))
    return tuple(sorted(days))


def _weekday(name: str, value: str) -> int:
    if value not in WEEKDAYS:
        raise ValueError(f"{name} knows the weekdays {', '.join(WEEKDAYS)} (got {value[:20]!r})")
    return WEEKDAYS.index(value)


def _until(value: str) -> str:
    if not value:
        return value
    try:
        moment = datetime.fromisoformat(value if re.fullmatch("[0-9]{8}(T[0-9]{6}Z?)?", value) else "")
    except ValueError:
        raise ValueError(f"UNTIL is written like 20260630 or 20260630T220000Z (got {value[:30]!r})") from None
    if not 1970 < moment.year <= LAST_YEAR:
        raise ValueError(f"UNTIL lies outside 1970 to {LAST_YEAR} (got {value[:30]!r})")
    return value


def _joined(values: tuple[int, ...]) -> str:
    return ",".join(str(value) for value in values)


# ---------------------------------------------------------------------- expanding


def occurrences(series: Series, begin: int, end: int) -> list[int]:
    """Starts of the occurrences with ``begin <= start < end``, in order; exclusions are not looked at.

    Costs the periods of the window (and, for a rule with COUNT, once all of its at most 1000 occurrences).
    """
    plan = _plan(series)
    if plan.rule.count is not None:
        starts = _counted(series)
        return list(starts[bisect_left(starts, begin) : bisect_left(starts, end)])
    begin, end = max(begin, series.start), min(end, plan.until + 1)
    found: list[int] = []
    for number in range(begin // BLOCK, -(-end // BLOCK)):
        found += _block(series, number)
    return found[bisect_left(found, begin) : bisect_left(found, end)]


def is_occurrence(series: Series, instant: int) -> bool:
    """Whether the series happens at this instant."""
    return bool(occurrences(series, instant, instant + 1))


def count_before(series: Series, instant: int) -> int:
    """How many occurrences of a rule with COUNT start before ``instant``."""
    return bisect_left(_counted(series), instant)


def next_start(series: Series, after: int, within: int) -> int | None:
    """The first occurrence from ``after`` on, looking at most ``within`` seconds ahead."""
    for begin in range(after, after + within, BLOCK):
        found = occurrences(series, begin, min(begin + BLOCK, after + within))
        if found:
            return found[0]
    return None


@dataclass(frozen=True, slots=True)
class _Plan:
    """A rule with everything that its start implies."""

    rule: Rule
    first: date
    clock: time
    timezone: str
    until: int
    """Last instant at which an occurrence may start."""


@lru_cache(maxsize=4096)
def _plan(series: Series) -> _Plan:
    rule = parse_rule(series.recurrence)
    start = wall(series.start, series.timezone)
    if not (rule.weekdays or rule.month_days):
        # RFC 5545, 3.3.10: what the rule leaves open is taken from the start.
        if rule.freq == "WEEKLY":
            rule = replace(rule, weekdays=((start.weekday(), 0),))
        elif rule.freq == "MONTHLY":
            rule = replace(rule, month_days=(start.day,))
        elif rule.freq == "YEARLY":
            rule = replace(rule, months=rule.months or (start.month,), month_days=(start.day,))
    return _Plan(rule, start.date(), start.time(), series.timezone, _last_start(rule, series.timezone))


def _last_start(rule: Rule, timezone: str) -> int:
    if not rule.until:
        return LAST_INSTANT - 1
    if "T" not in rule.until:
        last = date.fromisoformat(rule.until)
        return midnight(last + timedelta(days=1), timezone) - 1
    moment = datetime.fromisoformat(rule.until)
    return int(moment.timestamp()) if moment.tzinfo else at(moment, timezone)


@lru_cache(maxsize=4096)
def _counted(series: Series) -> tuple[int, ...]:
    plan = _plan(series)
    return tuple(islice(_walk(plan, plan.first, date(LAST_YEAR, 12, 31)), plan.rule.count))


@lru_cache(maxsize=16384)
def _block(series: Series, number: int) -> tuple[int, ...]:
    plan = _plan(series)
    begin, end = number * BLOCK, (number + 1) * BLOCK
    first, last = day_of(begin, plan.timezone), day_of(end, plan.timezone)
    return tuple(start for start in _walk(plan, first, last) if begin <= start < end)


def _walk(plan: _Plan, first: date, last: date) -> Iterator[int]:
    """Starts of the occurrences in the periods between two days; comes to an end whatever the rule."""
    index = _period_number(plan, first)
    previous = -1
    while True:
        begin, length = _period(plan, index)
        if begin > last:
            return
        for day in _days(plan.rule, begin, length):
            if day < plan.first:
                continue
            start = at(datetime.combine(day, plan.clock), plan.timezone)
            if start > plan.until:
                return
            if start != previous:  # a zone that skipped a whole day gives one instant for two days
                yield start
            previous = start
        index += 1


def _period_number(plan: _Plan, day: date) -> int:
    rule, first = plan.rule, plan.first
    if rule.freq == "DAILY":
        passed = (day - first).days
    elif rule.freq == "WEEKLY":
        passed = (day - _week(first, rule.week_start)).days // 7
    elif rule.freq == "MONTHLY":
        passed = (day.year - first.year) * 12 + day.month - first.month
    else:
        passed = day.year - first.year
    return max(0, passed // rule.interval)


def _period(plan: _Plan, index: int) -> tuple[date, int]:
    """First day and number of days of a period."""
    rule, first, step = plan.rule, plan.first, index * plan.rule.interval
    if rule.freq == "DAILY":
        return first + timedelta(days=step), 1
    if rule.freq == "WEEKLY":
        return _week(first, rule.week_start) + timedelta(weeks=step), 7
    if rule.freq == "MONTHLY":
        year, month = divmod(first.year * 12 + first.month - 1 + step, 12)
        return date(year, month + 1, 1), monthrange(year, month + 1)[1]
    year = first.year + step
    return date(year, 1, 1), 366 if isleap(year) else 365


def _week(day: date, week_start: int) -> date:
    return day - timedelta(days=(day.weekday() - week_start) % 7)


def _days(rule: Rule, begin: date, length: int) -> list[date]:
    days = [day for offset in range(length) if _fits(rule, day := begin + timedelta(days=offset))]
    if not rule.positions:
        return days
    chosen = {days[n - 1] if n > 0 else days[n] for n in rule.positions if abs(n) <= len(days)}
    return sorted(chosen)


def _fits(rule: Rule, day: date) -> bool:
    if rule.months and day.month not in rule.months:
        return False
    if rule.month_days:
        length = monthrange(day.year, day.month)[1]
        if day.day not in rule.month_days and day.day - length - 1 not in rule.month_days:
            return False
    if not rule.weekdays:
        return True
    weekday = day.weekday()
    return any(weekday == wanted and (n == 0 or _is_nth(rule, day, n)) for wanted, n in rule.weekdays)


def _is_nth(rule: Rule, day: date, n: int) -> bool:
    if rule.freq == "YEARLY" and not rule.months:
        position, length = day.timetuple().tm_yday, 366 if isleap(day.year) else 365
    else:
        position, length = day.day, monthrange(day.year, day.month)[1]
    return n == ((position - 1) // 7 + 1 if n > 0 else -((length - position) // 7 + 1))
