from __future__ import annotations

import pytest

from servers.errors import SpecError
from servers.world import World
from tests.servers.tickets_office import (
    ADMIN,
    RIVAL,
    helpdesk,
    records,
    refuses,
    says,
    seat,
    ticket,
)
from tests.support import DANA, KLARA, NORA, OMAR, PRIYA, desk, over_mcp

pytestmark = pytest.mark.anyio


async def test_a_ticket_goes_from_new_to_closed_and_every_step_shows() -> None:
    async with over_mcp(desk(helpdesk())) as agent:
        created = await agent.ok("tickets_create", queue="customer support", title="Broken gate", priority="high")
        key = created["ticket_id"]
        await agent.ok("tickets_assign", ticket_id=key, assignee="Omar")
        await agent.ok("tickets_transition", ticket_id=key, status="open")
        await agent.ok("tickets_comment", ticket_id=key, body="On it", public=True)
        await agent.ok("tickets_transition", ticket_id=key, status="resolved", resolution="New hinge")
        await agent.ok("tickets_transition", ticket_id=key, status="closed")
        seen = await agent.ok("tickets_get", ticket_id=key.lower(), include_history=True)
    assert key == "SUP-106"  # the queue's numbers go on
    assert (seen["status"], seen["assignee"], seen["resolution"]) == ("closed", OMAR, "New hinge")
    assert [comment["body"] for comment in seen["comments"]] == ["On it"]
    assert seen["transitions"] == []
    steps = [(entry["what"], entry.get("to")) for entry in seen["history"]]
    assert steps[:3] == [("created", None), ("assignee", OMAR), ("status", "open")]
    assert ("resolution", "New hinge") in steps
    assert steps[-1] == ("status", "closed")


async def test_a_transition_that_is_not_in_the_table_is_refused_with_those_that_are() -> None:
    async with over_mcp(desk(helpdesk())) as agent:
        words = await agent.refused("tickets_transition", ticket_id="SUP-103", status="closed")
        final = await agent.refused("tickets_transition", ticket_id="SUP-105", status="open")
    assert "SUP-103 is new and cannot become closed" in words
    assert "open, waiting, escalated, resolved" in words
    assert "final" in final


async def test_resolved_needs_words_and_only_resolved_takes_them() -> None:
    async with over_mcp(desk(helpdesk())) as agent:
        blank = await agent.refused("tickets_transition", ticket_id="SUP-104", status="resolved", resolution=" \n")
        early = await agent.refused("tickets_transition", ticket_id="SUP-104", status="waiting", resolution="done")
        await agent.ok("tickets_transition", ticket_id="SUP-104", status="resolved", resolution="Fixed in 4.2")
        reopened = await agent.ok("tickets_transition", ticket_id="SUP-104", status="open")
    assert "needs a resolution" in blank
    assert "resolved only" in early
    assert "resolution" not in reopened


async def test_only_members_of_the_queue_can_be_assigned() -> None:
    async with over_mcp(desk(helpdesk())) as agent:
        words = await agent.refused("tickets_assign", ticket_id="SUP-103", assignee="Priya Raman")
        ambiguous = await agent.refused("tickets_assign", ticket_id="SUP-103", assignee="Dana")
        mine = await agent.ok("tickets_assign", ticket_id="SUP-103", assignee="me")
        free = await agent.ok("tickets_assign", ticket_id="SUP-103", assignee="none")
    assert NORA in words
    assert OMAR in words
    assert "several people" in ambiguous
    assert mine["assignee"] == NORA
    assert free["assignee"] is None


async def test_due_dates_follow_the_priority_from_the_creation_on() -> None:
    async with over_mcp(desk(helpdesk())) as agent:
        created = await agent.ok("tickets_create", queue="SUP", title="Slow", priority="normal")
        raised = await agent.ok("tickets_update", ticket_id=created["ticket_id"], priority="high")
        seen = await agent.ok("tickets_get", ticket_id=created["ticket_id"])
        no_clock = await agent.ok("tickets_get", ticket_id="ENG-7")
    assert created["due_at"].startswith("2026-03-04T09:00:01")
    assert raised["due_at"].startswith("2026-03-02T17:00:01")
    assert seen["response_due_at"].startswith("2026-03-02T11:00:01")
    assert "due_at" not in no_clock


