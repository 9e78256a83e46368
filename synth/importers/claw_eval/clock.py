"""When a task happens: its records stay as they are, and the simulated clock is set so that they make sense.

The original servers shift the dates of some services towards the wall clock, each by another amount. Here no
date is touched. ``start_of`` sets the clock instead, by the first of these rules that applies:

1. The request says which day it is: that day, just after its newest record, or at the beginning of the
working day. 2. There are records of things that have happened (a mail, a ticket, a run of a job): five
minutes after the newest of
   them, but before whatever is to come next. A date without a time counts as the beginning of that working
   day.
3. There are only things to come (events, due dates): the working day before the first of them begins, so
"tomorrow" is theirs. 4. The request names a date: the day before it. 5. A fixed day.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from typing import Any, cast

from servers.declared.times import read_moment
from servers.tools import zone
from synth.importers.claw_eval.vocabulary import Vocabulary

DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
OFFSET = re.compile(r"T\d{2}:\d{2}.*?(Z|[+-]\d{2}:\d{2})$")


def timezone_of(records: Iterable[object], words: Vocabulary) -> str:
    """The time zone in which most moments are written; UTC when there are none."""
    offsets: Counter[str] = Counter()
    for _, text in _dated(list(records)):
        found = OFFSET.search(text)
        if found is not None:
            offsets["+00:00" if found[1] == "Z" else found[1]] += 1
    if not offsets:
        return "UTC"
    offset = max(offsets, key=lambda name: (offsets[name], name))
    if offset in words.zones:
        return words.zones[offset]
    hours, minutes = int(offset[1:3]), offset[4:]
    # IANA writes these the other way round: Etc/GMT-3 is three hours ahead.
    sign = "-" if offset[0] == "+" else "+"
    return f"Etc/GMT{sign}{hours}" if minutes == "00" and hours <= 12 else "UTC"


def start_of(records: Iterable[object], request: str, timezone: str, words: Vocabulary) -> int:
    """The simulated time at which the task begins, seconds since 1970 UTC."""
    past: list[int] = []
    future: list[int] = []
    for name, text in _dated(list(records)):
        moment = read_moment(text, timezone)
        if moment is None:
            continue
        parts = set(name.casefold().split("_"))
        seconds = _opening(moment.day, timezone, words) if len(text) == 10 else moment.seconds
        if parts & set(words.moments.future):
            future.append(seconds)
        elif parts & set(words.moments.past):
            past.append(seconds)
    today = _today(request, words)
    if today is not None:
        first = _opening(today, timezone, words)
        past = [seconds for seconds in past if first <= seconds < first + (24 - words.clock.hour) * 3600]
        return _after(max(past), future, words) if past else first
    if past:
        return _after(max(past), future, words)
    named = [read_moment(text, timezone) for text in DATE.findall(request)]
    days = [moment.day for moment in named if moment is not None]
    if future:
        days = [datetime.fromtimestamp(min(future), zone(timezone)).date()]
    first_day = min(days) - timedelta(days=1) if days else date.fromisoformat(words.clock.day)
    return _opening(first_day, timezone, words)


def _after(newest: int, future: list[int], words: Vocabulary) -> int:
    coming = [seconds for seconds in future if seconds > newest]
    if coming and min(coming) - newest <= words.clock.after:
        return newest + (min(coming) - newest) // 2
    return newest + words.clock.after


def _opening(day: date, timezone: str, words: Vocabulary) -> int:
    return int(datetime.combine(day, time(words.clock.hour), zone(timezone)).timestamp())


def _today(request: str, words: Vocabulary) -> date | None:
    for pattern in words.today:
        found = re.search(pattern, request, re.IGNORECASE)
        if found is None:
            continue
        parts = found.groupdict()
        try:
            if "text" in parts:
                return datetime.strptime(parts["text"].replace(",", ""), "%B %d %Y").date()  # noqa: DTZ007 - a date
            return date(int(parts["year"]), int(parts["month"]), int(parts["day"]))
        except ValueError:
            continue
    return None


def _dated(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text below ``value`` that begins with a date, with the name of its field."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _dated(item, key)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _dated(item, name)
    elif isinstance(value, str) and len(value) < 40 and DATE.match(value):
        yield name, value
