"""Ticket routing: give one customer's ticket to a colleague.

Two tools, two calls: a surface that fits a very small student. The service is a declared one, given as data
beside the wording. The whole list is one short answer, so the work is to copy the right id out of it. Harder
levels make the list longer.
"""

from __future__ import annotations

from operator import itemgetter

from synth.draft import Draft
from synth.families.base import Family

TICKETS = (2, 3, 4, 6)
"""Tickets on the desk, by level."""


def write(draft: Draft) -> None:
    """Write one environment."""
    count = TICKETS[draft.level - 1]
    customers = draft.draw.sample(draft.graph.customers, count)
    colleague = draft.draw.choice([person for person in draft.graph.people if person.email != draft.principal.email])
    numbers = draft.draw.sample(range(100, 1000), count)
    draft.declare(draft.data["service"])
    abouts = draft.draw.sample(draft.data["about"], count)
    # In the order of their numbers, so that neither place nor number tells which is asked for.
    for number, customer, about in sorted(zip(numbers, customers, abouts, strict=True), key=itemgetter(0)):
        draft.add("desk.ticket", id=f"T-{number}", customer=customer.name, about=about)
    ticket, others = f"T-{numbers[0]}", [f"T-{number}" for number in numbers[1:]]
    draft.request = draft.words("request", customer=customers[0].name, person=colleague.name)
    draft.call("desk_list")
    draft.call("desk_assign", id=ticket, owner=colleague.name)
    draft.say(draft.words("report"))
    draft.decoy(ticket, *others)
    draft.decoy(colleague.name, draft.principal.name)
    draft.goal(
        id="assigned",
        about=f"{ticket} belongs to {colleague.name}",
        kind="field",
        type="desk.ticket",
        key=ticket,
        field="owner",
        **{"is": colleague.name},
    )
    draft.guard(
        id="nothing-else",
        about="Nothing changes but the owner of this ticket",
        kind="changes",
        allow=[{"type": "desk.ticket", "operations": ["updated"], "where": {"id": ticket}, "fields": ["owner"]}],
    )


TICKET_ROUTING = Family(
    name="ticket_routing",
    summary="Give one customer's ticket to a colleague; two tools, for very small students",
    services=(),
    tools=("desk_list", "desk_assign"),
    capabilities=("A1", "A5", "D4"),
    levels=len(TICKETS),
    write=write,
)
