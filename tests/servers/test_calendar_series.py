from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.desk import Desk
from servers.journal import Actor
from servers.services.calendar import CALENDAR
from servers.services.calendar.records import Event
from servers.world import World
from tests.support import KLARA, NORA, OMAR, act, desk, office, over_mcp

pytestmark = pytest.mark.anyio

STANDUP: dict[str, Any] = {
    "id": "standup",
    "organizer": NORA,
    "title": "Stand-up",
    "start": "2026-03-16T09:00:00+01:00",
    "end": "2026-03-16T09:15:00+01:00",
    "attendees": [{"email": OMAR, "response": "accepted"}, KLARA],
    "recurrence": "FREQ=WEEKLY;COUNT=6",
}
IMAGE = office([CALENDAR], {"calendar.event": [STANDUP]})
SPRING = {"start": "2026-03-01", "end": "2026-06-01"}
SECOND, THIRD, FOURTH = (
    "standup_20260323T080000Z",
    "standup_20260330T070000Z",  # summer time has begun
    "standup_20260406T070000Z",
)


def calendar_of(world: World, person: str = NORA) -> list[tuple[str, str]]:
    events = act(world, person, "calendar_list_events", **SPRING)["events"]
    return [(event["start"][5:16], event["title"]) for event in events]


def days(world: World) -> list[str]:
    return [start[:5] for start, _ in calendar_of(world)]


async def test_occurrences_have_ids_of_their_own_and_keep_their_hour_across_the_clock_change() -> None:
    async with over_mcp(desk(IMAGE)) as agent:
        events = (await agent.ok("calendar_list_events", **SPRING))["events"]
        one = await agent.ok("calendar_get_event", event_id=THIRD)
        series = await agent.ok("calendar_get_event", event_id="standup")
    assert [event["event_id"] for event in events[1:4]] == [SECOND, THIRD, FOURTH]
    assert {event["start"][11:16] for event in events} == {"09:00"}
    assert {event["series_id"] for event in events} == {"standup"}
    assert (one["event_id"], one["start"]) == (THIRD, "2026-03-30T09:00:00+02:00")
    assert one["recurrence"] == series["recurrence"] == "FREQ=WEEKLY;COUNT=6"
    assert [entry["event_id"] for entry in series["upcoming"]] == [events[0]["event_id"], SECOND, THIRD]


async def test_a_series_is_changed_only_on_purpose() -> None:
    async with over_mcp(desk(IMAGE)) as agent:
        words = await agent.refused("calendar_delete_event", event_id="standup")
        missing = await agent.refused("calendar_get_event", event_id="standup_20260324T080000Z")
        nonsense = await agent.refused("calendar_get_event", event_id="standup_99999999T999999Z")
    assert "Give scope all" in words
    assert "no occurrence at that time. The next one is standup_20260316T080000Z" in missing
    assert "no occurrence at that time" in nonsense


async def test_changing_this_leaves_the_others_and_its_id() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        changed = await agent.ok("calendar_update_event", event_id=SECOND, start="2026-03-24T10:00", title="Late")
        again = await agent.ok("calendar_update_event", event_id=SECOND, location="Room 1")
        rule = await agent.refused("calendar_update_event", event_id=SECOND, recurrence="FREQ=DAILY")
    assert (changed["event_id"], changed["series_id"]) == (SECOND, "standup")
    assert changed["original_start"] == "2026-03-23T09:00:00+01:00"
    assert (again["title"], again["location"], again["start"][:16]) == ("Late", "Room 1", "2026-03-24T10:00")
    assert "cannot recur" in rule
    assert calendar_of(where.world)[:3] == [
        ("03-16T09:00", "Stand-up"),
        ("03-24T10:00", "Late"),
        ("03-30T09:00", "Stand-up"),
    ]
    types = {change.key: change.operation for change in where.world.changes()}
    assert types == {"standup": "updated", SECOND: "created"}


async def test_deleting_this_takes_one_occurrence_out_for_good() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        await agent.ok("calendar_update_event", event_id=THIRD, title="Special")
        for event_id in (SECOND, THIRD):
            assert (await agent.ok("calendar_delete_event", event_id=event_id))["scope"] == "this"
            words = await agent.refused("calendar_delete_event", event_id=event_id)
            assert "cancelled" in words
    assert days(where.world) == ["03-16", "04-06", "04-13", "04-20"]
    assert calendar_of(where.world, OMAR) == calendar_of(where.world)


