from __future__ import annotations

from typing import Any

import pytest

from servers.desk import Desk, expose
from servers.image import Image
from servers.journal import Actor
from servers.services.calendar import CALENDAR
from servers.world import World
from tests.support import DANA, DANA_K, KLARA, NORA, OMAR, PRIYA, act, desk, office, over_mcp

pytestmark = pytest.mark.anyio

EVENTS: list[dict[str, Any]] = [
    {
        "id": "review",
        "organizer": PRIYA,
        "title": "Budget review",
        "start": "2026-03-03T15:00:00Z",
        "end": "2026-03-03T16:00:00Z",
        "attendees": [NORA, {"email": OMAR, "response": "accepted"}],
        "location": "Room 4",
    },
    {
        "id": "doctor",
        "organizer": OMAR,
        "title": "Cardiologist",
        "start": "2026-03-04T10:00:00+01:00",
        "end": "2026-03-04T11:00:00+01:00",
        "visibility": "private",
    },
    {
        "id": "fair",
        "organizer": NORA,
        "title": "Trade fair",
        "start": "2026-03-05T00:00:00+01:00",
        "end": "2026-03-07T00:00:00+01:00",
        "all_day": True,
    },
    {
        "id": "support",
        "organizer": OMAR,
        "title": "Support handover",
        "start": "2026-03-04T14:00:00+01:00",
        "end": "2026-03-04T14:30:00+01:00",
    },
]
WEEK = {"start": "2026-03-02", "end": "2026-03-09"}


def calendar(extra: list[dict[str, Any]] | None = None) -> Image:
    return office([CALENDAR], {"calendar.event": EVENTS + (extra or [])})


def desk_of(world: World, person: str) -> Desk:
    return Desk(world, Actor("coworker", person), expose(world.image.workplace, None))


async def test_events_show_the_callers_time_and_the_zone_of_the_event_where_it_differs() -> None:
    async with over_mcp(desk(calendar())) as agent:
        review, fair = (await agent.ok("calendar_list_events", **WEEK))["events"]
    assert (review["start"], review["timezone"]) == ("2026-03-03T16:00:00+01:00", "America/New_York")
    assert review["start_in_timezone"] == "2026-03-03T10:00:00-05:00"
    assert review["response"] == "needs_action"
    assert (fair["start"], fair["end"], fair["all_day"]) == ("2026-03-05", "2026-03-07", True)
    assert "timezone" not in fair


async def test_pages_of_a_calendar_join_up() -> None:
    daily = {"id": "daily", "organizer": NORA, "title": "Stand-up", "recurrence": "FREQ=DAILY"}
    daily |= {"start": "2026-02-02T09:15:00+01:00", "end": "2026-02-02T09:30:00+01:00"}
    async with over_mcp(desk(calendar([daily]))) as agent:
        whole = await agent.ok("calendar_list_events", **WEEK)
        first = await agent.ok("calendar_list_events", **WEEK, page_size=5)
        second = await agent.ok("calendar_list_events", **WEEK, page_size=5, cursor=first["next_cursor"])
    assert whole["total"] == 9
    assert first["events"] + second["events"] == whole["events"]
    assert second["next_cursor"] is None


async def test_a_private_event_of_a_colleague_is_busy_time_and_nothing_more() -> None:
    async with over_mcp(desk(calendar())) as agent:
        events = (await agent.ok("calendar_list_events", **WEEK, person="Omar"))["events"]
        unknown = await agent.refused("calendar_get_event", event_id="nothing")
        private = await agent.refused("calendar_get_event", event_id="doctor")
        declined = await agent.refused("calendar_respond", event_id="doctor", response="declined")
        deleted = await agent.refused("calendar_delete_event", event_id="doctor")
        found = await agent.ok("calendar_search", query="cardiologist")
    assert [event["title"] for event in events] == ["Budget review", "Busy", "Support handover"]
    assert events[1] == {
        "title": "Busy",
        "start": "2026-03-04T10:00:00+01:00",
        "end": "2026-03-04T11:00:00+01:00",
    }
    assert private == unknown.replace("nothing", "doctor")
    assert "no event 'doctor'" in declined
    assert "no event 'doctor'" in deleted
    assert found["events"] == []


