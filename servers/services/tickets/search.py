"""Searching tickets: what the operators mean, and the SQL of a search, compiled once per form of query.

The query language is that of ``servers.search``: all terms must fit, ``-`` negates, and here commas join
alternatives (``status:open,waiting``). Words are looked for in the id, title, description, customer, tags and
comments. People outside the organisation search what they see: their own tickets, without tags and internal
comments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import sqlalchemy as sa
from pydantic_core import from_json, to_json

from servers.people import find_person
from servers.search import Condition, Shape, Term, arrange, holds, like_pattern, parse_query, where, words
from servers.services.tickets.records import (
    DONE,
    PRIORITIES,
    STATUSES,
    Approval,
    ApprovalState,
    Comment,
    Ticket,
)
from servers.services.tickets.rules import find_queue
from servers.sql import Statement, param, table
from servers.tools import Call

Sort = Literal["updated", "created", "due", "priority"]
Values: TypeAlias = Sequence[sa.BindParameter[Any]]

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "queue": "SUP",
        "status": "new,open",
        "priority": "high,critical",
        "assignee": "me",
        "reporter": "ana@acme.example",
        "customer": '"Acme Ltd"',
        "tag": "refund",
        "overdue": "yes",
        "approval": "pending",
        "created_after": "2026-03-02",
        "created_before": "2026-03-02",
        "updated_after": "2026-03-02",
        "updated_before": "2026-03-02",
    }
)
"""Each operator with an example, as refusals show them."""
OPERATORS_OUTSIDE: Mapping[str, str] = MappingProxyType(
    {name: example for name, example in OPERATORS.items() if name not in {"tag", "approval"}}
)
"""The operators about what people outside the organisation see."""

_FAR = 1 << 60
"""Later than every deadline; stands for a missing one."""


def found(call: Call, query: str, sort: Sort) -> list[str]:
    """The ids of all tickets that fit and that the caller may see, in the given order.

    Raises:
        ToolError: An operator or a value that there is not; the valid ones are listed.
    """
    external = call.person.external
    terms = parse_query(call, query, OPERATORS_OUTSIDE if external else OPERATORS)
    shape, values = arrange([_condition(call, term) for term in terms])
    statement = _statement(shape, external, sort)
    [(ids,)] = call.world.rows(statement, viewer=call.person.email, now=call.now, **values)
    return from_json(ids)


def _condition(call: Call, term: Term) -> Condition:
    if not term.operator:
        return words(term)
    if term.operator == "customer":
        return Condition("customer", term.negated, (like_pattern(term.value),))
    read = _READERS[term.operator]
    parts = [part.strip() for part in term.value.split(",") if part.strip()]
    if not parts:
        raise call.refuse(f"{term.operator}: has no value. Write it like {term.operator}:{OPERATORS[term.operator]}.")
    return Condition(term.operator, term.negated, tuple(read(call, term.operator, part) for part in parts))


def _queue(call: Call, operator: str, text: str) -> str:
    return find_queue(call, text).id


def _person(call: Call, operator: str, text: str) -> str:
    if text.lower() == "me":
        return call.person.email
    if operator == "assignee" and text.lower() == "none":
        return ""
    return find_person(call, text).email


def _tag(call: Call, operator: str, text: str) -> str:
    return like_pattern(to_json(text).decode())  # as in the stored list, with its quotes, so that whole tags fit


def _time(call: Call, operator: str, text: str) -> int:
    return call.instant(text, operator)


def _one_of(options: tuple[str, ...]) -> Callable[[Call, str, str], str]:
    def read(call: Call, operator: str, text: str) -> str:
        if text.lower() not in options:
            raise call.refuse(f"{operator}:{text} is not possible. Valid: {', '.join(options)}.")
        return text.lower()

    return read


_READERS: Mapping[str, Callable[[Call, str, str], str | int]] = MappingProxyType(
    {
        "queue": _queue,
        "status": _one_of(STATUSES),
        "priority": _one_of(PRIORITIES),
        "assignee": _person,
        "reporter": _person,
        "tag": _tag,
        "overdue": _one_of(("yes", "no")),
        "approval": _one_of(get_args(ApprovalState)),
        "created_after": _time,
        "created_before": _time,
        "updated_after": _time,
        "updated_before": _time,
    }
)


@lru_cache(maxsize=1024)
def _statement(shape: Shape, external: bool, sort: Sort) -> Statement:
    return Statement(lambda: _select(shape, external=external, sort=sort))


def _select(shape: Shape, *, external: bool, sort: Sort) -> sa.Select[Any]:
    ticket = table(Ticket).c

    def clause(name: str, values: Values) -> sa.ColumnElement[bool]:
        return _word(ticket, values, external=external) if name == "words" else _clause(ticket, name, values)

    query = sa.select(ticket.id).where(*where(shape, clause)).order_by(*_order(ticket, sort), ticket.id)
    if external:
        query = query.where(ticket.reporter == param("viewer"))
    # One row with all ids costs half of a row each. SQLite keeps a subquery's order for this aggregate.
    return sa.select(sa.func.json_group_array(query.subquery().c.id))


def _order(ticket: Any, sort: Sort) -> list[sa.ColumnElement[Any]]:  # noqa: ANN401 - a column collection
    if sort == "created":
        return [ticket.created_at.desc()]
    if sort == "due":
        return [sa.func.coalesce(ticket.due_at, _FAR)]
    if sort == "priority":
        rank = sa.case({priority: rank for rank, priority in enumerate(PRIORITIES)}, value=ticket.priority)
        return [rank.desc(), ticket.created_at]
    return [ticket.updated_at.desc()]


def _clause(ticket: Any, name: str, values: Values) -> sa.ColumnElement[bool]:  # noqa: ANN401
    if name == "customer":
        return holds([sa.func.coalesce(ticket.customer, "")], values)
    if name == "tag":
        return holds([ticket.tags], values)
    if name == "approval":
        approval = table(Approval).c
        return ticket.id.in_(sa.select(approval.ticket_id).where(approval.state.in_(values)))
    field, _, side = name.partition("_")
    if side:
        moment = ticket[f"{field}_at"]
        return sa.or_(*(moment >= value if side == "after" else moment < value for value in values))
    computed = {
        "assignee": sa.func.coalesce(ticket.assignee, ""),
        "overdue": sa.case((_overdue(ticket), "yes"), else_="no"),
    }
    return (computed[name] if name in computed else ticket[name]).in_(values)


def _overdue(ticket: Any) -> sa.ColumnElement[bool]:  # noqa: ANN401
    """What ``sla.overdue`` says, in SQL."""
    late_answer = ticket.first_response_at.is_(None) & (sa.func.coalesce(ticket.response_due_at, _FAR) < param("now"))
    return ticket.status.not_in(DONE) & (late_answer | (sa.func.coalesce(ticket.due_at, _FAR) < param("now")))


def _word(ticket: Any, values: Values, *, external: bool) -> sa.ColumnElement[bool]:  # noqa: ANN401
    comment = table(Comment).c
    said = sa.select(comment.ticket_id).where(holds([comment.body], values))
    columns = [ticket.title, ticket.description, ticket.id, sa.func.coalesce(ticket.customer, "")]
    if external:
        said = said.where(comment.public == 1)
    else:
        columns.append(ticket.tags)
    return holds(columns, values) | ticket.id.in_(said)