async def test_deleting_following_ends_the_series_before() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        await agent.ok("calendar_update_event", event_id=FOURTH, title="Special")
        await agent.ok("calendar_delete_event", event_id=THIRD, scope="following")
        series = await agent.ok("calendar_get_event", event_id="standup")
    assert days(where.world) == ["03-16", "03-23"]
    assert series["recurrence"] == "FREQ=WEEKLY;UNTIL=20260330T065959Z"


async def test_deleting_all_cancels_changed_occurrences_too() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        await agent.ok("calendar_update_event", event_id=SECOND, title="Special")
        await agent.ok("calendar_delete_event", event_id=THIRD, scope="all")
        gone = await agent.refused("calendar_update_event", event_id=SECOND, title="x")
    assert days(where.world) == []
    assert "was cancelled" in gone


async def test_changing_following_splits_the_series_and_keeps_the_number_of_occurrences() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        await agent.ok("calendar_delete_event", event_id=FOURTH)
        await agent.ok("calendar_update_event", event_id="standup_20260413T070000Z", title="Special")
        split = await agent.ok("calendar_update_event", event_id=THIRD, scope="following", location="Room 9")
        special = await agent.ok("calendar_get_event", event_id=split["event_id"] + "_20260413T070000Z")
    assert split["recurrence"] == "FREQ=WEEKLY;COUNT=4"
    assert [a["response"] for a in split["attendees"]] == ["accepted", "needs_action"]
    assert (special["title"], special["location"]) == ("Special", "Room 9")
    assert days(where.world) == ["03-16", "03-23", "03-30", "04-13", "04-20"]
    places = [event.get("location") for event in act(where.world, NORA, "calendar_list_events", **SPRING)["events"]]
    assert places == [None, None, "Room 9", "Room 9", "Room 9"]


async def test_moving_following_moves_the_rest_and_puts_changed_occurrences_back() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        await agent.ok("calendar_delete_event", event_id="standup_20260413T070000Z")
        await agent.ok("calendar_update_event", event_id=FOURTH, title="Special")
        moved = await agent.ok("calendar_update_event", event_id=THIRD, scope="following", start="2026-03-31T14:00")
    assert moved["reset_occurrences"] == [FOURTH]
    assert {a["response"] for a in moved["attendees"]} == {"needs_action"}
    assert [start for start, _ in calendar_of(where.world)] == [
        "03-16T09:00",
        "03-23T09:00",
        "03-31T14:00",
        "04-07T14:00",
        "04-21T14:00",
    ]
    assert {title for _, title in calendar_of(where.world)} == {"Stand-up"}


async def test_changing_all_from_an_occurrence_moves_every_one_by_as_much() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        await agent.ok("calendar_delete_event", event_id=FOURTH)
        await agent.ok("calendar_update_event", event_id=SECOND, title="Special")
        await agent.ok("calendar_delete_event", event_id=SECOND)
        changed = await agent.ok(
            "calendar_update_event",
            event_id=THIRD,
            scope="all",
            start="2026-03-31T08:30",
            end="2026-03-31T09:00",
        )
    assert changed["event_id"] == "standup"
    assert calendar_of(where.world) == [
        ("03-17T08:30", "Stand-up"),
        ("03-31T08:30", "Stand-up"),
        ("04-14T08:30", "Stand-up"),
        ("04-21T08:30", "Stand-up"),
    ]


async def test_details_of_all_reach_changed_occurrences_and_leave_their_times() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        await agent.ok("calendar_update_event", event_id=SECOND, start="2026-03-24T10:00")
        await agent.ok("calendar_update_event", event_id="standup", scope="all", title="Sync")
    assert calendar_of(where.world)[:3] == [
        ("03-16T09:00", "Sync"),
        ("03-24T10:00", "Sync"),
        ("03-30T09:00", "Sync"),
    ]


