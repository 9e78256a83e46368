"""Record types of the ticketing service, the words they use and the table of allowed status transitions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias, get_args

from pydantic import Field

from servers.records import Index, Instant, Record, Ref

Status = Literal["new", "open", "waiting", "escalated", "resolved", "closed"]
Priority = Literal["low", "normal", "high", "critical"]
ApprovalState = Literal["pending", "approved", "rejected"]

STATUSES: tuple[Status, ...] = get_args(Status)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)

TRANSITIONS: Mapping[Status, tuple[Status, ...]] = MappingProxyType(
    {
        "new": ("open", "waiting", "escalated", "resolved"),
        "open": ("waiting", "escalated", "resolved"),
        "waiting": ("open", "escalated", "resolved"),
        "escalated": ("open", "waiting", "resolved"),
        "resolved": ("open", "closed"),
        "closed": (),
    }
)
"""From each status to the next. ``resolved`` to ``open`` reopens; ``closed`` is final."""

DONE: tuple[Status, ...] = ("resolved", "closed")
"""A ticket has a resolution exactly while it is in one of these; its SLA clocks stand still."""

PersonId: TypeAlias = Annotated[str, Ref("directory.person")]
Hours: TypeAlias = dict[Priority, Annotated[float, Field(gt=0, le=8760)]]
QUEUE_KEY = r"^[A-Z][A-Z0-9]{0,9}$"
TICKET_KEY = r"^[A-Z][A-Z0-9]{0,9}-[1-9][0-9]{0,8}$"
ACTION = rf"^(priority:({'|'.join(PRIORITIES)})|status:({'|'.join(STATUSES)}))$"


class Queue(Record):
    """A team's queue: who works in it, how fast it answers, and what it does only with an approval."""

    type_name: ClassVar[str] = "tickets.queue"

    id: str = Field(pattern=QUEUE_KEY)
    """Key such as ``SUP``; the queue's tickets are ``SUP-1``, ``SUP-2`` ..."""
    name: str = Field(min_length=1)
    members: list[PersonId] = Field(default_factory=list[str])
    """People who work in the queue: they change its tickets and tickets are assigned to them."""
    response_hours: Hours = Field(default_factory=dict[Priority, float])
    """Hours from creation to the first response, by priority; no clock for a priority that is not there."""
    resolution_hours: Hours = Field(default_factory=dict[Priority, float])
    """Hours from creation to the resolution, by priority."""
    restricted_priorities: list[Priority] = Field(default_factory=list[Priority])
    """Priorities that a ticket gets only with an approval of ``priority:<priority>``."""
    restricted_transitions: list[Status] = Field(default_factory=list[Status])
    """Statuses that a ticket gets only with an approval of ``status:<status>``."""


class Ticket(Record):
    """One request. What the service derives (the SLA fields, the other side of links) may be left out."""

    type_name: ClassVar[str] = "tickets.ticket"

    id: str = Field(pattern=TICKET_KEY)
    queue: Annotated[str, Ref("tickets.queue")]
    title: str = Field(min_length=1)
    status: Status = "new"
    priority: Priority = "normal"
    reporter: PersonId
    assignee: PersonId | None = None
    tags: list[str] = Field(default_factory=list[str])
    customer: str | None = None
    """Name of the organisation whose matter this is."""
    tier: str | None = None
    """Service tier of the customer."""
    created_at: Instant
    updated_at: Instant
    response_due_at: Instant | None = None
    """When somebody must have responded."""
    first_response_at: Instant | None = None
    """When the response clock stopped, see ``sla``."""
    due_at: Instant | None = None
    """When the ticket must be resolved."""
    resolution: str | None = None
    links: list[Annotated[str, Ref("tickets.ticket")]] = Field(default_factory=list[str])
    """Related tickets; a link stands on both of its tickets."""
    description: str = ""
    """Last, because it is long: what lies before it in a row is read without it."""


class Brief(NamedTuple):
    """The fields of a ticket that a list shows; read without decoding whole records."""

    id: str
    title: str
    queue: str
    status: Status
    priority: Priority
    reporter: str
    assignee: str | None
    customer: str | None
    updated_at: int
    response_due_at: int | None
    first_response_at: int | None
    due_at: int | None
    resolution: str | None


class Comment(Record):
    """A comment; people outside the organisation see only public ones."""

    type_name: ClassVar[str] = "tickets.comment"

    id: str
    ticket_id: Annotated[str, Ref("tickets.ticket"), Index()]
    author: PersonId
    body: str = Field(min_length=1)
    public: bool
    created_at: Instant


class Approval(Record):
    """A request to an approver to allow one action on one ticket, and the decision.

    An approved one stays good for that ticket and action.
    """

    type_name: ClassVar[str] = "tickets.approval"

    id: str
    ticket_id: Annotated[str, Ref("tickets.ticket")]
    action: str = Field(pattern=ACTION)
    """``priority:critical`` or ``status:escalated``, for example."""
    requested_by: PersonId
    approver: PersonId
    reason: str = ""
    state: ApprovalState = "pending"
    requested_at: Instant
    decided_at: Instant | None = None
    note: str | None = None
    """What the approver said."""


def restricted_actions(queue: Queue) -> tuple[str, ...]:
    """The actions that need an approval in a queue, as ``Approval.action`` names them."""
    priorities = [f"priority:{priority}" for priority in PRIORITIES if priority in queue.restricted_priorities]
    return (
        *priorities,
        *(f"status:{status}" for status in STATUSES if status in queue.restricted_transitions),
    )
