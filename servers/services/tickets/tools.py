"""The tools of the ticketing service: what they take and what they do."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from servers.paging import page
from servers.people import Person, find_person
from servers.search import MAX_QUERY
from servers.services.tickets import views
from servers.services.tickets.build import QUEUES, counter
from servers.services.tickets.records import (
    DONE,
    TRANSITIONS,
    Approval,
    Comment,
    Priority,
    Queue,
    Status,
    Ticket,
    restricted_actions,
)
from servers.services.tickets.rules import (
    APPROVALS_OF,
    approvers,
    changeable,
    find_queue,
    find_ticket,
    may_change,
    queue_of,
    refuse_closed,
    require_approval,
)
from servers.services.tickets.search import Sort, found
from servers.services.tickets.sla import deadlines
from servers.tools import Arguments, Call, JsonObject, Tool, tool

TEXT = r"\S"
TITLE_LIMIT = 200
BODY_LIMIT = 20_000
COMMENTS_PER_PAGE = 20


class SearchTickets(Arguments):
    """Search tickets. All words and operators must fit.

    Operators: queue: status: priority: assignee: (a person, me or none) reporter: customer: tag: overdue:yes
    approval:pending created_after: created_before: updated_after: updated_before:. Commas join alternatives
    (status:new,open), - negates, quotes hold words together.
    """

    query: str = Field(default="", max_length=MAX_QUERY, description="Words and operators; empty finds all tickets")
    sort: Sort = Field(
        default="updated",
        description="Newest update or creation, nearest due date, or highest priority first",
    )
    page_size: int = Field(default=10, ge=1, le=50, description="Tickets per page, at most 50")
    cursor: str | None = Field(default=None, description="next_cursor of the previous page")


class GetTicket(Arguments):
    """Get one ticket: comments (oldest first, 20 at a time), links, approvals and allowed transitions."""

    ticket_id: str = Field(description="Such as SUP-104")
    include_history: bool = Field(default=False, description="Also show who changed what and when")
    cursor: str | None = Field(default=None, description="next_cursor of the previous page of comments")


class ListQueues(Arguments):
    """List the queues: members, hours to respond and to resolve by priority, and what needs an approval."""


class CreateTicket(Arguments):
    """Create a ticket in a queue. You are its reporter unless you work in the queue and name another."""

    queue: str = Field(description="Key or name of the queue")
    title: str = Field(min_length=1, max_length=TITLE_LIMIT, pattern=TEXT)
    description: str = Field(default="", max_length=BODY_LIMIT)
    priority: Priority = Field(default="normal")
    customer: str | None = Field(default=None, max_length=TITLE_LIMIT, description="Organisation whose matter this is")
    tags: list[str] = Field(default_factory=list[str], max_length=20)
    reporter: str | None = Field(default=None, description="Person for whom you create it, by name or mail address")


class UpdateTicket(Arguments):
    """Change title, description, priority or tags of a ticket. What you leave out stays as it is.

    A new priority moves the due dates; restricted priorities need an approval first.
    """

    ticket_id: str
    title: str | None = Field(default=None, min_length=1, max_length=TITLE_LIMIT, pattern=TEXT)
    description: str | None = Field(default=None, max_length=BODY_LIMIT)
    priority: Priority | None = None
    tags: list[str] | None = Field(default=None, max_length=20, description="All tags; replaces the present ones")


class AssignTicket(Arguments):
    """Assign a ticket to a member of its queue, or to nobody."""

    ticket_id: str
    assignee: str = Field(description="Name or mail address, me, or none")


class TransitionTicket(Arguments):
    """Move a ticket to another status. tickets_get shows the transitions that are allowed.

    Restricted ones need an approval first; resolved needs a resolution; closed is final.
    """

    ticket_id: str
    status: Status
    resolution: str | None = Field(
        default=None,
        max_length=BODY_LIMIT,
        description="How it was resolved; for resolved only, and required there",
    )


class CommentTicket(Arguments):
    """Comment on a ticket. Customers see public comments; internal ones are for your own people."""

    ticket_id: str
    body: str = Field(min_length=1, max_length=BODY_LIMIT, pattern=TEXT)
    public: bool = Field(description="true: the customer reads it; false: internal")


class LinkTickets(Arguments):
    """Link two related tickets; the link shows on both."""

    ticket_id: str
    other_id: str


class RequestApproval(Arguments):
    """Ask an approver to allow a restricted action on a ticket. tickets_list_queues shows what needs one."""

    ticket_id: str
    action: str = Field(description="Such as priority:critical or status:escalated")
    approver: str = Field(description="Name or mail address of a person with the role approver")
    reason: str = Field(min_length=1, max_length=BODY_LIMIT, pattern=TEXT)


class GetApproval(Arguments):
    """Get an approval: who was asked for what, and the decision."""

    approval_id: str


class DecideApproval(Arguments):
    """Approve or reject a request that was made to you. A decision is final."""

    approval_id: str
    approve: bool
    note: str | None = Field(default=None, max_length=BODY_LIMIT)


def search_tickets(call: Call, args: SearchTickets) -> JsonObject:
    """Find tickets by words and operators."""
    ids = found(call, args.query, args.sort)
    result = page(call, f"{args.query}\0{args.sort}", ids, key=str, size=args.page_size, cursor=args.cursor)
    return {
        "tickets": views.page_of_tickets(call, list(result.items)),
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def get_ticket(call: Call, args: GetTicket) -> JsonObject:
    """Show one ticket."""
    ticket = find_ticket(call, args.ticket_id)
    answer = views.details(call, ticket, queue_of(call, ticket))
    comments = views.visible_comments(call, ticket)
    part = page(call, ticket.id, comments, key=lambda one: one.id, size=COMMENTS_PER_PAGE, cursor=args.cursor)
    answer["comments"] = [views.comment_view(call, comment) for comment in part.items]
    if part.total > COMMENTS_PER_PAGE:
        answer |= {"comments_total": part.total, "next_cursor": part.next_cursor}
    if args.include_history:
        answer["history"] = views.history(call, ticket)
    return answer


def list_queues(call: Call, args: ListQueues) -> JsonObject:
    """Show all queues."""
    return {"queues": [views.queue_view(call, queue) for queue in call.world.select(QUEUES)]}


def create_ticket(call: Call, args: CreateTicket) -> JsonObject:
    """Open a new ticket; the queue's numbers go on."""
    queue = find_queue(call, args.queue)
    reporter = call.person
    if args.reporter is not None:
        reporter = _other_reporter(call, queue, args.reporter)
    action = f"priority:{args.priority}"
    if action in restricted_actions(queue):
        raise call.refuse(
            f"{action} needs an approval in queue {queue.id}, and only an existing ticket can have one. "
            "Create the ticket with another priority, request the approval with tickets_request_approval, "
            "then use tickets_update."
        )
    ticket = Ticket(
        id=f"{queue.id}-{call.world.next_number(counter(queue.id))}",
        queue=queue.id,
        title=args.title.strip(),
        description=args.description,
        priority=args.priority,
        reporter=reporter.email,
        tags=_tags(call, args.tags),
        customer=args.customer,
        created_at=call.now,
        updated_at=call.now,
        **deadlines(queue, args.priority, call.now),
    )
    call.world.insert(ticket)
    return views.summary(call, ticket)