async def test_calendars_do_not_open_across_organisations() -> None:
    world = World.open(calendar())
    async with over_mcp(desk_of(world, NORA)) as agent:
        assert "another organisation" in await agent.refused("calendar_list_events", **WEEK, person="Klara")
    async with over_mcp(desk_of(world, KLARA)) as outsider:
        assert "another organisation" in await outsider.refused("calendar_list_events", **WEEK, person="Nora")
        assert "there is no event" in await outsider.refused("calendar_get_event", event_id="support")
        seen = await outsider.ok("calendar_free_busy", people=["Nora", "Klara"], **WEEK)
        created = await outsider.ok(
            "calendar_create_event",
            title="Visit",
            attendees=[NORA],
            start="2026-03-05T09:00",
            end="2026-03-05T10:00",
        )
    assert [entry["person"] for entry in seen["people"]] == [KLARA]
    assert seen["not_visible"] == [NORA]
    assert "conflicts" not in created  # Nora's trade fair is none of Klara's business


async def test_search_finds_words_in_all_texts_and_a_series_once() -> None:
    weekly = {"id": "weekly", "organizer": NORA, "title": "Pipeline", "description": "Numbers of the week"}
    weekly |= {"recurrence": "FREQ=WEEKLY", "attendees": [KLARA]}
    weekly |= {"start": "2026-02-02T13:00:00+01:00", "end": "2026-02-02T14:00:00+01:00"}
    async with over_mcp(desk(calendar([weekly]))) as agent:
        by_words = await agent.ok("calendar_search", query="NUMBERS pipeline")
        by_person = await agent.ok("calendar_search", query="klara")
        in_march = await agent.ok("calendar_search", query="", start="2026-03-03", end="2026-03-10")
        half = await agent.refused("calendar_search", query="", start="2026-03-03")
    hit = by_words["events"][0]
    assert (hit["event_id"], hit["recurrence"]) == ("weekly", "FREQ=WEEKLY")
    assert hit["start"] == "2026-03-02T13:00:00+01:00"
    assert by_person["events"] == by_words["events"]
    assert [(event["event_id"], event["start"][:10]) for event in in_march["events"]] == [
        ("review", "2026-03-03"),
        ("fair", "2026-03-05"),
        ("weekly", "2026-03-09"),
    ]
    assert "both start and end" in half


async def test_a_created_event_warns_of_conflicts_without_telling_what_is_private() -> None:
    async with over_mcp(desk(calendar())) as agent:
        made = await agent.ok(
            "calendar_create_event",
            title="Kick-off",
            start="2026-03-04T10:30:00",
            end="2026-03-04T14:15:00",
            attendees=["Omar", "klara.voss@alpenrad.example", "new.face@Customer.example"],
        )
        seen = await agent.ok("calendar_get_event", event_id=made["event_id"])
    secret, known = made["conflicts"]
    assert secret == {
        "person": OMAR,
        "start": "2026-03-04T10:00:00+01:00",
        "end": "2026-03-04T11:00:00+01:00",
    }
    assert (known["title"], known["event_id"]) == ("Support handover", "support")
    assert "Cardiologist" not in str(made)
    assert [a["email"] for a in seen["attendees"]] == [OMAR, KLARA, "new.face@customer.example"]


async def test_a_misspelt_colleague_is_refused_and_somebody_outside_is_not() -> None:
    when = {"start": "2026-03-04T16:00", "end": "2026-03-04T17:00"}
    async with over_mcp(desk(calendar())) as agent:
        typo = await agent.refused(
            "calendar_create_event", title="x", attendees=["omar.hadad@northwind.example"], **when
        )
        several = await agent.refused("calendar_create_event", title="x", attendees=["Dana"], **when)
        junk = await agent.refused("calendar_create_event", title="x", attendees=["a@b"], **when)
    assert f"Did you mean {OMAR}" in typo
    assert DANA in several
    assert DANA_K in several
    assert "neither a name nor a mail address" in junk


