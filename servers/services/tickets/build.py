"""What happens to authored tickets when an image is built: mistakes are found, derived fields filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import sqlalchemy as sa

from servers.errors import Problem
from servers.people import Person
from servers.records import Record
from servers.services.tickets.records import DONE, Approval, Comment, Queue, Ticket
from servers.services.tickets.sla import deadlines
from servers.sql import Query
from servers.world import World

Group = Mapping[str, Record]

QUEUES = Query(Queue, lambda queue: sa.select(queue).order_by(queue.c.id))
TICKETS_BY_ID = Query(Ticket, lambda ticket: sa.select(ticket).order_by(ticket.c.id))
PUBLIC_COMMENTS = Query(
    Comment,
    lambda comment: sa.select(comment).where(comment.c.public == 1).order_by(comment.c.created_at, comment.c.id),
)


def check(records: Mapping[str, Group], start: int) -> list[Problem]:
    """Find what ids and types cannot show."""
    people = cast("Mapping[str, Person]", records[Person.type_name])
    queues = cast("Mapping[str, Queue]", records[Queue.type_name])
    tickets = cast("Mapping[str, Ticket]", records[Ticket.type_name])
    problems: list[Problem] = []
    for index, queue in enumerate(queues.values()):
        problems += _at(Queue, index, _queue_problems(queue, people))
    for index, ticket in enumerate(tickets.values()):
        problems += _at(Ticket, index, _ticket_problems(ticket, queues[ticket.queue], start))
    for index, comment in enumerate(records[Comment.type_name].values()):
        comment = cast("Comment", comment)
        problems += _at(Comment, index, _comment_problems(comment, tickets[comment.ticket_id], people, start))
    for index, approval in enumerate(records[Approval.type_name].values()):
        approval = cast("Approval", approval)
        problems += _at(Approval, index, _approval_problems(approval, tickets[approval.ticket_id], people, start))
    return problems


Found = Iterator[tuple[str, str, str]]
"""(code, field, message)"""


def _at(model: type[Record], index: int, found: Found) -> list[Problem]:
    where = f"records.{model.type_name}[{index}]"
    return [Problem(code, f"{where}.{field}", message) for code, field, message in found]


def _queue_problems(queue: Queue, people: Mapping[str, Person]) -> Found:
    for position, email in enumerate(queue.members):
        if people[email].external:
            yield "external_member", f"members[{position}]", f"{email} is external and cannot work in a queue"


def _ticket_problems(ticket: Ticket, queue: Queue, start: int) -> Found:
    if ticket.id.rpartition("-")[0] != queue.id:
        yield "wrong_queue", "id", f"{ticket.id!r} stands in queue {queue.id!r}; expected {queue.id}-<number>"
    if ticket.assignee is not None and ticket.assignee not in queue.members:
        yield "not_a_member", "assignee", f"{ticket.assignee} is no member of queue {queue.id}"
    if ticket.status in DONE and not ticket.resolution:
        yield "no_resolution", "resolution", f"a {ticket.status} ticket needs a resolution"
    if ticket.status not in DONE and ticket.resolution is not None:
        yield "early_resolution", "resolution", f"a ticket that is {ticket.status} has no resolution yet"
    if ticket.id in ticket.links:
        yield "self_link", "links", "a ticket cannot be linked to itself"
    for field in ("created_at", "updated_at", "first_response_at"):
        yield from _late(field, getattr(ticket, field), ticket.created_at, start)


def _comment_problems(comment: Comment, ticket: Ticket, people: Mapping[str, Person], start: int) -> Found:
    yield from _late("created_at", comment.created_at, ticket.created_at, start)
    author = people[comment.author]
    if author.external and not comment.public:
        yield "external_internal", "public", f"{comment.author} is external and writes no internal comments"
    if author.external and comment.author != ticket.reporter:
        yield "external_stranger", "author", f"{comment.author} is external and cannot see {ticket.id}"


def _approval_problems(approval: Approval, ticket: Ticket, people: Mapping[str, Person], start: int) -> Found:
    yield from _late("requested_at", approval.requested_at, ticket.created_at, start)
    yield from _late("decided_at", approval.decided_at, approval.requested_at, start)
    if (approval.decided_at is None) != (approval.state == "pending"):
        yield (
            "undecided",
            "decided_at",
            f"state is {approval.state}: give decided_at exactly when it is not pending",
        )
    approver = people[approval.approver]
    if "approver" not in approver.roles or approver.external:
        yield "not_an_approver", "approver", f"{approval.approver} is nobody of ours with the role 'approver'"
    if approval.approver == approval.requested_by:
        yield "own_request", "approver", "nobody decides a request of their own"


def _late(field: str, value: int | None, earliest: int, start: int) -> Found:
    if value is not None and value > start:
        yield "impossible_time", field, "lies after the start of the episode"
    if value is not None and value < earliest:
        yield "impossible_time", field, "lies before what it follows"


def prepare(world: World) -> None:
    """Let ticket numbers go on, and fill in deadlines, first responses and the other side of links."""
    queues = {queue.id: queue for queue in world.select(QUEUES)}
    tickets = world.select(TICKETS_BY_ID)
    last = dict.fromkeys(queues, 0)
    linked: dict[str, list[str]] = {ticket.id: list(dict.fromkeys(ticket.links)) for ticket in tickets}
    for ticket in tickets:
        last[ticket.queue] = max(last[ticket.queue], int(ticket.id.rpartition("-")[2]))
        for other in ticket.links:
            if ticket.id not in linked[other]:
                linked[other].append(ticket.id)
    for queue_id, number in last.items():
        world.set_number(counter(queue_id), number)
    responses: dict[str, list[Comment]] = {}
    for comment in world.select(PUBLIC_COMMENTS):
        responses.setdefault(comment.ticket_id, []).append(comment)
    for ticket in tickets:
        values = _derived(ticket, queues[ticket.queue], responses.get(ticket.id, []))
        world.update(ticket, links=linked[ticket.id], **values)


def counter(queue_id: str) -> str:
    """Name of the counter that numbers the tickets of a queue."""
    return f"tickets.{queue_id}"


def _derived(ticket: Ticket, queue: Queue, public: list[Comment]) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: value
        for name, value in deadlines(queue, ticket.priority, ticket.created_at).items()
        if getattr(ticket, name) is None
    }
    if ticket.first_response_at is None:
        answers = (comment.created_at for comment in public if comment.author != ticket.reporter)
        # Somebody moved a ticket that is no longer new; the last change stands for the unknown moment.
        moved = None if ticket.status == "new" else ticket.updated_at
        values["first_response_at"] = next(answers, moved)
    return values
