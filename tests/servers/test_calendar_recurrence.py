from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from servers.services.calendar import recurrence
from servers.services.calendar.moments import DAY, LAST_INSTANT, at, wall
from servers.services.calendar.recurrence import (
    FREQUENCIES,
    PARTS,
    WEEKDAYS,
    Series,
    count_before,
    is_occurrence,
    next_start,
    occurrences,
    parse_rule,
)

BERLIN = "Europe/Berlin"
ZONES = (BERLIN, "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")


def start_at(text: str, timezone: str = BERLIN) -> int:
    return at(datetime.fromisoformat(text), timezone)


def clock(series: Series, begin: str, end: str) -> list[str]:
    found = occurrences(series, start_at(begin, series.timezone), start_at(end, series.timezone))
    return [wall(start, series.timezone).isoformat(timespec="minutes") for start in found]


def test_a_weekly_meeting_keeps_its_wall_clock_time_when_the_clocks_change() -> None:
    series = Series("FREQ=WEEKLY", start_at("2026-03-16T09:00"), BERLIN)
    starts = occurrences(series, series.start, series.start + 22 * DAY)
    assert [wall(start, BERLIN).hour for start in starts] == [9, 9, 9, 9]
    assert starts[2] - starts[1] == 7 * DAY - 3600


def test_a_time_that_the_clock_change_skips_moves_on_by_an_hour() -> None:
    series = Series("FREQ=DAILY", start_at("2026-03-28T02:30"), BERLIN)
    assert clock(series, "2026-03-28T00:00", "2026-03-31T00:00") == [
        "2026-03-28T02:30",
        "2026-03-29T03:30",
        "2026-03-30T02:30",
    ]


def test_the_last_friday_of_each_month_is_found() -> None:
    series = Series("FREQ=MONTHLY;BYDAY=-1FR", start_at("2026-01-30T15:00"), BERLIN)
    assert clock(series, "2026-01-01T00:00", "2026-05-01T00:00") == [
        "2026-01-30T15:00",
        "2026-02-27T15:00",
        "2026-03-27T15:00",
        "2026-04-24T15:00",
    ]


def test_an_until_date_includes_that_day_in_the_zone_of_the_event() -> None:
    series = Series("FREQ=DAILY;UNTIL=20260304", start_at("2026-03-02T23:30"), BERLIN)
    assert len(occurrences(series, 0, LAST_INSTANT)) == 3