def update_ticket(call: Call, args: UpdateTicket) -> JsonObject:
    """Change fields of a ticket."""
    ticket, queue = changeable(call, args.ticket_id)
    given: dict[str, Any] = args.model_dump(exclude={"ticket_id"}, exclude_none=True)
    if not given:
        raise call.refuse("there is nothing to change. Give title, description, priority or tags.")
    if args.tags is not None:
        given["tags"] = _tags(call, args.tags)
    if args.title is not None:
        given["title"] = args.title.strip()
    if args.priority is not None and args.priority != ticket.priority:
        require_approval(call, ticket, queue, f"priority:{args.priority}")
        given |= deadlines(queue, args.priority, ticket.created_at)
    return views.summary(call, _change(call, ticket, given))


def assign_ticket(call: Call, args: AssignTicket) -> JsonObject:
    """Give a ticket to a member of its queue."""
    ticket, queue = changeable(call, args.ticket_id)
    wanted = args.assignee.strip()
    if wanted.lower() == "none":
        return views.summary(call, _change(call, ticket, {"assignee": None}))
    person = call.person if wanted.lower() == "me" else find_person(call, wanted)
    if person.email not in queue.members:
        members = ", ".join(queue.members) or "nobody"
        raise call.refuse(f"{person.name} <{person.email}> is no member of queue {queue.id}. Members: {members}.")
    return views.summary(call, _change(call, ticket, {"assignee": person.email}))


