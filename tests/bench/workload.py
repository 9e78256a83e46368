"""The workplace that benchmarks open: all seven built-in services, a declared one, and 600 records.

The task is an inbox triage whose oracle makes ten calls; around it stand the records of a busy office, which
the task does not need and an agent may look at.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from harness.environment import Environment
from servers.catalogue import BUILT_IN
from servers.records import iso_utc
from synth.families.inbox_triage import INBOX_TRIAGE
from synth.graph import data

RECORDS = 600
CALLS = 10
HOUR = 3600
READS: dict[str, dict[str, Any]] = {
    "desk_list": {},
    "directory_search": {"query": "a"},
    "files_read": {"file_id": "w-file-5"},
    "mail_search": {"query": "is:unread"},
    "tickets_get": {"ticket_id": "WRK-2"},
}
WRITES: dict[str, dict[str, Any]] = {
    "calendar_create_event": {"title": "Tuesday", "start": "2027-03-02T09:00:00Z", "end": "2027-03-02T10:00:00Z"},
    "chat_post": {"channel": "workshop", "text": "Machine 7 is done."},
    "desk_assign": {"id": "w-6", "owner": "Ann Li"},
    "mail_create_draft": {"subject": "Tuesday", "body": "See you then.\n\nKind regards"},
    "tickets_comment": {"ticket_id": "WRK-2", "body": "I am looking at it.", "public": False},
}


@cache
def busy(*, all_tools: bool = False) -> Environment:
    """The environment; with the eight tools of the task, or with every tool of every service."""
    plain = INBOX_TRIAGE.make("bench", INBOX_TRIAGE.levels)
    found = plain.dump()
    colleagues = [person.email for person in plain.cast if not person.external and person.email != plain.principal]
    own = {name: list(rows) for name, rows in found.get("records", {}).items()}
    room = RECORDS - len(plain.cast) - sum(len(rows) for rows in own.values())
    for name, rows in office(colleagues, plain.principal, plain.start, room).items():
        own.setdefault(name, []).extend(rows)
    found |= {
        "services": [service.name for service in BUILT_IN],
        "declared": [data("ticket_routing.yaml")["service"]],
        "records": own,
        "tools": None if all_tools else found["tools"],
    }
    environment = Environment.parse(found)
    assert sum(step.call is not None for step in environment.oracle) == CALLS
    assert sum(len(rows) for rows in environment.records.values()) + len(plain.cast) == RECORDS
    environment.validate_all()
    return environment


def office(others: list[str], principal: str, start: int, count: int) -> dict[str, list[dict[str, Any]]]:
    """``count`` records of other people's work, spread over all services; ids begin with ``w``."""
    rows: dict[str, list[dict[str, Any]]] = {
        "tickets.queue": [{"id": "WRK", "name": "Workshop", "members": [*others[:4], principal]}],
        "chat.channel": [{"id": "w-channel", "name": "workshop", "members": [*others, principal]}],
        "files.folder": [{"id": "w-folder", "name": "Workshop", "owner": others[0], "shares": {principal: "reader"}}],
    }
    makers = (_mail, _event, _ticket, _comment, _chat, _file, _desk)
    left, number = count - sum(map(len, rows.values())), 0
    while left:
        who, other = others[number % len(others)], others[(number + 1) % len(others)]
        maker = _desk if left == 1 else makers[number % len(makers)]  # a file takes two rows
        for name, row in maker(number, who, other, start - (count - number) * HOUR):
            rows.setdefault(name, []).append(row)
            left -= 1
        number += 1
    return rows


Made = list[tuple[str, dict[str, Any]]]


def _mail(number: int, who: str, other: str, at: int) -> Made:
    text = f"Hello,\n\nhere are the figures of week {number}. " + "They look much like the ones before. " * 6
    row = {"id": f"w-mail-{number}", "sender": who, "to": [other], "subject": f"Week {number}", "sent_at": iso_utc(at)}
    return [("mail.message", row | {"body": text})]


def _event(number: int, who: str, other: str, at: int) -> Made:
    row = {"id": f"w-event-{number}", "organizer": who, "title": f"Review {number}", "attendees": [{"email": other}]}
    return [("calendar.event", row | {"start": iso_utc(at), "end": iso_utc(at + HOUR)})]


def _ticket(number: int, who: str, other: str, at: int) -> Made:
    row = {"id": f"WRK-{number}", "queue": "WRK", "title": f"Machine {number} stops", "reporter": who}
    return [
        ("tickets.ticket", row | {"created_at": iso_utc(at), "updated_at": iso_utc(at), "description": "Again. " * 20})
    ]


def _comment(number: int, who: str, other: str, at: int) -> Made:
    row = {"id": f"w-comment-{number}", "ticket_id": f"WRK-{number - 1}", "author": who, "public": False}
    return [("tickets.comment", row | {"body": "I am looking at it. " * 5, "created_at": iso_utc(at)})]


def _chat(number: int, who: str, other: str, at: int) -> Made:
    row = {"id": f"w-chat-{number}", "channel_id": "w-channel", "author": who, "sent_at": iso_utc(at)}
    return [("chat.message", row | {"text": f"Machine {number - 2} is done. " * 3})]


def _file(number: int, who: str, other: str, at: int) -> Made:
    file = {"id": f"w-file-{number}", "name": f"report-{number}.md", "owner": who, "folder_id": "w-folder"}
    version = {
        "id": f"w-version-{number}",
        "file_id": file["id"],
        "number": 1,
        "author": who,
        "created_at": iso_utc(at),
    }
    return [("files.file", file), ("files.version", version | {"text": "# Report\n\nNothing new. " * 20})]


def _desk(number: int, who: str, other: str, at: int) -> Made:
    return [("desk.ticket", {"id": f"w-{number}", "customer": f"Customer {number}", "about": "Invoice is wrong"})]