def test_the_first_public_answer_stops_the_response_clock_and_nothing_else_does() -> None:
    world = World.open(helpdesk())
    nora, klara = seat(world, NORA), seat(world, KLARA)
    key = says(klara, "tickets_create", queue="SUP", title="Help", priority="high")["ticket_id"]
    says(klara, "tickets_comment", ticket_id=key, body="Hello?", public=True)
    says(nora, "tickets_comment", ticket_id=key, body="Whose is this?", public=False)
    says(nora, "tickets_assign", ticket_id=key, assignee="me")
    world.advance(3 * 3600)
    assert says(nora, "tickets_get", ticket_id=key)["overdue"] is True
    says(nora, "tickets_comment", ticket_id=key, body="Looking into it", public=True)
    answered = says(nora, "tickets_get", ticket_id=key)
    assert answered["overdue"] is False
    assert "response_due_at" not in answered
    world.advance(6 * 3600)
    assert says(nora, "tickets_get", ticket_id=key)["overdue"] is True
    says(nora, "tickets_transition", ticket_id=key, status="resolved", resolution="Done")
    assert says(nora, "tickets_get", ticket_id=key)["overdue"] is False


def test_a_transition_stops_the_response_clock_too() -> None:
    world = World.open(helpdesk())
    nora = seat(world, NORA)
    key = says(nora, "tickets_create", queue="SUP", title="Help", priority="high")["ticket_id"]
    says(nora, "tickets_transition", ticket_id=key, status="waiting")
    world.advance(3 * 3600)
    assert says(nora, "tickets_get", ticket_id=key)["overdue"] is False


def test_authored_tickets_get_their_clocks_and_both_sides_of_their_links() -> None:
    image = helpdesk(ticket=[ticket(110, links=["SUP-103"], status="waiting", priority="high")])
    nora = seat(World.open(image), NORA)
    answered = says(nora, "tickets_get", ticket_id="SUP-104")
    assert answered["first_response_at"].startswith("2026-02-27T13:00:00")  # c3: Omar's, public
    assert says(nora, "tickets_get", ticket_id="SUP-110")["due_at"].startswith("2026-02-27T18:00:00")
    assert says(nora, "tickets_get", ticket_id="SUP-103")["links"] == ["SUP-110"]
    assert says(nora, "tickets_create", queue="SUP", title="Next")["ticket_id"] == "SUP-111"
    assert says(nora, "tickets_create", queue="ENG", title="Next")["ticket_id"] == "ENG-8"


def test_links_stand_on_both_tickets_whichever_way_they_were_made() -> None:
    image = helpdesk()
    hashes = set[str]()
    for first, second in (("SUP-103", "ENG-7"), ("ENG-7", "SUP-103")):
        world = World.open(image)
        nora = seat(world, NORA)
        says(nora, "tickets_link", ticket_id=first, other_id=second)
        says(nora, "tickets_link", ticket_id=second, other_id=first)
        assert says(nora, "tickets_get", ticket_id="ENG-7")["links"] == ["SUP-103"]
        assert says(nora, "tickets_get", ticket_id="SUP-103")["links"] == ["ENG-7"]
        hashes.add(world.state_hash())
    assert len(hashes) == 1
    assert "itself" in refuses(seat(World.open(image), NORA), "tickets_link", ticket_id="ENG-7", other_id="eng-7")


def test_a_customer_sees_own_tickets_and_public_words_and_nothing_else() -> None:
    image = helpdesk(ticket=[ticket(120, title="Churn of a rival", reporter=RIVAL, links=["SUP-103", "SUP-104"])])
    klara = seat(World.open(image), KLARA)
    seen = says(klara, "tickets_get", ticket_id="SUP-104", include_history=True)
    assert "churning" not in str(seen)
    assert "links" not in seen
    assert {"tags", "approvals", "transitions"}.isdisjoint(seen)
    stranger = refuses(klara, "tickets_get", ticket_id="SUP-120")
    assert stranger.replace("SUP-120", "SUP-999") == refuses(klara, "tickets_get", ticket_id="SUP-999")
    found = says(klara, "tickets_search", query="churn")
    assert found["total"] == 0
    assert {item["ticket_id"] for item in says(klara, "tickets_search")["tickets"]} == {
        "SUP-103",
        "SUP-104",
        "SUP-105",
    }
    assert "tag" not in refuses(klara, "tickets_search", query="tag:billing").partition("Operators")[2]
    assert says(klara, "tickets_list_queues")["queues"] == [
        {"queue": "ENG", "name": "Engineering"},
        {"queue": "SUP", "name": "Customer support"},
    ]