def transition_ticket(call: Call, args: TransitionTicket) -> JsonObject:
    """Move a ticket along the table of transitions."""
    ticket, queue = changeable(call, args.ticket_id)
    allowed = TRANSITIONS[ticket.status]
    if args.status not in allowed:
        now = f"{ticket.id} is {ticket.status}" + (" already" if args.status == ticket.status else "")
        raise call.refuse(f"{now} and cannot become {args.status}. Allowed from {ticket.status}: {', '.join(allowed)}.")
    resolution = (args.resolution or "").strip()
    if args.status == "resolved" and not resolution:
        raise call.refuse("resolved needs a resolution: say in resolution how the ticket was resolved.")
    if args.status != "resolved" and resolution:
        raise call.refuse(f"a resolution goes with resolved only, not with {args.status}. Leave it out.")
    require_approval(call, ticket, queue, f"status:{args.status}")
    values: dict[str, Any] = {"status": args.status}
    if args.status == "resolved":
        values["resolution"] = resolution
    elif args.status not in DONE:
        values["resolution"] = None
    return views.summary(call, _respond(call, ticket, values))


def comment_ticket(call: Call, args: CommentTicket) -> JsonObject:
    """Add a comment."""
    ticket = find_ticket(call, args.ticket_id)
    if not may_change(call.person, queue_of(call, ticket)):
        if ticket.reporter != call.person.email:
            raise call.refuse(f"only members of queue {ticket.queue} and the reporter may comment on {ticket.id}.")
        if not args.public:
            raise call.refuse(f"only members of queue {ticket.queue} write internal comments. Set public to true.")
    refuse_closed(call, ticket)
    comment = Comment(
        id=call.new_id(Comment.type_name),
        ticket_id=ticket.id,
        author=call.person.email,
        body=args.body,
        public=args.public,
        created_at=call.now,
    )
    call.world.insert(comment)
    if args.public and call.person.email != ticket.reporter:
        _respond(call, ticket, {})
    else:
        call.world.update(ticket, updated_at=call.now)
    return {
        "comment_id": comment.id,
        "ticket_id": ticket.id,
        "public": comment.public,
        "created_at": call.local(comment.created_at),
    }


def link_tickets(call: Call, args: LinkTickets) -> JsonObject:
    """Link two tickets, closed ones too; for whoever may change one of them and see the other."""
    first, second = find_ticket(call, args.ticket_id), find_ticket(call, args.other_id)
    if first.id == second.id:
        raise call.refuse(f"{first.id} cannot be linked to itself.")
    if not any(may_change(call.person, queue_of(call, ticket)) for ticket in (first, second)):
        raise call.refuse(f"only members of queue {first.queue} or {second.queue} may link {first.id} and {second.id}.")
    for ticket, other in ((first, second), (second, first)):
        if other.id not in ticket.links:
            _change(call, ticket, {"links": sorted([*ticket.links, other.id])})
    return {"ticket_id": first.id, "other_id": second.id, "linked": True}


def request_approval(call: Call, args: RequestApproval) -> JsonObject:
    """Ask for an approval."""
    ticket, queue = changeable(call, args.ticket_id)
    action = args.action.strip().lower()
    possible = restricted_actions(queue)
    if action not in possible:
        known = f"It is needed for: {', '.join(possible)}." if possible else "Nothing does."
        raise call.refuse(f"{args.action!r} needs no approval in queue {queue.id}. {known}")
    for item in call.world.select(APPROVALS_OF, ticket_id=ticket.id):
        if item.action == action and item.state != "rejected":
            raise call.refuse(f"{ticket.id} has an approval for {action} already: {item.id} is {item.state}.")
    approval = Approval(
        id=call.new_id(Approval.type_name),
        ticket_id=ticket.id,
        action=action,
        requested_by=call.person.email,
        approver=_approver(call, args.approver).email,
        reason=args.reason,
        requested_at=call.now,
    )
    call.world.insert(approval)
    return views.approval_view(call, approval)