async def test_only_the_organizer_changes_or_deletes() -> None:
    async with over_mcp(desk(calendar())) as agent:
        for tool in ("calendar_update_event", "calendar_delete_event"):
            words = await agent.refused(tool, event_id="review")
            assert f"only the organizer {PRIYA}" in words
            assert "calendar_respond" in words
            assert "calendar_respond" not in await agent.refused(tool, event_id="support")
        assert "not invited" in await agent.refused("calendar_respond", event_id="support", response="accepted")
        assert "you organise" in await agent.refused("calendar_respond", event_id="fair", response="accepted")


async def test_a_response_reaches_the_organizer_and_declining_frees_the_time() -> None:
    world = World.open(calendar())
    slot = {"people": [NORA], "start": "2026-03-03T00:00", "end": "2026-03-04T00:00"}
    async with over_mcp(desk_of(world, NORA)) as agent:
        before = await agent.ok("calendar_free_busy", **slot)
        await agent.ok("calendar_respond", event_id="review", response="declined", comment="At the customer's")
        after = await agent.ok("calendar_free_busy", **slot)
        listed = await agent.ok("calendar_list_events", **WEEK)
    assert len(before["people"][0]["busy"]) == 1
    assert after["people"][0]["busy"] == []
    assert listed["events"][0]["response"] == "declined"
    mine = {"email": NORA, "response": "declined", "comment": "At the customer's"}
    assert act(world, PRIYA, "calendar_get_event", event_id="review")["attendees"][0] == mine
    assert "comment" not in act(world, OMAR, "calendar_get_event", event_id="review")["attendees"][0]


async def test_a_new_time_asks_again_and_other_changes_do_not() -> None:
    world = World.open(calendar())
    moved = {"start": "2026-03-03T12:00:00-05:00"}
    async with over_mcp(desk_of(world, PRIYA)) as agent:
        renamed = await agent.ok("calendar_update_event", event_id="review", title="Budget", attendees=[OMAR, DANA])
        later = await agent.ok("calendar_update_event", event_id="review", **moved)
    assert [(a["email"], a["response"]) for a in renamed["attendees"]] == [
        (OMAR, "accepted"),
        (DANA, "needs_action"),
    ]
    assert [a["response"] for a in later["attendees"]] == ["needs_action", "needs_action"]
    assert (later["title"], later["start"], later["end"]) == (
        "Budget",
        "2026-03-03T12:00:00-05:00",
        "2026-03-03T13:00:00-05:00",
    )


async def test_a_cancelled_event_leaves_calendars_and_stays_readable_as_cancelled() -> None:
    world = World.open(calendar())
    act(world, PRIYA, "calendar_delete_event", event_id="review")
    async with over_mcp(desk_of(world, NORA)) as agent:
        listed = await agent.ok("calendar_list_events", **WEEK)
        seen = await agent.ok("calendar_get_event", event_id="review")
        busy = await agent.ok("calendar_free_busy", people=["Nora"], start="2026-03-03", end="2026-03-04")
        answer = await agent.refused("calendar_respond", event_id="review", response="accepted")
    assert [event["event_id"] for event in listed["events"]] == ["fair"]
    assert seen["status"] == "cancelled"
    assert busy["people"][0]["busy"] == []
    assert "was cancelled" in answer


