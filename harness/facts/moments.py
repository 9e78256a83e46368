"""Readers of dates and times of day.

Readings that are decided here:

- *Dates* with a month name, ISO dates, and numeric dates where only one reading exists (a part above 12, or
  both parts equal) or the vocabulary says the order. Two-digit years need that order too. A date without a
  year is the one nearest to the reference date. A weekday before a date is part of it; if it contradicts the
  date, nothing is certain.
- *Relative dates* against the reference date, only where all usual readings agree: today, tomorrow,
  yesterday, the day after tomorrow; "this Thursday" if it is still to come this week; "coming Thursday";
  "next Tuesday" and "last Friday" where "the nearest one" and "the one of next or last week" are the same
  day. A bare "Thursday" is no fact.
- *Times* on the 24-hour clock (15:00, 09:30, 15h00) or with am and pm; noon and midnight. An hour of one
  digit without am or pm is read as a morning hour from 7 to 9 and is otherwise ambiguous ("2:30" in an office
  is rarely at night). In "2-3:30 pm" the first time is completed by the second.
- *Zones*: Z, UTC, offsets, and names with one offset are stored as the offset; names whose offset depends on
  the season (CET, ET, Europe/Berlin) as they are. A minus after a time of day is an offset in an ISO
  timestamp, else it joins two times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta

from harness.facts.model import SEASONAL_ZONES, Claims, ClockTime, Vocabulary

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_GAP = r"\s{1,3}"
# Month and day names need their capital: "may 3 people come" is no date.
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)(?![a-z])"
)
_WEEKDAY = (
    r"(?:Mon(?:day)?|Tue(?:s|sday)?|Wed(?:nesday)?|Thu(?:r|rs|rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)"
    r"(?![a-z])"
)
_LEAD = rf"(?<![\w/#$€£¥.:-])(?:(?P<weekday>{_WEEKDAY})\.?,?{_GAP}(?:the{_GAP})?)?"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_FIRST = r"(?:(?P<first>[0-9]{1,2})(?:st|nd|rd|th)?\s?(?:[-\u2013\u2014]|to|and|&)\s?)?"
_YEAR = r"(?P<year>(?:19|20)[0-9]{2})(?![\w]|[.,:/-][0-9])"
_END = r"(?!\w|[:/-][0-9]|[.,][0-9])"

_ISO = re.compile(
    rf"{_LEAD}(?P<year>[0-9]{{4}})([-/])(?P<month>[0-9]{{1,2}})\3(?P<day>[0-9]{{1,2}})(?![0-9]|[-/][0-9])"
)
_NUMERIC = re.compile(
    rf"{_LEAD}(?P<a>[0-9]{{1,2}})(?P<mark>[/.-])(?P<b>[0-9]{{1,2}})(?P=mark)(?P<year>[0-9]{{4}}|[0-9]{{2}}){_END}"
)
_DAY_MONTH = re.compile(
    rf"{_LEAD}{_FIRST}{_DAY}(?:{_GAP}of)?(?:{_GAP}|-)(?P<month>{_MONTH})\.?(?:(?:,?{_GAP}|-){_YEAR})?(?!\w|-\w)"
)
_MONTH_DAY = re.compile(rf"{_LEAD}(?P<month>{_MONTH})\.?{_GAP}{_FIRST}{_DAY}(?:,?{_GAP}{_YEAR})?{_END}")
_MONTH_YEAR = re.compile(rf"(?<!\w){_MONTH}\.?,?{_GAP}(?:19|20)[0-9]{{2}}(?!\w)")
_SLASHED = re.compile(r"(?<![\w/.])[0-9]{1,2}/[0-9]{1,2}(?![\w/])")
_RELATIVE = re.compile(
    rf"(?<![\w-])(?i:(?P<word>the{_GAP}day{_GAP}after{_GAP}tomorrow|the{_GAP}day{_GAP}before{_GAP}yesterday"
    rf"|today|tomorrow|yesterday)|(?P<which>this{_GAP}coming|this|coming|next|last){_GAP}(?P<name>{_WEEKDAY}))(?![\w-])"
)
_SHIFTS: Mapping[str, int] = {
    "today": 0,
    "tomorrow": 1,
    "yesterday": -1,
    "the day after tomorrow": 2,
    "the day before yesterday": -2,
}

_OFFSETS: Mapping[str, str] = {
    "Z": "+00:00", "UTC": "+00:00", "GMT": "+00:00", "BST": "+01:00", "CEST": "+02:00", "EEST": "+03:00",
    "EDT": "-04:00", "CDT": "-05:00", "MDT": "-06:00", "PDT": "-07:00", "JST": "+09:00", "AEDT": "+11:00",
}  # fmt: skip
_ZONE_NAME = (
    rf"(?:{'|'.join(sorted((*_OFFSETS, *SEASONAL_ZONES, 'IST'), key=len, reverse=True))}"
    r"|(?:Europe|America|Asia|Africa|Australia|Pacific|Atlantic|Indian)/[A-Z][A-Za-z_]{1,30})(?![\w/])"
)
_ZONE_OFFSET = r"[+-][0-9]{1,2}(?::?[0-9]{2})?(?![\w:])"
_ZONE_WRITTEN = rf"(?:UTC|GMT){_ZONE_OFFSET}|{_ZONE_NAME}"
_ZONE = re.compile(rf"\s?(?:\((?P<bracketed>{_ZONE_OFFSET}|{_ZONE_WRITTEN})\)|(?P<zone>{_ZONE_WRITTEN}))")
_PLUS_OFFSET = re.compile(r"\+[0-9]{2}:?[0-9]{2}(?![0-9:])")
_ISO_OFFSET = re.compile(r"[+-][0-9]{2}:?[0-9]{2}(?![0-9:])")
_MERIDIEM = r"\s?(?P<half>[AaPp])\.?\s?[Mm](?!\w)\.?"
_TWENTY_FOUR = re.compile(
    r"(?:(?<![\w:.,/$€£¥+])|(?P<iso>(?<=[0-9]T)))(?P<hour>[0-9]{1,2})[:](?P<minute>[0-5][0-9])(?::[0-5][0-9](?:\.[0-9]{1,9})?)?(?![0-9]|[:.,][0-9])"
)
_TWELVE = re.compile(
    r"(?<![\w:.,/$€£¥])(?:(?P<hour1>[0-9]{1,2})(?:[:.](?P<minute1>[0-5][0-9]))?\s?(?:[-\u2013\u2014]|to|until|till)\s?)?"
    rf"(?P<hour>[0-9]{{1,2}})(?:[:.](?P<minute>[0-5][0-9]))?{_MERIDIEM}"
)
_WITH_H = re.compile(r"(?<!\w)(?P<hour>[01][0-9]|2[0-3])h(?P<minute>[0-5][0-9])(?!\w)")
_NAMED_TIME = re.compile(r"(?<![\w-])(?i:(?P<noon>noon|midday)|midnight)(?![\w-])")


def read_dates(claims: Claims, vocabulary: Vocabulary) -> None:
    """Claim all dates, and what looks like one but has no certain reading."""
    text, reference = claims.text, vocabulary.reference
    for found in _ISO.finditer(text):
        _claim(claims, found, _checked(found, _day(int(found["year"]), int(found["month"]), int(found["day"]))))
    for found in _NUMERIC.finditer(text):
        _claim(claims, found, _checked(found, _numeric(found, vocabulary)))
    for pattern in (_DAY_MONTH, _MONTH_DAY):
        for found in pattern.finditer(text):
            _read_named_month(claims, found, reference)
    for pattern in (_MONTH_YEAR, _SLASHED):
        for found in pattern.finditer(text):
            _claim(claims, found, None)
    for found in _RELATIVE.finditer(text):
        day = None if reference is None else _relative(found, reference)
        if day is not None:
            claims.add("date", day, *found.span(), relative=True)


def read_times(claims: Claims) -> None:
    """Claim all times of day, and what looks like one but has no certain reading; dates come first."""
    text = claims.text
    for found in _TWELVE.finditer(text):
        _read_twelve(claims, found)
    for found in _WITH_H.finditer(text):
        _claim_time(claims, found.start(), found.end(), int(found["hour"]), int(found["minute"]))
    for found in _TWENTY_FOUR.finditer(text):
        if claims.free(*found.span()):
            _read_twenty_four(claims, found)
    for found in _NAMED_TIME.finditer(text):
        _claim_time(claims, found.start(), found.end(), 12 if found["noon"] else 0, 0)


def _claim(claims: Claims, found: re.Match[str], day: date | None) -> None:
    if day is not None:
        claims.add("date", day, *found.span())
    elif claims.free(*found.span()):
        claims.block(*found.span())


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _checked(found: re.Match[str], day: date | None) -> date | None:
    """The day, unless the weekday written before it contradicts it."""
    weekday = found["weekday"]
    if day is None or weekday is None or _DAYS[day.weekday()] == weekday[:3].lower():
        return day
    return None


def _numeric(found: re.Match[str], vocabulary: Vocabulary) -> date | None:
    a, b, year, order = int(found["a"]), int(found["b"]), int(found["year"]), vocabulary.date_order
    if len(found["year"]) == 2:
        if order is None:
            return None
        year += 2000
    readings = {"DMY": _day(year, b, a), "MDY": _day(year, a, b)}
    possible = {day for day in readings.values() if day is not None}
    if len(possible) == 1:
        return possible.pop()
    return readings[order] if order is not None else None


def _read_named_month(claims: Claims, found: re.Match[str], reference: date | None) -> None:
    month = _MONTHS.index(found["month"][:3].lower()) + 1
    first = found["first"]
    days = [int(found["day"])] if first is None else [int(first), int(found["day"])]
    dates = [_in_year(found["year"], month, day, reference) for day in days]
    if first is None:
        _claim(claims, found, _checked(found, dates[0]))
        return
    if dates[0] is None or dates[1] is None or dates[0] > dates[1] or _checked(found, dates[0]) is None:
        _claim(claims, found, None)
    elif claims.free(*found.span()):
        # Two days share one month: the first owns its digits, the second the rest.
        end = found.end("first")
        claims.add("date", dates[0], found.start(), end)
        claims.add("date", dates[1], end, found.end())


def _in_year(year: str | None, month: int, day: int, reference: date | None) -> date | None:
    if year is not None:
        return _day(int(year), month, day)
    if reference is None:
        return None
    near = [_day(reference.year + shift, month, day) for shift in (-1, 0, 1)]
    return min((day for day in near if day is not None), key=lambda day: abs(day - reference), default=None)


def _relative(found: re.Match[str], reference: date) -> date | None:
    if found["word"] is not None:
        return reference + timedelta(days=_SHIFTS[" ".join(found["word"].lower().split())])
    ahead = (_DAYS.index(found["name"][:3].lower()) - reference.weekday()) % 7
    in_this_week = reference + timedelta(days=_DAYS.index(found["name"][:3].lower()) - reference.weekday())
    which = found["which"].lower()
    week = timedelta(days=7)
    if which == "this":
        return in_this_week if in_this_week >= reference else None
    if which == "next":
        return in_this_week + week if in_this_week <= reference else None
    if which == "last":
        return in_this_week - week if in_this_week >= reference else None
    return reference + timedelta(days=ahead or 7)


def _read_twelve(claims: Claims, found: re.Match[str]) -> None:
    if not claims.free(*found.span()):
        return
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    start = found.start("hour")
    afternoon = found["half"].lower() == "p"
    if not 1 <= hour <= 12:
        claims.block(*found.span())
        return
    if found["hour1"] is not None:
        first, first_minute = int(found["hour1"]), int(found["minute1"] or 0)
        if not 1 <= first <= 12:
            claims.block(*found.span())
            return
        # "2-3 pm" lies in one half of the day, "11-1 pm" goes over noon.
        same_half = (first % 12, first_minute) < (hour % 12, minute)
        end = found.end("minute1") if found["minute1"] else found.end("hour1")
        first_afternoon = afternoon if same_half else not afternoon
        claims.add("time", ClockTime(first % 12 + 12 * first_afternoon, first_minute), found.start(), end)
    _claim_time(claims, start, found.end(), hour % 12 + 12 * afternoon, minute)


def _read_twenty_four(claims: Claims, found: re.Match[str]) -> None:
    hour, minute = int(found["hour"]), int(found["minute"])
    certain = len(found["hour"]) == 2 or hour == 0 or 7 <= hour <= 9
    if hour > 23 or not certain:
        claims.block(*found.span())
        return
    _claim_time(claims, found.start(), found.end(), hour, minute, iso=found["iso"] is not None)


def _claim_time(claims: Claims, start: int, end: int, hour: int, minute: int, *, iso: bool = False) -> None:
    text = claims.text
    offset = (_ISO_OFFSET if iso else _PLUS_OFFSET).match(text, end)
    named = None if offset else _ZONE.match(text, end)
    zone = None
    if offset is not None:
        zone, end = _offset(offset[0]), offset.end()
    elif named is not None:
        zone, end = _zone(named["bracketed"] or named["zone"]), named.end()
    claims.add("time", ClockTime(hour, minute, zone), start, end)


def _zone(written: str) -> str:
    for prefix in ("UTC", "GMT"):
        if written.startswith(prefix) and len(written) > 3:
            return _offset(written[3:])
    return _offset(written) if written[0] in "+-" else _OFFSETS.get(written, written)


def _offset(written: str) -> str:
    digits = written[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "00")
    offset = f"{written[0]}{int(hours):02d}:{minutes}"
    return "+00:00" if offset == "-00:00" else offset