def get_approval(call: Call, args: GetApproval) -> JsonObject:
    """Show an approval."""
    return views.approval_view(call, _find_approval(call, args.approval_id))


def decide_approval(call: Call, args: DecideApproval) -> JsonObject:
    """Decide a request."""
    approval = _find_approval(call, args.approval_id)
    if approval.approver != call.person.email:
        name = call.world.people[approval.approver].name
        raise call.refuse(f"only {name} <{approval.approver}> can decide {approval.id}.")
    if approval.state != "pending":
        raise call.refuse(f"{approval.id} was {approval.state} already; a decision is final.")
    state = "approved" if args.approve else "rejected"
    note = (args.note or "").strip() or None
    return views.approval_view(call, call.world.update(approval, state=state, decided_at=call.now, note=note))


def _change(call: Call, ticket: Ticket, values: dict[str, Any]) -> Ticket:
    """Change a ticket; what changes nothing does not count as an update."""
    if all(getattr(ticket, field) == value for field, value in values.items()):
        return ticket
    return call.world.update(ticket, updated_at=call.now, **values)


def _respond(call: Call, ticket: Ticket, values: dict[str, Any]) -> Ticket:
    """Change a ticket and stop its response clock, if it still runs."""
    if ticket.first_response_at is None:
        values = {**values, "first_response_at": call.now}
    return call.world.update(ticket, updated_at=call.now, **values)


def _tags(call: Call, tags: list[str]) -> list[str]:
    clean = [tag.strip() for tag in tags]
    if any(not tag or len(tag) > 50 for tag in clean):
        raise call.refuse("a tag has 1 to 50 characters.")
    return list(dict.fromkeys(clean))


def _other_reporter(call: Call, queue: Queue, text: str) -> Person:
    if text.strip().lower() == "me":
        return call.person
    person = find_person(call, text)
    if person.email != call.person.email and not may_change(call.person, queue):
        raise call.refuse(f"only members of queue {queue.id} create tickets there for others. Leave reporter out.")
    return person


def _approver(call: Call, text: str) -> Person:
    person = find_person(call, text, internal=True)
    able = [other for other in approvers(call) if other.email != call.person.email]
    if person in able:
        return person
    names = ", ".join(f"{other.name} <{other.email}>" for other in able) or "nobody else"
    if person.email == call.person.email:
        raise call.refuse(f"nobody can approve their own request. Approvers: {names}.")
    raise call.refuse(f"{person.name} <{person.email}> is no approver. Approvers: {names}.")


def _find_approval(call: Call, text: str) -> Approval:
    approval = call.world.get(Approval, text.strip())
    if approval is None or call.person.external:
        raise call.refuse(f"there is no approval {text!r}. tickets_get shows the approvals of a ticket.")
    return approval


TOOLS: tuple[Tool, ...] = (
    tool("tickets_search", SearchTickets, search_tickets),
    tool("tickets_get", GetTicket, get_ticket),
    tool("tickets_list_queues", ListQueues, list_queues),
    tool("tickets_create", CreateTicket, create_ticket, effect="write"),
    tool("tickets_update", UpdateTicket, update_ticket, effect="write", idempotent=True),
    tool("tickets_assign", AssignTicket, assign_ticket, effect="write", idempotent=True),
    tool("tickets_transition", TransitionTicket, transition_ticket, effect="write"),
    tool("tickets_comment", CommentTicket, comment_ticket, effect="write"),
    tool("tickets_link", LinkTickets, link_tickets, effect="write", idempotent=True),
    tool("tickets_request_approval", RequestApproval, request_approval, effect="write"),
    tool("tickets_get_approval", GetApproval, get_approval),
    tool("tickets_decide_approval", DecideApproval, decide_approval, effect="destroy"),
)
