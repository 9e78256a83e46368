"""Who may see and change what, and what needs an approval first.

* People of ours see every ticket. People outside see the tickets that they reported; another ticket is
  refused in the same words as one that does not exist.
* Members of a queue and people with the role ``ticket_admin`` change its tickets. Reporters comment on their
  own.
* A restricted priority or status needs an approval in state ``approved`` for that ticket and that action.
  Roles do not waive this.
"""

from __future__ import annotations

import sqlalchemy as sa

from servers.people import Person
from servers.services.tickets.build import QUEUES
from servers.services.tickets.records import Approval, Queue, Ticket, restricted_actions
from servers.sql import Query, param
from servers.tools import Call, ToolError

ADMIN = "ticket_admin"
APPROVER = "approver"

APPROVALS_OF = Query(
    Approval,
    lambda approval: (
        sa.select(approval)
        .where(approval.c.ticket_id == param("ticket_id"))
        .order_by(approval.c.requested_at, sa.literal_column("rowid"))
    ),
)


def find_ticket(call: Call, text: str) -> Ticket:
    """The ticket with this id, if the caller may see it.

    Raises:
        ToolError: There is none that the caller may see.
    """
    ticket = call.world.get(Ticket, text.strip().upper())
    if ticket is None or not may_see(call.person, ticket):
        raise call.refuse(f"there is no ticket {text!r}. Ids look like SUP-104; find tickets with tickets_search.")
    return ticket


def find_queue(call: Call, text: str) -> Queue:
    """A queue by key or by name.

    Raises:
        ToolError: There is none; the queues are listed.
    """
    queue = call.world.get(Queue, text.strip().upper())
    if queue is not None:
        return queue
    queues = call.world.select(QUEUES)
    wanted = text.strip().casefold()
    named = [queue for queue in queues if queue.name.casefold() == wanted]
    if len(named) == 1:
        return named[0]
    known = ", ".join(f"{queue.id} ({queue.name})" for queue in named or queues) or "none"
    raise call.refuse(f"{'several queues are' if named else 'there is no queue'} called {text!r}. Queues: {known}.")


def queue_of(call: Call, ticket: Ticket) -> Queue:
    """The queue of a ticket."""
    queue = call.world.get(Queue, ticket.queue)
    if queue is None:
        raise KeyError(ticket.queue)  # ids were checked when the image was built, and no tool removes a queue
    return queue


def may_see(person: Person, ticket: Ticket) -> bool:
    """Whether this person sees the ticket at all."""
    return not person.external or ticket.reporter == person.email


def may_change(person: Person, queue: Queue) -> bool:
    """Whether this person works on tickets of the queue."""
    return not person.external and (person.email in queue.members or ADMIN in person.roles)


def changeable(call: Call, text: str) -> tuple[Ticket, Queue]:
    """A ticket that the caller may change, and its queue.

    Raises:
        ToolError: There is no such ticket, it is closed, or the caller does not work in its queue.
    """
    ticket = find_ticket(call, text)
    queue = queue_of(call, ticket)
    if not may_change(call.person, queue):
        raise call.refuse(
            f"only members of queue {queue.id} ({queue.name}) may change {ticket.id}. "
            "You may comment on tickets that you reported."
        )
    refuse_closed(call, ticket)
    return ticket, queue


def refuse_closed(call: Call, ticket: Ticket) -> None:
    """Refuse when the ticket is closed.

    Raises:
        ToolError: It is.
    """
    if ticket.status == "closed":
        raise call.refuse(f"{ticket.id} is closed, which is final. Create a new ticket and link the two.")


def approvers(call: Call) -> list[Person]:
    """Everyone who can be asked for an approval."""
    people = call.world.people.values()
    return [person for person in people if APPROVER in person.roles and not person.external]


def require_approval(call: Call, ticket: Ticket, queue: Queue, action: str) -> None:
    """Refuse a restricted action that nobody has approved for this ticket.

    Raises:
        ToolError: The approval is missing, pending or rejected; the words say which, and what to do.
    """
    if action not in restricted_actions(queue):
        return
    found = [approval for approval in call.world.select(APPROVALS_OF, ticket_id=ticket.id) if approval.action == action]
    if any(approval.state == "approved" for approval in found):
        return
    raise _not_approved(call, ticket, queue, action, found)


def _not_approved(call: Call, ticket: Ticket, queue: Queue, action: str, found: list[Approval]) -> ToolError:
    pending = next((approval for approval in found if approval.state == "pending"), None)
    if pending is not None:
        name = call.world.people[pending.approver].name
        return call.refuse(
            f"{action} on {ticket.id} still waits for an approval: {name} <{pending.approver}> has to decide "
            f"{pending.id}."
        )
    how = f"Request one with tickets_request_approval (action {action!r})."
    if found:
        last = found[-1]
        note = f" with the note {last.note!r}" if last.note else ""
        return call.refuse(
            f"{action} on {ticket.id} is not approved: {last.approver} rejected {last.id}{note}. "
            f"It needs an approval that is granted. {how}"
        )
    return call.refuse(f"{action} needs an approval in queue {queue.id}, and none was requested for {ticket.id}. {how}")
