"""Tickets: queues with members, statuses, SLA clocks, comments, links, and enforced approvals.

* ``records``: the record types and the table of transitions.
* ``rules``: who may see and change what, and what needs an approval first.
* ``sla``: the two clocks of a ticket.
* ``search``: the search line and its SQL.
* ``views``: how things look in answers.
* ``tools``: what agents and people can do.
* ``build``: what is checked and derived when an image is built.

Every person inside can find and read the tickets of every queue, as in most help desks; being a member of a queue
only decides who works on its tickets. People outside see their own tickets alone. An environment that has something
to keep from colleagues keeps it elsewhere.

Not promised: business hours, clocks that pause, and automatic moves. A reply of the reporter does not
reopen a ticket.
"""

from __future__ import annotations

from servers.services.tickets.build import check, prepare
from servers.services.tickets.records import Approval, Comment, Queue, Ticket
from servers.services.tickets.tools import TOOLS
from servers.tools import Service

TICKETS = Service(
    name="tickets",
    title="Ticketing",
    summary="Queues, transitions, SLA clocks, comments and enforced approvals.",
    records=(Queue, Ticket, Comment, Approval),
    tools=TOOLS,
    check=check,
    prepare=prepare,
)

__all__ = ["TICKETS", "Approval", "Comment", "Queue", "Ticket"]
