from __future__ import annotations

import pytest

from servers.world import World
from tests.servers.tickets_office import ADMIN, LEO, helpdesk, refuses, says, seat
from tests.support import DANA, KLARA, NORA, OMAR, PRIYA, act, desk, over_mcp

CRITICAL = {"ticket_id": "SUP-104", "priority": "critical"}
ESCALATE = {"ticket_id": "SUP-104", "status": "escalated"}


def ask(approver: str = "Priya", action: str = "priority:critical", ticket_id: str = "SUP-104") -> dict[str, str]:
    return {"ticket_id": ticket_id, "action": action, "approver": approver, "reason": "Production is down"}


@pytest.mark.anyio
async def test_an_agent_asks_waits_and_may_act_once_it_is_approved() -> None:
    where = desk(helpdesk())
    async with over_mcp(where) as agent:
        missing = await agent.refused("tickets_update", **CRITICAL)
        asked = await agent.ok("tickets_request_approval", **ask())
        pending = await agent.refused("tickets_update", **CRITICAL)
        act(
            where.world,
            PRIYA,
            "tickets_decide_approval",
            approval_id=asked["approval_id"],
            approve=True,
            note="Go",
        )
        seen = await agent.ok("tickets_get_approval", approval_id=asked["approval_id"])
        raised = await agent.ok("tickets_update", **CRITICAL)
    assert "none was requested" in missing
    assert "tickets_request_approval" in missing
    assert "still waits" in pending
    assert "Priya Raman" in pending
    assert (seen["state"], seen["note"]) == ("approved", "Go")
    assert raised["priority"] == "critical"
    assert raised["due_at"].startswith("2026-02-27T14:00:00")  # four hours after it was created


def test_a_rejection_is_no_approval_and_another_may_be_asked() -> None:
    world = World.open(helpdesk())
    nora = seat(world, NORA)
    first = says(nora, "tickets_request_approval", **ask(action="status:escalated"))
    says(
        seat(world, PRIYA),
        "tickets_decide_approval",
        approval_id=first["approval_id"],
        approve=False,
        note="Not yet",
    )
    words = refuses(nora, "tickets_transition", **ESCALATE)
    assert "rejected" in words
    assert "Not yet" in words
    second = says(nora, "tickets_request_approval", **ask("Leo", "status:escalated"))
    says(seat(world, LEO), "tickets_decide_approval", approval_id=second["approval_id"], approve=True)
    assert says(nora, "tickets_transition", **ESCALATE)["status"] == "escalated"


def test_an_approval_is_good_for_its_ticket_and_its_action_only() -> None:
    world = World.open(helpdesk())
    nora = seat(world, NORA)
    asked = says(nora, "tickets_request_approval", **ask())
    says(seat(world, PRIYA), "tickets_decide_approval", approval_id=asked["approval_id"], approve=True)
    assert "none was requested" in refuses(nora, "tickets_transition", **ESCALATE)
    assert "none was requested" in refuses(nora, "tickets_update", ticket_id="SUP-103", priority="critical")
    assert "existing ticket" in refuses(nora, "tickets_create", queue="SUP", title="x", priority="critical")
    says(nora, "tickets_update", **CRITICAL)


def test_only_the_person_asked_decides_and_only_once() -> None:
    world = World.open(helpdesk())
    asked = says(seat(world, NORA), "tickets_request_approval", **ask())["approval_id"]
    for person in (NORA, OMAR, LEO, ADMIN, DANA):
        words = refuses(seat(world, person), "tickets_decide_approval", approval_id=asked, approve=True)
        assert "only Priya Raman" in words
    priya = seat(world, PRIYA)
    says(priya, "tickets_decide_approval", approval_id=asked, approve=False)
    assert "rejected already" in refuses(priya, "tickets_decide_approval", approval_id=asked, approve=True)


def test_only_approvers_are_asked_and_nobody_asks_themselves() -> None:
    world = World.open(
        helpdesk(queue=[{"id": "OPS", "name": "Operations", "members": [PRIYA], "restricted_priorities": ["high"]}])
    )
    words = refuses(seat(world, NORA), "tickets_request_approval", **ask("Omar"))
    assert "is no approver" in words
    assert PRIYA in words
    assert LEO in words
    priya = seat(world, PRIYA)
    key = says(priya, "tickets_create", queue="OPS", title="Move")["ticket_id"]
    own = refuses(priya, "tickets_request_approval", **ask("Priya", "priority:high", key))
    assert "their own request" in own
    assert PRIYA not in own.partition("Approvers")[2]


def test_what_needs_no_approval_and_what_is_asked_already_is_refused() -> None:
    nora = seat(World.open(helpdesk()), NORA)
    words = refuses(nora, "tickets_request_approval", **ask(action="priority:high"))
    assert "priority:critical, status:escalated" in words
    asked = says(nora, "tickets_request_approval", **ask())
    again = refuses(nora, "tickets_request_approval", **ask("Leo"))
    assert f"{asked['approval_id']} is pending" in again


def test_a_role_does_not_waive_an_approval() -> None:
    admin = seat(World.open(helpdesk()), ADMIN)
    assert "needs an approval" in refuses(admin, "tickets_update", **CRITICAL)
    assert says(admin, "tickets_update", ticket_id="SUP-104", priority="low")["priority"] == "low"


def test_customers_never_hear_of_approvals() -> None:
    world = World.open(helpdesk())
    asked = says(seat(world, NORA), "tickets_request_approval", **ask())["approval_id"]
    klara = seat(world, KLARA)
    assert "there is no approval" in refuses(klara, "tickets_get_approval", approval_id=asked)
    assert "there is no approval" in refuses(klara, "tickets_decide_approval", approval_id=asked, approve=True)
    assert "approval" not in str(says(klara, "tickets_get", ticket_id="SUP-104", include_history=True))


def test_an_approver_finds_what_waits_and_the_history_tells_the_story() -> None:
    world = World.open(helpdesk())
    asked = says(seat(world, NORA), "tickets_request_approval", **ask())["approval_id"]
    priya = seat(world, PRIYA)
    [waiting] = says(priya, "tickets_search", query="approval:pending")["tickets"]
    seen = says(priya, "tickets_get", ticket_id=waiting["ticket_id"])
    assert [item["approval_id"] for item in seen["approvals"]] == [asked]
    says(priya, "tickets_decide_approval", approval_id=asked, approve=True)
    history = says(priya, "tickets_get", ticket_id="SUP-104", include_history=True)["history"]
    assert [entry["what"] for entry in history][-2:] == ["approval requested", "approval approved"]
