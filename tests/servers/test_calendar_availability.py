from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.services.calendar import CALENDAR
from servers.services.calendar.store import MOST_IN_WINDOW
from servers.world import World
from tests.support import DANA, DANA_K, KLARA, NORA, OMAR, PRIYA, act, desk, office, over_mcp

pytestmark = pytest.mark.anyio


def event(organizer: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"{organizer}{start}",
        "organizer": organizer,
        "title": "Secret",
        "start": start,
        "end": end,
    } | more


def starts(answer: dict[str, Any]) -> list[str]:
    return [slot["start"][5:16] for slot in answer["suggestions"]]


async def test_free_busy_joins_blocks_cuts_them_and_tells_nothing_else() -> None:
    records = [
        event(OMAR, "2026-03-01T22:00:00+01:00", "2026-03-02T02:00:00+01:00"),
        event(OMAR, "2026-03-02T10:00:00+01:00", "2026-03-02T11:00:00+01:00", visibility="private"),
        event(OMAR, "2026-03-02T10:30:00+01:00", "2026-03-02T12:00:00+01:00", location="Cellar"),
        event(OMAR, "2026-03-02T15:00:00+01:00", "2026-03-02T16:00:00+01:00", busy=False),
        event(OMAR, "2026-03-02T17:00:00+01:00", "2026-03-02T18:00:00+01:00", status="cancelled"),
    ]
    async with over_mcp(desk(office([CALENDAR], {"calendar.event": records}))) as agent:
        found = await agent.ok(
            "calendar_free_busy",
            people=["Omar", KLARA, "x@elsewhere.example"],
            start="2026-03-02",
            end="2026-03-03",
        )
    assert found["people"] == [
        {
            "person": OMAR,
            "timezone": "Europe/Berlin",
            "busy": [
                {"start": "2026-03-02T00:00:00+01:00", "end": "2026-03-02T02:00:00+01:00"},
                {"start": "2026-03-02T10:00:00+01:00", "end": "2026-03-02T12:00:00+01:00"},
            ],
        }
    ]
    assert found["not_visible"] == [KLARA, "x@elsewhere.example"]
    assert "Secret" not in str(found)


async def test_suggestions_lie_in_everyones_working_hours_and_free_time() -> None:
    records = [event(PRIYA, "2026-03-02T15:00:00+01:00", "2026-03-02T16:15:00+01:00", visibility="private")]
    async with over_mcp(desk(office([CALENDAR], {"calendar.event": records}))) as agent:
        found = await agent.ok(
            "calendar_suggest_times",
            people=["Priya", KLARA],
            duration_minutes=30,
            earliest="2026-03-02",
            latest="2026-03-04",
            limit=4,
        )
    # Berlin works until 17:00, New York begins at 15:00 Berlin time; Priya is busy on the first day.
    assert starts(found) == ["03-02T16:15", "03-03T15:00", "03-03T15:30", "03-03T16:00"]
    assert found["suggestions"][0]["start_elsewhere"] == {"America/New_York": "2026-03-02T10:15:00-05:00"}
    assert found["people"] == [NORA, PRIYA]
    assert found["not_visible"] == [KLARA]


async def test_suggestions_follow_each_zones_own_clock_change() -> None:
    async with over_mcp(desk(office([CALENDAR]))) as agent:
        # Between 8 and 29 March New York is five hours behind Berlin, not six.
        found = await agent.ok(
            "calendar_suggest_times",
            people=["Priya"],
            duration_minutes=180,
            earliest="2026-03-06",
            latest="2026-03-10",
        )
    assert starts(found) == ["03-09T14:00"]


async def test_no_common_time_says_why() -> None:
    full = event(OMAR, "2026-03-02T00:00:00+01:00", "2026-03-04T00:00:00+01:00", all_day=True)
    query = {"duration_minutes": 60, "earliest": "2026-03-02", "latest": "2026-03-04"}
    async with over_mcp(desk(office([CALENDAR], {"calendar.event": [full]}))) as agent:
        apart = await agent.ok("calendar_suggest_times", people=["Dana Fox"], **query)
        busy = await agent.ok("calendar_suggest_times", people=["Omar"], **query)
        weekend = await agent.ok(
            "calendar_suggest_times",
            people=["Omar"],
            duration_minutes=60,
            earliest="2026-03-07",
            latest="2026-03-09",
        )
    assert apart["suggestions"] == busy["suggestions"] == weekend["suggestions"] == []
    assert "working hours" in apart["reason"]
    assert "somebody is busy" in busy["reason"]
    assert "share no 60 minutes" in weekend["reason"]


async def test_the_past_is_not_suggested() -> None:
    where = desk(office([CALENDAR]))
    where.world.advance(3 * 3600 + 60)  # 12:01
    async with over_mcp(where) as agent:
        found = await agent.ok(
            "calendar_suggest_times",
            people=["Omar"],
            duration_minutes=60,
            earliest="2026-03-02",
            latest="2026-03-03",
        )
    assert starts(found) == ["03-02T12:15", "03-02T13:15", "03-02T14:15", "03-02T15:15"]


async def test_a_calendar_too_full_to_look_at_is_refused() -> None:
    crowd = [
        event(OMAR, f"2026-01-01T{hour:02}:00:00Z", f"2026-01-01T{hour:02}:30:00Z", recurrence="FREQ=DAILY")
        for hour in range(8)
    ]
    async with over_mcp(desk(office([CALENDAR], {"calendar.event": crowd}))) as agent:
        words = await agent.refused("calendar_list_events", person="Omar", start="2026-01-01", end="2026-12-31")
        week = await agent.ok("calendar_list_events", person="Omar", start="2026-03-02", end="2026-03-09")
    assert f"more than {MOST_IN_WINDOW}" in words
    assert week["total"] == 56


PEOPLE = st.lists(st.sampled_from([OMAR, PRIYA, DANA, DANA_K]), min_size=1, max_size=3, unique=True)
BLOCKS = st.lists(st.tuples(st.sampled_from([NORA, OMAR, PRIYA]), st.integers(0, 200), st.integers(1, 12)), max_size=12)


@settings(max_examples=50, deadline=None)
@given(PEOPLE, BLOCKS, st.integers(1, 16))
def test_whoever_meets_at_a_suggested_time_is_free_and_at_work(
    people: list[str], blocks: list[tuple[str, int, int]], quarters: int
) -> None:
    begin = datetime.fromisoformat("2026-03-26T00:00:00+01:00")  # a clock change lies within the week
    hour = timedelta(hours=1)
    records = [
        event(who, (begin + at * hour).isoformat(), (begin + (at + length) * hour).isoformat()) | {"id": f"e{number}"}
        for number, (who, at, length) in enumerate(blocks)
    ]
    image = office([CALENDAR], {"calendar.event": records})
    world = World.open(image)
    query = {"earliest": "2026-03-26", "latest": "2026-04-03", "duration_minutes": quarters * 15, "limit": 20}
    found = act(world, NORA, "calendar_suggest_times", people=people, **query)
    assert found == act(world.fork(), NORA, "calendar_suggest_times", people=people, **query)
    for slot in found["suggestions"]:
        busy = act(world, NORA, "calendar_free_busy", people=[NORA, *people], start=slot["start"], end=slot["end"])
        assert all(entry["busy"] == [] for entry in busy["people"])
        for email in {NORA, *people}:
            there = image.people[email].timezone
            local = [datetime.fromisoformat(slot[end]).astimezone(ZoneInfo(there)) for end in ("start", "end")]
            assert local[0].weekday() < 5
            assert local[0].hour >= 9
            assert (local[1].hour, local[1].minute) <= (17, 0)
    world.close()
