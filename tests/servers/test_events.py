"""Events, notices, waiting, and what an image refuses to be built from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from servers.desk import expose
from servers.errors import Problem, SpecError
from servers.services.directory import DIRECTORY
from servers.world import World
from tests.servers.notebook import NOTES, Note, notebook, seat
from tests.support import NORA, OMAR, PRIYA, desk, office, over_mcp


def put(key: str, by: str = OMAR, **arguments: Any) -> dict[str, Any]:
    """An action that writes a note."""
    return {"by": by, "tool": "notes_put", "arguments": {"note_id": key, **arguments}}


def event(name: str, when: dict[str, Any], *actions: dict[str, Any], notice: str | None = None) -> dict[str, Any]:
    return {"id": name, "when": when, "do": list(actions), "notice": notice}


def written(world: World) -> list[tuple[str, int]]:
    """Notes that events wrote and the seconds since the start, in order."""
    return [
        (entry.result["note_id"], entry.at - world.image.start)
        for entry in world.journal()
        if entry.event is not None and entry.result is not None
    ]


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.lists(st.integers(0, 30), max_size=6))
def test_timed_events_fire_in_order_and_at_their_own_time(delays: list[int], steps: list[int]) -> None:
    image = notebook(*[event(f"e{n}", {"after": delay}, put(f"n{n}")) for n, delay in enumerate(delays)])
    world = World.open(image)
    for step in [*steps, 60]:
        world.advance(step)
    expected = sorted((delay, f"n{n}") for n, delay in enumerate(delays))
    assert written(world) == [(key, delay) for delay, key in expected]
    assert world.now == image.start + sum(steps) + 60


def test_an_event_at_a_time_happens_before_the_call_that_comes_after_it() -> None:
    image = notebook(event("late", {"at": "2026-03-02T09:00:01+01:00"}, put("d", text="from Omar")))
    agent = desk(image)
    assert agent.call("notes_show", {"note_id": "d"}).ok  # the agent's call takes a second
    assert [entry.event for entry in agent.world.journal()] == ["late", None]


def test_an_event_on_a_call_needs_the_right_caller_arguments_and_result() -> None:
    when = {
        "after_call": {
            "tool": "notes_put",
            "where": {"text": {"contains_text": "urgent"}},
            "result": {"note.tags[0]": "x"},
        }
    }
    agent = desk(notebook(event("reply", when, put("reply", text="re: ${call.arguments.text} by ${call.by}"))))
    agent.call("notes_put", {"note_id": "n1", "text": "calm", "tags": ["x"]})
    agent.call("notes_put", {"note_id": "n2", "text": "URGENT", "tags": ["y"]})
    agent.call("notes_put", {"note_id": "a", "text": "urgent", "tags": ["x"]})  # refused: it is there
    seat(agent.world, PRIYA).call("notes_put", {"note_id": "n3", "text": "urgent", "tags": ["x"]})
    assert written(agent.world) == []
    agent.call("notes_put", {"note_id": "n4", "text": "Urgent!", "tags": ["x"]})
    assert [key for key, _ in written(agent.world)] == ["reply"]
    assert agent.world.dump(Note.type_name)[-1]["text"] == f"re: Urgent! by {NORA}"


def test_an_event_on_a_call_comes_after_its_delay_and_as_often_as_it_may() -> None:
    when = {"after_call": {"tool": ["notes_edit", "notes_show"], "by": "anyone"}, "delay": "1m", "times": 2}
    world = World.open(notebook(event("echo", when, {"by": OMAR, "tool": "notes_fresh"})))
    omar = seat(world, OMAR)
    for _ in range(4):
        assert omar.call("notes_show", {"note_id": "a"}).ok
        world.advance(10)
    assert written(world) == []
    world.advance(600)
    assert [at for _, at in written(world)] == [60, 70]


def test_events_after_turns_fire_once_when_that_turn_has_ended() -> None:
    image = notebook(
        event("second", {"after_turn": 2}, put("two"), notice="two"),
        event("third", {"after_turn": 3, "delay": "30s"}, put("three")),
    )
    world = World.open(image)
    world.end_turn()
    assert written(world) == []
    world.end_turn()
    assert written(world) == [("two", 0)]
    world.end_turn()
    world.end_turn()
    assert world.take_notices() == ["two"]
    world.advance(30)
    assert written(world) == [("two", 0), ("three", 30)]
    assert world.turn == 4


def test_an_event_can_set_off_another() -> None:
    by_omar = {
        "after_call": {"tool": "notes_put", "where": {"note_id": "one"}, "by": "anyone"},
        "delay": "5s",
    }
    image = notebook(event("first", {"after": "10s"}, put("one")), event("then", by_omar, put("two")))
    world = World.open(image)
    world.advance(60)
    assert written(world) == [("one", 10), ("two", 15)]


def test_actions_use_results_of_earlier_ones_and_the_rest_goes_on_when_one_is_refused() -> None:
    fresh = {"by": OMAR, "tool": "notes_fresh", "bind": "made"}
    fine = event("fine", {"after": "1s"}, fresh, put("copy", text="$made.note_id"), notice="wrote ${made.note_id}")
    refused = event(
        "refused",
        {"after": "2s"},
        {"by": OMAR, "tool": "notes_drop", "arguments": {"note_id": "nowhere"}, "bind": "gone"},
        put("reply", text="$gone.note_id"),
        put("last"),
        notice="dropped ${gone.note_id}",
    )
    agent = desk(notebook(fine, refused))
    agent.world.advance(10)
    made, *others = (key for key, _ in written(agent.world))
    assert others == ["copy", "last"]
    assert agent.world.take_notices() == [f"wrote {made}"]
    errors = [(entry.tool, entry.event) for entry in agent.world.journal() if entry.error is not None]
    assert errors == [("notes_drop", "refused"), ("notes_put", "refused")]
    assert agent.call("notes_show", {"note_id": "copy"}).value == {
        "note_id": "copy",
        "text": made,
        "done": False,
    }


@pytest.mark.anyio
async def test_a_loud_event_is_told_once_and_a_silent_one_never() -> None:
    image = notebook(
        event("silent", {"after": "1s"}, put("quiet")),
        event("loud", {"after": "2s"}, put("noise"), notice="Omar wrote a note"),
        event("pulled", {"after": "1m"}, notice="The office closes at six"),
    )
    where = desk(image)
    async with over_mcp(where) as agent:
        told = [await agent.client.call_tool("notes_show", {"note_id": "a"}) for _ in range(3)]
        where.world.advance(60)
        pulled = await agent.ok("workplace_notices")
        again = await agent.ok("workplace_notices")
    assert [[block.text for block in result.content[1:]] for result in told] == [  # type: ignore[union-attr]
        [],
        ["[notice] Omar wrote a note"],
        [],
    ]
    assert pulled == {"notices": ["The office closes at six"]}
    assert again == {"notices": []}
    assert where.world.journal()[0].event == "silent"


def test_waiting_stops_at_the_next_event_or_after_the_time_given() -> None:
    image = notebook(
        event("silent", {"after": "5m"}, put("quiet")),
        event("loud", {"after": "20m"}, put("noise"), notice="news"),
    )
    agent = desk(image)
    start = agent.world.now
    assert agent.call("workplace_wait", {"minutes": 60}).value == {
        "now": "2026-03-02T09:05:00+01:00",
        "notices": [],
    }
    assert agent.call("workplace_wait", {"minutes": 10}).value == {
        "now": "2026-03-02T09:15:00+01:00",
        "notices": [],
    }
    assert agent.call("workplace_wait", {"minutes": 60}).value == {
        "now": "2026-03-02T09:20:00+01:00",
        "notices": ["news"],
    }
    assert agent.call("workplace_wait", {"minutes": 60}).value == {
        "now": "2026-03-02T10:20:00+01:00",
        "notices": [],
    }
    assert not agent.call("workplace_wait", {"minutes": 0}).ok
    assert agent.world.now == start + 80 * 60


def problems(*events: dict[str, Any], records: dict[str, Any] | None = None, **given: Any) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        office([NOTES, DIRECTORY], records or {}, events=events, **given)
    assert all(problem.where in str(caught.value) for problem in caught.value.problems)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("records", "code", "where"),
    [
        ({"notes.note": [{"id": "a", "about": "zz"}]}, "dangling_id", "records.notes.note[0].about"),
        (
            {"notes.note": [{"id": "a"}, {"id": "b", "colour": "red"}]},
            "unknown_key",
            "records.notes.note[1].colour",
        ),
        ({"notes.note": [{"id": "a"}, {"id": "a"}]}, "duplicate_id", "records.notes.note[1].id"),
        ({"notes.note": [{"text": "no id"}]}, "missing", "records.notes.note[0].id"),
        ({"notes.note": [{"id": "a", "tags": ["x", 3]}]}, "string_type", "records.notes.note[0].tags[1]"),
        (
            {"notes.note": [{"id": "a", "seen_at": "2026-03-01T09:00:00"}]},
            "value_error",
            "records.notes.note[0].seen_at",
        ),
        ({"notes.notes": [{"id": "a"}]}, "unknown_type", "records.notes.notes"),
    ],
)
def test_records_that_cannot_be_are_found_with_their_path(records: dict[str, Any], code: str, where: str) -> None:
    [problem] = problems(records=records)
    assert (problem.code, problem.where) == (code, where)


@pytest.mark.parametrize(
    ("bad", "code", "where"),
    [
        (event("e", {"at": "2026-03-02T08:59:59+01:00"}), "impossible_time", "events[1].when.at"),
        (event("ok", {"after": "1s"}), "duplicate_id", "events[1].id"),
        (
            event("e", {"after_call": {"tool": "notes_shwo"}}),
            "unknown_tool",
            "events[1].when.after_call.tool",
        ),
        (event("e", {"after": "1s"}, {"by": OMAR, "tool": "fly"}), "unknown_tool", "events[1].do[0].tool"),
        (event("e", {"after": "1s"}, put("x", by="omar")), "unknown_person", "events[1].do[0].by"),
        (
            event("e", {"after_call": {"tool": "notes_show", "where": {"note_id": {"like": "a"}}}}),
            "unknown_operator",
            "events[1].when.after_call.where.note_id.like",
        ),
    ],
)
def test_events_that_cannot_be_are_found_with_their_path(bad: dict[str, Any], code: str, where: str) -> None:
    [problem] = problems(event("ok", {"after": "1s"}), bad)
    assert (problem.code, problem.where) == (code, where)


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ({}, "exactly one of"),
        ({"after": "1s", "after_turn": 1}, "exactly one of"),
        ({"after": "soon"}, "90s, 15m, 2h or 1d"),
        ({"after": "1s", "every": "1d"}, "every"),
        ({"at": "2026-03-02T10:00:00"}, "no offset"),
    ],
)
def test_a_moment_is_exactly_one_and_readable(when: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        notebook(event("e", when))


def test_every_problem_is_listed_at_once_with_the_closest_name() -> None:
    found = problems(records={"notes.note": [{"id": 1}, {"id": "b", "x": 1}], "notes.nte": []})
    assert [problem.where for problem in found] == [
        "records.notes.note[0].id",
        "records.notes.note[1].x",
        "records.notes.nte",
    ]
    assert found[-1].fix == "Did you mean notes.note?"
    [problem] = problems(principal="nora@northwind.example")
    assert (problem.code, problem.where) == ("unknown_person", "principal")


def test_a_desk_cannot_be_given_tools_that_are_not_there() -> None:
    with pytest.raises(SpecError, match=r"tools\[1\].*notes_show"):
        expose(notebook().workplace, ["notes_put", "notes_shwo"])
