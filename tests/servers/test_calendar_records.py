from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.errors import SpecError
from servers.journal import Actor
from servers.services.calendar import CALENDAR
from servers.services.calendar.records import Event
from servers.services.directory import DIRECTORY
from servers.world import World
from tests.support import KLARA, NORA, OMAR, PRIYA, act, office

EVENT: dict[str, Any] = {
    "id": "e1",
    "organizer": PRIYA,
    "title": "Review",
    "start": "2026-03-03T15:00:00Z",
    "end": "2026-03-03T16:00:00Z",
}
WEEKLY = EVENT | {"id": "s", "recurrence": "RRULE:BYDAY=TU;FREQ=WEEKLY"}


def problems(*events: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as caught:
        office([CALENDAR], {"calendar.event": list(events)})
    return [str(problem) for problem in caught.value.problems]


def test_what_an_author_leaves_out_is_completed() -> None:
    changed = {
        "id": "s_20260310T140000Z",  # New York has changed its clocks
        "series_id": "s",
        "original_start": "2026-03-10T14:00:00Z",
        "start": "2026-03-11T15:00:00Z",
        "end": "2026-03-11T16:00:00Z",
        "attendees": [NORA],
    }
    world = World.open(office([CALENDAR], {"calendar.event": [WEEKLY, EVENT | changed]}))
    series = world.get(Event, "s")
    assert series is not None
    assert (series.timezone, series.recurrence) == ("America/New_York", "FREQ=WEEKLY;BYDAY=TU")
    listed = act(world, PRIYA, "calendar_list_events", start="2026-03-09", end="2026-03-16")["events"]
    assert [event["event_id"] for event in listed] == ["s_20260310T140000Z"]
    assert world.changes() == []


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"end": "2026-03-03T15:00:00Z"}, ".end", "not after"),
        ({"end": "2028-03-03T15:00:00Z"}, ".end", "longer than 366 days"),
        ({"timezone": "Mars/Olympus"}, ".timezone", "Europe/Berlin"),
        ({"recurrence": "FREQ=HOURLY"}, ".recurrence", "DAILY, WEEKLY"),
        ({"recurrence": "FREQ=WEEKLY;BYDAY=FR"}, ".recurrence", "Friday 2026-03-06"),
        ({"excluded": ["2026-03-10T15:00:00Z"]}, ".excluded", "only an event with recurrence"),
        ({"organizer": "Priya.Raman@northwind.example"}, ".organizer", "Write priya.raman"),
        ({"attendees": ["omar.hadad@northwind.example"]}, ".attendees[0]", OMAR),
        ({"attendees": [KLARA, KLARA]}, ".attendees", "twice"),
        ({"attendees": ["nobody"]}, ".attendees[0]", "no mail address"),
        ({"all_day": True}, ".start", "midnight"),
        ({"series_id": "e1"}, ".series_id", "go together"),
        ({"start": "1900-01-01T00:00:00Z"}, ".start", "1970"),
    ],
)
def test_an_impossible_record_is_named_with_its_place(change: dict[str, Any], where: str, words: str) -> None:
    found = [text for text in problems(EVENT | change) if words in text]
    assert found
    assert found[0].startswith(f"records.calendar.event[0]{where}:")


def test_a_changed_occurrence_must_belong_to_its_series() -> None:
    changed = EVENT | {"series_id": "s", "original_start": "2026-03-10T15:00:00Z"}
    texts = problems(WEEKLY, changed)
    assert any("Write s_20260310T150000Z" in text for text in texts)
    assert any("'s' does not happen then. Write 2026-03-10T14:00:00Z" in text for text in texts)


# ---------------------------------------------------------------------- no arguments break a tool

IMAGE = office(
    [CALENDAR, DIRECTORY],
    {
        "calendar.event": [
            WEEKLY | {"attendees": [NORA, OMAR]},
            EVENT | {"organizer": NORA, "attendees": [OMAR]},
        ]
    },
)
TIMES = st.one_of(
    st.sampled_from(["2026-03-03", "2026-03-03T10:00", "2026-03-10T11:00:00+05:45", "0001-01-01", "9999-12-31T23:59"]),
    st.datetimes().map(str),
    st.dates().map(str),
    st.text(max_size=12),
)
STRINGS: dict[str, st.SearchStrategy[str]] = {
    "event_id": st.one_of(
        st.sampled_from(["e1", "s", "s_20260310T150000Z", "s_20260317T140000Z", "s_", "s_00000000T000000Z"]),
        st.from_regex(r"s_[0-9]{8}T[0-9]{6}Z", fullmatch=True),
        st.text(max_size=20),
    ),
    "person": st.sampled_from(["Omar", "Klara", "Dana", "", "@", OMAR]),
    "timezone": st.one_of(st.sampled_from(["Asia/Tokyo", "Europe", "UTC", "Pacific/Apia"]), st.text(max_size=12)),
    "recurrence": st.one_of(
        st.sampled_from(["FREQ=DAILY", "FREQ=WEEKLY;COUNT=1000", "FREQ=YEARLY;INTERVAL=400;COUNT=9", "RRULE:"]),
        st.text(max_size=20),
    ),
} | dict.fromkeys(("start", "end", "earliest", "latest"), TIMES)
ADDRESSES = st.one_of(st.sampled_from(["Omar", KLARA, "a@b.c", 'q"@x.yz', "Dana"]), st.text(max_size=10))


def arguments(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any arguments that a tool's schema lets pass, and likely ones among them."""
    required = {name: _value(name, schema["properties"][name]) for name in schema.get("required", ())}
    optional = {name: _value(name, value) for name, value in schema["properties"].items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


def _value(name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "boolean":
        return st.booleans()
    if schema["type"] == "integer":
        return st.integers(schema["minimum"], schema["maximum"])
    if schema["type"] == "array":
        return st.lists(ADDRESSES, min_size=schema.get("minItems", 0), max_size=4)
    return STRINGS.get(name, st.text(min_size=schema.get("minLength", 0), max_size=20))


CALLS = st.sampled_from(CALENDAR.tools).flatmap(
    lambda tool: st.tuples(st.just(tool.name), arguments(tool.input_schema))
)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([NORA, OMAR, KLARA]), CALLS), min_size=1, max_size=5))
def test_whatever_is_asked_a_tool_answers_or_refuses(
    calls: list[tuple[str, tuple[str, dict[str, Any]]]],
) -> None:
    world = World.open(IMAGE)
    for person, (tool, given_arguments) in calls:
        result = world.call(tool, given_arguments, Actor("coworker", person))  # a fault would raise
        assert result.ok or result.text.startswith(tool)
    act(world, NORA, "calendar_list_events", start="2026-01-01", end="2026-12-31")
    world.close()


def test_no_argument_schema_needs_references_or_unions() -> None:
    for tool in CALENDAR.tools:
        text = str(tool.input_schema)
        assert "$ref" not in text
        assert "anyOf" not in text
        assert tool.description