def test_who_does_not_work_in_the_queue_changes_nothing_there() -> None:
    world = World.open(helpdesk())
    before = world.state_hash()
    calls = [
        ("tickets_update", {"ticket_id": "SUP-104", "title": "x"}),
        ("tickets_assign", {"ticket_id": "SUP-104", "assignee": "Omar"}),
        ("tickets_transition", {"ticket_id": "SUP-104", "status": "waiting"}),
        (
            "tickets_request_approval",
            {"ticket_id": "SUP-104", "action": "priority:critical", "approver": PRIYA, "reason": "r"},
        ),
    ]
    for person in (DANA, KLARA, PRIYA):
        for tool, arguments in calls:
            assert "only members of queue SUP" in refuses(seat(world, person), tool, **arguments)
    assert "may comment" in refuses(seat(world, DANA), "tickets_comment", ticket_id="SUP-104", body="x", public=True)
    assert "internal" in refuses(seat(world, KLARA), "tickets_comment", ticket_id="SUP-104", body="x", public=False)
    assert "for others" in refuses(seat(world, DANA), "tickets_create", queue="SUP", title="x", reporter="Klara")
    assert world.state_hash() == before
    says(seat(world, ADMIN), "tickets_update", ticket_id="SUP-104", title="Renamed")
    says(seat(world, KLARA), "tickets_comment", ticket_id="SUP-104", body="Any news?", public=True)
    made = says(seat(world, NORA), "tickets_create", queue="SUP", title="By phone", reporter="Klara Voss")
    assert made["reporter"] == KLARA


def test_an_update_that_changes_nothing_leaves_no_change() -> None:
    world = World.open(helpdesk())
    nora = seat(world, NORA)
    says(nora, "tickets_update", ticket_id="SUP-104", priority="high", title="Export fails ")
    says(nora, "tickets_assign", ticket_id="SUP-104", assignee=OMAR)
    assert world.changes() == []
    assert "nothing to change" in refuses(nora, "tickets_update", ticket_id="SUP-104")


def test_long_discussions_come_in_pages() -> None:
    more = [
        {
            "id": f"m{n:02}",
            "ticket_id": "SUP-103",
            "author": OMAR,
            "body": f"note {n}",
            "public": False,
            "created_at": "2026-02-28T10:00:00+01:00",
        }
        for n in range(45)
    ]
    nora = seat(World.open(helpdesk(comment=more)), NORA)
    bodies: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        part = says(nora, "tickets_get", ticket_id="SUP-103", **cursor)
        bodies += [comment["body"] for comment in part["comments"]]
        if part["next_cursor"] is None:
            break
        cursor = {"cursor": part["next_cursor"]}
    assert bodies == [f"note {n}" for n in range(45)]
    assert part["comments_total"] == 45


@pytest.mark.parametrize(
    ("kind", "row", "where", "words"),
    [
        ("ticket", ticket(200, created_at="2026-03-09T09:00:00Z"), "ticket[4].created_at", "after the start"),
        (
            "ticket",
            ticket(200, updated_at="2026-02-01T09:00:00Z"),
            "ticket[4].updated_at",
            "before what it follows",
        ),
        ("ticket", ticket(200, assignee=PRIYA), "ticket[4].assignee", "no member"),
        ("ticket", ticket(200, status="resolved"), "ticket[4].resolution", "needs a resolution"),
        ("ticket", ticket(200, resolution="x"), "ticket[4].resolution", "no resolution yet"),
        ("ticket", ticket(200, id="ENG-9"), "ticket[4].id", "expected SUP-"),
        ("ticket", ticket(200, links=["SUP-999"]), "ticket[4].links", "SUP-999"),
        ("queue", {"id": "HR", "name": "HR", "members": [KLARA]}, "queue[2].members[0]", "external"),
        (
            "comment",
            {
                "id": "x",
                "ticket_id": "SUP-103",
                "author": KLARA,
                "body": "x",
                "public": False,
                "created_at": "2026-02-28T09:00:00Z",
            },
            "comment[3].public",
            "external",
        ),
        (
            "comment",
            {
                "id": "x",
                "ticket_id": "ENG-7",
                "author": KLARA,
                "body": "x",
                "public": True,
                "created_at": "2026-02-28T09:00:00Z",
            },
            "comment[3].author",
            "cannot see",
        ),
        (
            "approval",
            {
                "id": "a",
                "ticket_id": "SUP-103",
                "action": "priority:critical",
                "requested_by": NORA,
                "approver": OMAR,
                "requested_at": "2026-02-28T09:00:00Z",
            },
            "approval[0].approver",
            "role",
        ),
        (
            "approval",
            {
                "id": "a",
                "ticket_id": "SUP-103",
                "action": "priority:critical",
                "requested_by": NORA,
                "approver": PRIYA,
                "state": "approved",
                "requested_at": "2026-02-28T09:00:00Z",
            },
            "approval[0].decided_at",
            "approved",
        ),
    ],
)
def test_impossible_records_are_found_with_their_place(
    kind: str, row: dict[str, object], where: str, words: str
) -> None:
    with pytest.raises(SpecError) as caught:
        helpdesk(**{kind: [row]})
    problem = caught.value.problems[0]
    assert problem.where == f"records.tickets.{where}"
    assert words in problem.message


def test_the_same_office_gives_the_same_bytes() -> None:
    assert helpdesk().data == helpdesk().data
    assert list(records()) == ["tickets.queue", "tickets.ticket", "tickets.comment", "tickets.approval"]
