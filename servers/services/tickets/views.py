"""How tickets, comments and approvals look in answers; nulls that say nothing are left out."""

from __future__ import annotations

import sqlalchemy as sa
from pydantic_core import to_json

from servers.services.tickets.records import (
    DONE,
    TRANSITIONS,
    Approval,
    Brief,
    Comment,
    Queue,
    Ticket,
    restricted_actions,
)
from servers.services.tickets.rules import APPROVALS_OF, may_change, may_see
from servers.services.tickets.sla import overdue
from servers.sql import Query, Statement, among, param, table
from servers.tools import Call, JsonObject

COMMENTS_OF = Query(
    Comment,
    lambda comment: (
        sa.select(comment)
        .where(comment.c.ticket_id == param("ticket_id"))
        .order_by(comment.c.created_at, sa.literal_column("rowid"))
    ),
)
TICKETS_AMONG = Query(Ticket, lambda ticket: sa.select(ticket).where(among(ticket.c.id, "ids")))
BRIEF_AMONG = Statement(
    lambda: sa.select(*(table(Ticket).c[name] for name in Brief._fields)).where(among(table(Ticket).c.id, "ids"))
)
HISTORY_FIELDS = ("title", "description", "status", "priority", "assignee", "resolution", "customer")
"""Fields whose changes the history shows; all are ones that everybody who sees the ticket sees."""


def summary(call: Call, ticket: Ticket | Brief) -> JsonObject:
    """A ticket in a list."""
    answer: JsonObject = {
        "ticket_id": ticket.id,
        "title": ticket.title,
        "queue": ticket.queue,
        "status": ticket.status,
        "priority": ticket.priority,
        "reporter": ticket.reporter,
        "assignee": ticket.assignee,
        "updated_at": call.local(ticket.updated_at),
        "overdue": overdue(ticket, call.now),
    }
    if ticket.customer is not None:
        answer["customer"] = ticket.customer
    if ticket.due_at is not None:
        answer["due_at"] = call.local(ticket.due_at)
    if ticket.resolution is not None:
        answer["resolution"] = ticket.resolution
    return answer


def details(call: Call, ticket: Ticket, queue: Queue) -> JsonObject:
    """A ticket with everything the caller may see of it but comments and history."""
    answer = summary(call, ticket)
    answer["created_at"] = call.local(ticket.created_at)
    answer["description"] = ticket.description
    if ticket.first_response_at is not None:
        answer["first_response_at"] = call.local(ticket.first_response_at)
    elif ticket.response_due_at is not None and ticket.status not in DONE:
        answer["response_due_at"] = call.local(ticket.response_due_at)
    if ticket.tier is not None:
        answer["tier"] = ticket.tier
    links = visible_links(call, ticket)
    if links:
        answer["links"] = links
    if call.person.external:
        return answer
    if ticket.tags:
        answer["tags"] = ticket.tags
    approvals = [approval_view(call, item) for item in call.world.select(APPROVALS_OF, ticket_id=ticket.id)]
    if approvals:
        answer["approvals"] = approvals
    if may_change(call.person, queue):
        answer["transitions"] = list(TRANSITIONS[ticket.status])
    return answer


def visible_links(call: Call, ticket: Ticket) -> list[str]:
    """The linked tickets that the caller may see."""
    if not call.person.external:
        return ticket.links
    linked = call.world.select(TICKETS_AMONG, ids=to_json(ticket.links).decode())
    visible = {other.id for other in linked if may_see(call.person, other)}
    return [key for key in ticket.links if key in visible]


def visible_comments(call: Call, ticket: Ticket) -> list[Comment]:
    """The comments that the caller may see, oldest first."""
    comments = call.world.select(COMMENTS_OF, ticket_id=ticket.id)
    return [comment for comment in comments if comment.public] if call.person.external else comments


def comment_view(call: Call, comment: Comment) -> JsonObject:
    """A comment; people outside see only public ones and are not told that there are others."""
    answer: JsonObject = {
        "comment_id": comment.id,
        "author": comment.author,
        "body": comment.body,
        "created_at": call.local(comment.created_at),
    }
    if not call.person.external:
        answer["public"] = comment.public
    return answer


def approval_view(call: Call, approval: Approval) -> JsonObject:
    """An approval with its decision, where there is one."""
    answer: JsonObject = {
        "approval_id": approval.id,
        "ticket_id": approval.ticket_id,
        "action": approval.action,
        "state": approval.state,
        "requested_by": approval.requested_by,
        "approver": approval.approver,
        "reason": approval.reason,
        "requested_at": call.local(approval.requested_at),
    }
    if approval.decided_at is not None:
        answer["decided_at"] = call.local(approval.decided_at)
    if approval.note:
        answer["note"] = approval.note
    return answer


def queue_view(call: Call, queue: Queue) -> JsonObject:
    """A queue; people outside see where they can write to, not who works there or how."""
    if call.person.external:
        return {"queue": queue.id, "name": queue.name}
    return {
        "queue": queue.id,
        "name": queue.name,
        "members": queue.members,
        "response_hours": queue.response_hours,
        "resolution_hours": queue.resolution_hours,
        "needs_approval": list(restricted_actions(queue)),
    }


def page_of_tickets(call: Call, ids: list[str]) -> list[JsonObject]:
    """The tickets of one page in the order of their ids."""
    rows = call.world.rows(BRIEF_AMONG, ids=to_json(ids).decode())
    tickets = {ticket.id: ticket for ticket in map(Brief._make, rows)}
    return [summary(call, tickets[key]) for key in ids]


def history(call: Call, ticket: Ticket) -> list[JsonObject]:
    """What happened to a ticket, oldest first: creation, changed fields, comments, approvals.

    Field changes are known from the start of the episode on; comments and approvals carry their own times.
    """
    found: list[tuple[int, JsonObject]] = [
        *_own_changes(call, ticket),
        *(
            (comment.created_at, {"by": comment.author, "what": "commented", "comment_id": comment.id})
            for comment in visible_comments(call, ticket)
        ),
    ]
    if not call.person.external:
        for item in call.world.select(APPROVALS_OF, ticket_id=ticket.id):
            about = {"approval_id": item.id, "action": item.action}
            found.append((item.requested_at, {"by": item.requested_by, "what": "approval requested", **about}))
            if item.decided_at is not None:
                found.append((item.decided_at, {"by": item.approver, "what": f"approval {item.state}", **about}))
    found.sort(key=lambda entry: entry[0])
    return [{"at": call.local(at), **entry} for at, entry in found]


def _own_changes(call: Call, ticket: Ticket) -> list[tuple[int, JsonObject]]:
    changes = [
        change for change in call.world.row_changes() if change.type == Ticket.type_name and change.key == ticket.id
    ]
    calls = {entry.seq: entry for entry in call.world.journal(changes[0].call - 1)} if changes else {}
    found: list[tuple[int, JsonObject]] = []
    if not changes or changes[0].before is not None:
        found.append((ticket.created_at, {"by": ticket.reporter, "what": "created"}))
    for change in changes:
        after, entry = change.after or {}, calls[change.call]
        if change.before is None:
            found.append((entry.at, {"by": entry.actor.person, "what": "created"}))
            continue
        found += [
            (
                entry.at,
                {"by": entry.actor.person, "what": field, "from": change.before[field], "to": after[field]},
            )
            for field in change.fields
            if field in HISTORY_FIELDS
        ]
    return found