def test_equal_rules_have_one_canonical_text() -> None:
    assert parse_rule("rrule:byday=we,MO,we;Interval=1;freq=weekly;").text() == "FREQ=WEEKLY;BYDAY=MO,WE"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "NAME=VALUE"),
        ("every monday", "NAME=VALUE"),
        ("FREQ=SECONDLY", "DAILY, WEEKLY"),
        ("BYDAY=MO", "FREQ must be"),
        ("FREQ=DAILY;BYHOUR=9", "not supported"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;INTERVAL=0", "from 1 to"),
        ("FREQ=DAILY;COUNT=999999", "from 1 to 1000"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20260401", "exclude each other"),
        ("FREQ=WEEKLY;BYDAY=1MO", "MONTHLY"),
        ("FREQ=WEEKLY;BYDAY=XX", "weekdays"),
        ("FREQ=MONTHLY;BYDAY=6MO", "at most five"),
        ("FREQ=MONTHLY;BYSETPOS=1", "needs BYDAY"),
        ("FREQ=DAILY;UNTIL=tomorrow", "20260630"),
        ("FREQ=DAILY;UNTIL=99991231", "2100"),
        ("FREQ=DAILY;" * 80, "longer than"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_words_that_help(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_rule(text)


# ---------------------------------------------------------------------- properties

signed = st.sampled_from([n for n in range(-5, 6) if n])


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Any rule that this calendar takes, with frequent ones more often than odd ones."""
    frequency = draw(st.sampled_from(FREQUENCIES))
    parts = [f"FREQ={frequency}", f"INTERVAL={draw(st.integers(1, 5))}"]
    fine = frequency in ("MONTHLY", "YEARLY")
    if draw(st.booleans()):
        parts.append("BYMONTH=" + _list(draw(st.sets(st.integers(1, 12), min_size=1, max_size=4))))
    months = "BYMONTH" in parts[-1]
    if draw(st.booleans()):
        item = st.sampled_from(WEEKDAYS)
        # All with a number or all without: dateutil wants both at once where RFC 5545 wants either.
        if fine and draw(st.booleans()):
            most = 53 if frequency == "YEARLY" and not months else 5
            nth = st.integers(-most, most).filter(bool)
            item = st.builds(lambda n, day: f"{n}{day}", nth, item)
        parts.append("BYDAY=" + _list(draw(st.sets(item, min_size=1, max_size=4))))
    if fine and draw(st.booleans()):
        day = st.integers(-31, 31).filter(bool)
        parts.append("BYMONTHDAY=" + _list(draw(st.sets(day, min_size=1, max_size=4))))
    if fine and len(parts) > 2 and "BYMONTH=" not in parts[-1] and draw(st.booleans()):
        parts.append("BYSETPOS=" + _list(draw(st.sets(signed, min_size=1, max_size=2))))
    if draw(st.booleans()):
        parts.append(f"WKST={draw(st.sampled_from(WEEKDAYS))}")
    if draw(st.booleans()):
        parts.append(f"COUNT={draw(st.integers(1, 40))}")
    return ";".join(parts)


def _list(values: set[int] | set[str]) -> str:
    return ",".join(str(value) for value in sorted(values, key=str))


starts = st.datetimes(datetime.fromisoformat("2024-01-01"), datetime.fromisoformat("2027-12-31")).map(
    lambda moment: moment.replace(minute=moment.minute // 15 * 15, second=0, microsecond=0)
)


@settings(max_examples=150, deadline=None)
@given(rules(), starts, st.sampled_from(ZONES))
def test_occurrences_are_those_of_dateutil(rule: str, start: datetime, timezone: str) -> None:
    series = Series(rule, at(start, timezone), timezone)
    horizon = at(start + timedelta(days=3 * 366), timezone)
    found = occurrences(series, 0, horizon)
    assume(found)  # else dateutil may search until the year 9999
    reference = [at(moment, timezone) for moment in islice(rrulestr(rule, dtstart=start), len(found) + 1)]
    assert found == [one for one in reference if one < horizon]


@settings(max_examples=100, deadline=None)
@given(rules(), starts, st.integers(-400, 2000), st.integers(1, 400), st.integers(1, 400))
def test_neighbouring_windows_add_up(rule: str, start: datetime, offset: int, first: int, second: int) -> None:
    series = Series(rule, at(start, BERLIN), BERLIN)
    begin = series.start + offset * DAY
    middle, end = begin + first * DAY, begin + (first + second) * DAY
    whole = occurrences(series, begin, end)
    assert whole == occurrences(series, begin, middle) + occurrences(series, middle, end)
    assert all(is_occurrence(series, one) for one in whole)
    if whole:
        assert next_start(series, begin, end - begin) == whole[0]
    if "COUNT" in rule:
        assert count_before(series, end) - count_before(series, begin) == len(whole)


@given(rules())
def test_the_canonical_text_of_a_rule_means_the_same(rule: str) -> None:
    assert parse_rule(parse_rule(rule).text()) == parse_rule(rule)


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from([f"{name}=5" for name in PARTS])).map(";".join)))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        parse_rule(text)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30,31",
        "FREQ=MONTHLY;BYDAY=1MO;BYMONTHDAY=31;COUNT=1000",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO;COUNT=1000",
        "FREQ=YEARLY;BYDAY=53MO;BYMONTHDAY=1;COUNT=1000",
    ],
)
def test_a_rule_that_never_happens_costs_no_more_periods_than_the_calendar_has(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Steps are counted, since time on a busy machine says nothing.
    walked = 0
    period = recurrence._period  # pyright: ignore[reportPrivateUsage]

    def counting(*args: object) -> object:
        nonlocal walked
        walked += 1
        return period(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(recurrence, "_period", counting)
    series = Series(rule, int(datetime(2026, 3, 3, 9, tzinfo=UTC).timestamp()), "UTC")
    assert occurrences(series, series.start, series.start + 366 * DAY) == []
    assert walked <= 75 * 366
