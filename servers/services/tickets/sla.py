"""The two clocks of a ticket, kept simple on purpose.

* The *response clock* runs from the creation to the first response: the first public comment by somebody
  other than the reporter, or the first transition, whichever comes first. It is ``Ticket.first_response_at``.
* The *resolution clock* runs from the creation until the ticket is resolved. Reopening changes no deadline.

Both deadlines are the creation time plus the queue's hours for the ticket's priority and are set anew, from
the creation time, when the priority changes. Hours are calendar hours: nights, weekends and waiting count.
"""

from __future__ import annotations

from typing import TypedDict

from servers.services.tickets.records import DONE, Brief, Hours, Priority, Queue, Ticket


class Deadlines(TypedDict):
    """The fields of a ticket that its priority decides."""

    response_due_at: int | None
    due_at: int | None


def deadlines(queue: Queue, priority: Priority, created_at: int) -> Deadlines:
    """The deadlines of a ticket, seconds since 1970 UTC; None where the queue names no hours."""
    return {
        "response_due_at": _after(created_at, queue.response_hours, priority),
        "due_at": _after(created_at, queue.resolution_hours, priority),
    }


def overdue(ticket: Ticket | Brief, now: int) -> bool:
    """Whether a clock that still runs has passed its deadline. ``search`` says the same in SQL."""
    if ticket.status in DONE:
        return False
    late_answer = (
        ticket.first_response_at is None and ticket.response_due_at is not None and ticket.response_due_at < now
    )
    return late_answer or (ticket.due_at is not None and ticket.due_at < now)


def _after(created_at: int, hours: Hours, priority: Priority) -> int | None:
    given = hours.get(priority)
    return None if given is None else created_at + round(given * 3600)