async def test_a_new_rule_must_fit_and_an_empty_one_ends_the_repetition() -> None:
    where = desk(IMAGE)
    async with over_mcp(where) as agent:
        misfit = await agent.refused(
            "calendar_update_event", event_id="standup", scope="all", recurrence="FREQ=WEEKLY;BYDAY=TU"
        )
        await agent.ok("calendar_update_event", event_id="standup", scope="all", recurrence="FREQ=DAILY;COUNT=2")
        assert days(where.world) == ["03-16", "03-17"]
        await agent.ok("calendar_update_event", event_id="standup", scope="all", recurrence="")
        assert days(where.world) == ["03-16"]
        back = await agent.ok("calendar_update_event", event_id="standup", recurrence="FREQ=MONTHLY;COUNT=2")
    assert "Tuesday 2026-03-17" in misfit
    assert back["recurrence"] == "FREQ=MONTHLY;COUNT=2"
    assert days(where.world) == ["03-16", "04-16"]


async def test_one_may_decline_a_single_occurrence_or_the_whole_series() -> None:
    world = World.open(IMAGE)
    omar = Desk(world, Actor("coworker", OMAR), IMAGE.workplace.tools)

    def busy_days() -> list[str]:
        found = act(world, NORA, "calendar_free_busy", people=[OMAR], start="2026-03-01", end="2026-05-01")
        return [span["start"][5:10] for span in found["people"][0]["busy"]]

    async with over_mcp(omar) as agent:
        await agent.ok("calendar_respond", event_id=SECOND, response="declined")
        assert busy_days() == ["03-16", "03-30", "04-06", "04-13", "04-20"]
        assert "only the organizer" in await agent.refused("calendar_update_event", event_id=SECOND, title="x")
        await agent.ok("calendar_respond", event_id="standup", response="declined")
        assert busy_days() == []
    assert len(days(world)) == 6


async def test_an_attendee_of_another_organisation_may_answer() -> None:
    world = World.open(IMAGE)
    act(world, KLARA, "calendar_respond", event_id=THIRD, response="tentative", comment="Train at ten")
    attendees = act(world, NORA, "calendar_get_event", event_id=THIRD)["attendees"]
    assert attendees[1] == {"email": KLARA, "response": "tentative", "comment": "Train at ten"}
    assert act(world, NORA, "calendar_get_event", event_id=FOURTH)["attendees"][1]["response"] == "needs_action"


async def test_a_series_warns_of_conflicts_in_the_weeks_ahead() -> None:
    async with over_mcp(desk(IMAGE)) as agent:
        made = await agent.ok(
            "calendar_create_event",
            title="Weekly",
            start="2026-03-02T08:45",
            end="2026-03-02T09:05",
            recurrence="FREQ=WEEKLY",
        )
    assert [conflict["start"][5:10] for conflict in made["conflicts"]] == [
        "03-16",
        "03-23",
        "03-30",
        "04-06",
        "04-13",
        "04-20",
    ]


# ---------------------------------------------------------------------- any sequence of edits

edits = st.lists(
    st.tuples(
        st.sampled_from(["update", "delete", "respond"]),
        st.integers(0, 7),
        st.sampled_from(["this", "following", "all"]),
        st.sampled_from([{"title": "t"}, {"start": 90}, {"timezone": "America/New_York"}, {"attendees": [OMAR]}]),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(edits)
def test_after_any_edits_every_listed_id_can_be_read_and_ids_are_unique(steps: list[tuple[Any, ...]]) -> None:
    world = World.open(IMAGE)
    for kind, place, scope, change in steps:
        events = act(world, NORA, "calendar_list_events", **SPRING)["events"]
        if not events:
            break
        event = events[place % len(events)]
        if kind == "respond":
            world.call(
                "calendar_respond",
                {"event_id": event["event_id"], "response": "declined"},
                Actor("coworker", OMAR),
            )
            continue
        arguments = {"event_id": event["event_id"], "scope": scope}
        if kind == "update":
            arguments |= {"start": event["start"][:11] + "10:30"} if "start" in change else change
        world.call(f"calendar_{kind}_event", arguments, Actor("agent", NORA))
    events = act(world, NORA, "calendar_list_events", **SPRING)["events"]
    ids = [event["event_id"] for event in events]
    assert len(set(ids)) == len(ids)
    for event in events:
        read = act(world, NORA, "calendar_get_event", event_id=event["event_id"])
        assert (read["start"], read["end"], read["title"]) == (event["start"], event["end"], event["title"])
    for change in world.changes():
        record = world.get(Event, change.key)
        assert record is None or record.end > record.start
    world.close()
