"""Ticket routing: assign one customer's ticket to a colleague. Two tools, two calls: a surface that fits a very small student.

The whole queue is one short page, so the work is to copy the right id out of a list. Harder levels make the list longer.
"""

from __future__ import annotations

from servers.records import iso_utc
from synth.draft import Draft
from synth.families.base import Family

TICKETS = (2, 3, 4, 6)
"""Tickets in the queue, by level."""


def write(draft: Draft) -> None:
    """Write one environment."""
    count = TICKETS[draft.level - 1]
    customers = draft.draw.sample(draft.graph.customers, count)
    colleague = draft.draw.choice([person for person in draft.graph.people if person.email != draft.principal.email])
    draft.add("tickets.queue", id="SUP", name="Support", members=sorted({draft.principal.email, colleague.email}))
    numbers = draft.draw.sample(range(100, 999), count)
    titles = draft.draw.sample(draft.data["title"], count)
    for index, customer in enumerate(customers):
        created = iso_utc(draft.graph.start - (index + 1) * 3000)
        draft.add(
            "tickets.ticket",
            id=f"SUP-{numbers[index]}",
            queue="SUP",
            title=titles[index],
            status="open",
            reporter=customer.contact.email,
            customer=customer.name,
            created_at=created,
            updated_at=created,
        )
    wanted = draft.draw.randrange(count)
    ticket, others = f"SUP-{numbers[wanted]}", [f"SUP-{number}" for i, number in enumerate(numbers) if i != wanted]
    draft.request = draft.words("request", customer=customers[wanted].name, person=colleague.name)
    draft.call("tickets_search")
    draft.call("tickets_assign", ticket_id=ticket, assignee=colleague.name)
    draft.say(draft.words("report"))
    draft.decoy(ticket, *others)
    draft.decoy(colleague.name, draft.principal.name)
    draft.goal(
        id="assigned",
        about=f"{ticket} is assigned to {colleague.name}",
        kind="field",
        type="tickets.ticket",
        key=ticket,
        field="assignee",
        **{"is": colleague.email},
    )
    draft.guard(
        id="nothing-else",
        about="Nothing changes but the assignee of this ticket",
        kind="changes",
        allow=[
            {
                "type": "tickets.ticket",
                "operations": ["updated"],
                "where": {"id": ticket},
                "fields": ["assignee", "updated_at", "first_response_at"],
            }
        ],
    )


TICKET_ROUTING = Family(
    name="ticket_routing",
    summary="Assign one customer's ticket to a colleague; two tools, for very small students",
    services=("tickets",),
    tools=("tickets_search", "tickets_assign"),
    capabilities=("A1", "A5", "D4"),
    levels=len(TICKETS),
    write=write,
)
