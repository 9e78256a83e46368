"""The ticketing tests' office: two queues, a customer with tickets, an approver, an administrator."""

from __future__ import annotations

from typing import Any

from servers.desk import Desk
from servers.image import Image
from servers.services.tickets import TICKETS
from tests.servers.notebook import seat
from tests.support import DANA, KLARA, NORA, OMAR, PEOPLE, PRIYA, office

ADMIN = "ada.stone@northwind.example"
LEO = "leo.marsh@northwind.example"
RIVAL = "rita.val@rival.example"

CAST: list[dict[str, Any]] = [
    *PEOPLE,
    {"email": ADMIN, "name": "Ada Stone", "roles": ["ticket_admin"]},
    {"email": LEO, "name": "Leo Marsh", "roles": ["approver"]},
    {"email": RIVAL, "name": "Rita Val", "external": True},
]

HOURS = {"low": 24, "normal": 8, "high": 2, "critical": 1}
RESOLVE = {"low": 120, "normal": 48, "high": 8, "critical": 4}


def ticket(number: int, **fields: Any) -> dict[str, Any]:
    """A support ticket of Klara's from the Friday before; fields win."""
    return {
        "id": f"SUP-{number}",
        "queue": "SUP",
        "title": f"Matter {number}",
        "reporter": KLARA,
        "created_at": "2026-02-27T10:00:00+01:00",
        "updated_at": "2026-02-27T10:00:00+01:00",
    } | fields


def records(**more: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The office's records; ``ticket=[...]`` and so on add to them."""
    base: dict[str, list[dict[str, Any]]] = {
        "queue": [
            {
                "id": "SUP",
                "name": "Customer support",
                "members": [NORA, OMAR],
                "response_hours": HOURS,
                "resolution_hours": RESOLVE,
                "restricted_priorities": ["critical"],
                "restricted_transitions": ["escalated"],
            },
            {"id": "ENG", "name": "Engineering", "members": [DANA]},
        ],
        "ticket": [
            ticket(103, title="Invoice shows the wrong total", tags=["billing"], customer="Alpenrad"),
            ticket(
                104,
                title="Export fails",
                status="open",
                assignee=OMAR,
                priority="high",
                description="Error 500",
            ),
            ticket(105, title="Old matter", status="closed", resolution="Refunded"),
            ticket(7, id="ENG-7", queue="ENG", title="Export job crashes", reporter=OMAR, status="open"),
        ],
        "comment": [
            {
                "id": "c1",
                "ticket_id": "SUP-104",
                "author": KLARA,
                "body": "It happens every night",
                "public": True,
                "created_at": "2026-02-27T11:00:00+01:00",
            },
            {
                "id": "c2",
                "ticket_id": "SUP-104",
                "author": OMAR,
                "body": "Klara is close to churning",
                "public": False,
                "created_at": "2026-02-27T12:00:00+01:00",
            },
            {
                "id": "c3",
                "ticket_id": "SUP-104",
                "author": OMAR,
                "body": "We are looking into it",
                "public": True,
                "created_at": "2026-02-27T13:00:00+01:00",
            },
        ],
        "approval": [],
    }
    return {f"tickets.{name}": [*rows, *more.get(name, [])] for name, rows in base.items()}


def helpdesk(**more: list[dict[str, Any]]) -> Image:
    """The image of the office; see ``records``."""
    return office([TICKETS], records(**more), people=CAST)


def says(where: Desk, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that has to succeed."""
    result = where.call(tool, arguments)
    assert result.value is not None, result.text
    return result.value


def refuses(where: Desk, tool: str, **arguments: Any) -> str:
    """Call a tool that has to refuse; gives its words."""
    result = where.call(tool, arguments)
    assert not result.ok, result.text
    return result.text


__all__ = [
    "ADMIN",
    "LEO",
    "NORA",
    "OMAR",
    "PRIYA",
    "RIVAL",
    "helpdesk",
    "records",
    "refuses",
    "says",
    "seat",
    "ticket",
]