async def test_an_all_day_event_is_made_of_dates_in_its_own_zone() -> None:
    async with over_mcp(desk(calendar())) as agent:
        made = await agent.ok(
            "calendar_create_event",
            title="Holiday",
            start="2026-03-28",
            end="2026-03-31",
            all_day=True,
            busy=False,
            timezone="Asia/Tokyo",
        )
        timed = await agent.refused("calendar_update_event", event_id=made["event_id"], start="2026-03-29T10:00:00")
        moved = await agent.ok("calendar_update_event", event_id=made["event_id"], timezone="Europe/Berlin")
        later = await agent.ok("calendar_update_event", event_id=made["event_id"], start="2026-03-29")
    assert (made["start"], made["end"], made["timezone"]) == ("2026-03-28", "2026-03-31", "Asia/Tokyo")
    assert "write dates like" in timed
    assert (moved["start"], moved["end"]) == ("2026-03-28", "2026-03-31")
    assert (later["start"], later["end"]) == ("2026-03-29", "2026-04-01")


async def test_a_time_without_offset_counts_in_the_zone_that_is_given() -> None:
    when = {"start": "2026-03-10T09:00", "end": "2026-03-10T10:00"}
    async with over_mcp(desk(calendar())) as agent:
        there = await agent.ok("calendar_create_event", title="x", timezone="America/New_York", **when)
        here = await agent.ok("calendar_create_event", title="y", **when)
    assert there["start"] == "2026-03-10T14:00:00+01:00"  # New York is on summer time already
    assert there["start_in_timezone"] == "2026-03-10T09:00:00-04:00"
    assert here["start"] == "2026-03-10T09:00:00+01:00"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start": "2026-03-04T11:00", "end": "2026-03-04T10:00"}, "not after the start"),
        ({"start": "next Monday", "end": "2026-03-04T10:00"}, "is not a time"),
        ({"timezone": "Berlin"}, "Europe/Berlin"),
        ({"timezone": "Europe"}, "not an IANA time zone"),
        ({"timezone": "../../etc/passwd"}, "not an IANA time zone"),
        ({"recurrence": "every day"}, "FREQ=WEEKLY"),
        ({"recurrence": "FREQ=SECONDLY"}, "DAILY, WEEKLY"),
        ({"recurrence": "FREQ=WEEKLY;BYDAY=MO"}, "Monday 2026-03-09"),
        ({"recurrence": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "does not happen"),
        ({"end": "2028-03-04T10:00"}, "at most 366 days"),
        ({"end": "2026-05-04T10:00", "recurrence": "FREQ=DAILY"}, "at most 31 days for one that recurs"),
        ({"start": "0001-01-01T00:00:00"}, "1970 to 2100"),
        ({"end": "9999-12-31T23:59:59+00:00"}, "1970 to 2100"),
        ({"title": ""}, "title"),
    ],
)
async def test_an_impossible_event_is_refused_with_what_would_be_possible(
    arguments: dict[str, Any], words: str
) -> None:
    event = {"title": "x", "start": "2026-03-04T10:00", "end": "2026-03-04T11:00"} | arguments
    async with over_mcp(desk(calendar())) as agent:
        assert words in await agent.refused("calendar_create_event", **event)


async def test_a_range_over_a_year_or_backwards_is_refused() -> None:
    async with over_mcp(desk(calendar())) as agent:
        long = await agent.refused("calendar_list_events", start="2026-01-01", end="2028-01-01")
        backwards = await agent.refused("calendar_free_busy", people=["Omar"], start="2026-02-01", end="2026-01-01")
        foreign = await agent.refused("calendar_list_events", **WEEK, cursor="AAAA")
    assert "at most 366 days" in long
    assert "is not after" in backwards
    assert "Start again" in foreign


async def test_a_time_that_clocks_skip_is_said_not_to_exist() -> None:
    async with over_mcp(desk(office([CALENDAR]))) as agent:
        skipped = await agent.refused(
            "calendar_create_event", title="Night", start="2026-03-29T02:30:00", end="2026-03-29T03:30:00"
        )
    assert "start '2026-03-29T02:30:00' does not exist" in skipped
    assert "Europe/Berlin" in skipped
    assert "2026-03-29T03:30:00+02:00" in skipped
