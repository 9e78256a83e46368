"""Searching a mailbox in SQL.

A parsed query becomes a shape (the tree with ``Test`` leaves, no values in it) and parameters. SQL is
composed and compiled once per shape and process, so a million searches of a dozen forms cost a dozen
compilations.

Words and phrases fit anywhere in subject, body, addresses and the names that belong to them, also inside a
word, whatever the case. Dates are days in the caller's time zone; ``newer_than`` and ``older_than`` count
months as 30 and years as 365 days.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import sqlalchemy as sa
from pydantic import Field
from pydantic_core import from_json, to_json

from servers.errors import suggest
from servers.paging import page
from servers.search import holds, like_pattern
from servers.services.mail.addresses import shown, shown_all
from servers.services.mail.labels import own_labels
from servers.services.mail.query import HELP, Every, Negated, Node, QueryError, Some, Term, parse
from servers.services.mail.records import (
    INBOX,
    SENT,
    SYSTEM_LABELS,
    TRASH,
    UNREAD,
    Attachment,
    Copy,
    Message,
    mailbox_bounds,
)
from servers.sql import Statement, among, param, shaped, table
from servers.tools import Arguments, Call, JsonObject, tool, zone

SNIPPET = 120
DAY = 86400
_DATE = re.compile(r"(\d{4})[/-](\d{1,2})[/-](\d{1,2})")
_AGE = re.compile(r"(\d{1,5})([dwmy])")
_AGE_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


class Search(Arguments):
    """Search all your mail except TRASH, newest first; returns snippets.

    Operators, combinable: from: to: cc: subject: label: in:inbox|sent|archive|trash|anywhere
    is:unread|read|starred|important has:attachment filename: after:2026/03/01 before:2026/03/09 newer_than:7d
    older_than:1m "exact phrase" -not OR ( ). "me" is you. An empty query lists everything.
    """

    query: str = Field(
        default="",
        max_length=500,
        description='Such as: from:priya subject:"site visit" is:unread -newsletter',
    )
    page_size: int = Field(default=10, ge=1, le=50, description="Messages per page, at most 50")
    cursor: str | None = Field(default=None, description="next_cursor of the previous page")


@dataclass(frozen=True, slots=True)
class Test:
    """A leaf of a shape: one test on a message or copy. Its values are parameters."""

    kind: str
    params: tuple[str, ...] = ()
    """Names of the parameters, of which one must fit."""
    people: str | None = None
    """Name of a parameter that lists patterns of the addresses of people whose name fits."""


Shape: TypeAlias = Node[Test]


def search(call: Call, args: Search) -> JsonObject:
    """Find messages and show one page of them."""
    try:
        tree = parse(args.query)
    except QueryError as error:
        raise call.refuse(str(error)) from None
    reader = _Reader(call)
    shape = reader.shape(tree)
    if not reader.everywhere:
        shape = Every((shape, Negated(reader.label(TRASH))))
    mailbox = mailbox_bounds(call.person.email)
    # Ids only: most of what is found is just counted.
    found = [row[0] for row in call.world.rows(shaped(Copy, _select, shape), **mailbox, **reader.params)]
    part = page(call, args.query, found, key=str, size=args.page_size, cursor=args.cursor)
    return {"messages": _summaries(call, part.items), "total": part.total, "next_cursor": part.next_cursor}


# ---------------------------------------------------------------------- meaning: terms to tests


class _Reader:
    """Gives the terms of one query their meaning for one caller."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.params: dict[str, str | int] = {}
        self.everywhere = False
        """The query says itself whether it wants what lies in the trash."""

    def shape(self, node: Node[Term]) -> Shape:
        match node:
            case Negated(part):
                return Negated(self.shape(part))
            case Every(parts):
                return Every(tuple([self.shape(part) for part in parts]))
            case Some(parts):
                return Some(tuple([self.shape(part) for part in parts]))
            case Term(operator, value):
                return self.term(operator, value)

    def term(self, operator: str, value: str) -> Shape:
        lowered = value.lower()
        match operator:
            case "text" | "from" | "to" | "cc":
                myself = operator != "text" and lowered == "me"
                return self.people(operator, self.call.person.email if myself else value)
            case "subject" | "filename":
                return self.pattern(operator, value)
            case "after" | "before":
                return self.test("since" if operator == "after" else "until", self.midnight(operator, value))
            case "newer_than" | "older_than":
                return self.test("since" if operator == "newer_than" else "until", self.age(operator, value))
            case "label":
                return self.named_label(value)
            case _:
                return self.place(operator, lowered)

    def place(self, operator: str, value: str) -> Shape:
        """``in:``, ``is:`` and ``has:``."""
        match operator, value:
            case "in", "anywhere":
                self.everywhere = True
                return Every(())
            case "in", "archive":
                return Every(tuple([Negated(self.label(label)) for label in (INBOX, SENT, TRASH)]))
            case "in", "draft" | "drafts":
                raise self.call.refuse("drafts are not searched; mail_list_drafts shows them")
            case "in", _:
                return self.named_label(value, "anywhere", "archive")
            case "is", "read":
                return Negated(self.label(UNREAD))
            case "is", "unread" | "starred" | "important":
                return self.label(value.upper())
            case "has", "attachment":
                return Test("attachment")
            case _:
                raise self.call.refuse(f"{operator}:{value} is not known. {HELP}")

    def named_label(self, name: str, *others: str) -> Shape:
        wanted = _loosely(name)
        known = own_labels(self.call)
        for label in (*SYSTEM_LABELS, *known):
            if _loosely(label) == wanted:
                self.everywhere |= label == TRASH
                return self.label(label)
        valid = suggest(name, {*SYSTEM_LABELS, *known, *others})
        raise self.call.refuse(f"you have no label {name!r:.60}. {valid}")

    def label(self, label: str) -> Test:
        return self.test("label", like_pattern(f'"{label}"'))

    def people(self, kind: str, value: str) -> Test:
        wanted = value.lower()
        named = [
            like_pattern(person.email)
            for person in self.call.world.people.values()
            if wanted in person.name.lower() and wanted not in person.email.lower()
        ]
        test = self.pattern(kind, value)
        return Test(kind, test.params, self.param(to_json(named).decode())) if named else test

    def pattern(self, kind: str, value: str) -> Test:
        # SQLite's LIKE ignores the case of ASCII letters only; the usual spellings stand in for the others.
        spellings = [value] if value.isascii() else dict.fromkeys((value.lower(), value.upper(), value.title()))
        return self.test(kind, *[like_pattern(spelling) for spelling in spellings])

    def test(self, kind: str, *values: str | int) -> Test:
        return Test(kind, tuple([self.param(value) for value in values]))

    def param(self, value: str | int) -> str:
        name = f"p{len(self.params)}"
        self.params[name] = value
        return name

    def midnight(self, operator: str, value: str) -> int:
        found = _DATE.fullmatch(value)
        try:
            year, month, day = (int(part) for part in found.groups()) if found else (0, 0, 0)
            return int(datetime(year, month, day, tzinfo=zone(self.call.person.timezone)).timestamp())
        except (ValueError, OverflowError):
            raise self.call.refuse(f"{operator}:{value} is not a day. Write it like {operator}:2026/03/01.") from None

    def age(self, operator: str, value: str) -> int:
        found = _AGE.fullmatch(value.lower())
        if found is None:
            raise self.call.refuse(f"{operator}:{value} is not an age. Write 7d, 2w, 3m (months) or 1y.")
        return self.call.now - int(found[1]) * _AGE_DAYS[found[2]] * DAY


def _loosely(label: str) -> str:
    return label.lower().replace(" ", "-")


# ---------------------------------------------------------------------- form: shapes to SQL


def _select(copies: sa.Table, shape: Shape) -> sa.Select[Any]:
    """Ids of the messages in one mailbox that fit, newest first; of one second, the last to arrive first."""
    messages = table(Message)
    arrival = sa.literal_column(f"{messages.name}.rowid", sa.Integer)
    return (
        sa.select(copies.c.message_id)
        .join(messages, messages.c.id == copies.c.message_id)
        .where(copies.c.id >= param("low"), copies.c.id < param("high"), _condition(shape))
        .order_by(messages.c.sent_at.desc(), arrival.desc())
    )


def _condition(node: Shape) -> sa.ColumnElement[bool]:
    match node:
        case Negated(part):
            return sa.not_(_condition(part))
        case Every(parts):
            return sa.and_(sa.true(), *[_condition(part) for part in parts])
        case Some(parts):
            return sa.or_(*[_condition(part) for part in parts])
        case Test():
            return _test(node)


def _test(test: Test) -> sa.ColumnElement[bool]:
    messages = table(Message).c
    match test.kind:
        case "label":
            return _fits(table(Copy).c.labels, test)
        case "since" | "until":
            moment = param(test.params[0])
            return messages.sent_at >= moment if test.kind == "since" else messages.sent_at < moment
        case "attachment" | "filename":
            return _attached(test)
        case "text":
            addresses = [_addressed(column, test) for column in (messages.sender, messages.to, messages.cc)]
            return sa.or_(_fits(messages.subject, test), *addresses, _fits(messages.body, test))
        case _:
            return _addressed(messages["sender" if test.kind == "from" else test.kind], test)


def _fits(column: sa.ColumnElement[Any], test: Test) -> sa.ColumnElement[bool]:
    return holds([column], [param(name) for name in test.params])


def _addressed(column: sa.ColumnElement[Any], test: Test) -> sa.ColumnElement[bool]:
    """As ``_fits``, or one of the people whose name fits."""
    if test.people is None:
        return _fits(column, test)
    people = sa.func.json_each(param(test.people)).table_valued("value")
    named = sa.select(_ONE).select_from(people).where(column.like(people.c.value, escape="\\"))
    return sa.or_(_fits(column, test), sa.exists(named))


def _attached(test: Test) -> sa.ColumnElement[bool]:
    if test.kind == "attachment":
        return table(Message).c.attachments != sa.literal_column("'[]'", sa.Text)
    attachments = table(Attachment)
    listed = sa.func.json_each(table(Message).c.attachments).table_valued("value")
    named = (
        sa.select(_ONE)
        .select_from(listed)
        .join(attachments, attachments.c.id == listed.c.value)
        .where(_fits(attachments.c.name, test))
    )
    return sa.exists(named)


_ONE: sa.ColumnElement[int] = sa.literal_column("1", sa.Integer)


# ---------------------------------------------------------------------- what a page shows


def _summary_columns() -> sa.Executable:
    messages, copies = table(Message), table(Copy)
    columns = messages.c
    return (
        sa.select(
            columns.id,
            columns.thread_id,
            columns.sender,
            columns.to,
            columns.subject,
            columns.sent_at,
            sa.func.json_array_length(columns.attachments),
            # Longer than what is shown: spaces are folded afterwards.
            sa.func.substr(columns.body, 1, 2 * SNIPPET),
            copies.c.labels,
        )
        .join_from(messages, copies, copies.c.id == param("low").concat(columns.id))
        .where(among(columns.id, "ids"))
    )


_SUMMARIES = Statement(_summary_columns)


def _summaries(call: Call, ids: Sequence[str]) -> list[JsonObject]:
    if not ids:
        return []
    low = mailbox_bounds(call.person.email)["low"]
    rows = {row[0]: row for row in call.world.rows(_SUMMARIES, low=low, ids=to_json(ids).decode())}
    return [_summary(call, rows[message_id]) for message_id in ids]


def _summary(call: Call, row: tuple[Any, ...]) -> JsonObject:
    message_id, thread_id, sender, to, subject, sent_at, attachments, body, labels = row
    summary: JsonObject = {
        "message_id": message_id,
        "thread_id": thread_id,
        "from": shown(call, sender),
        "to": shown_all(call, from_json(to)),
        "subject": subject,
        "date": call.local(sent_at),
        "snippet": snippet(body),
        "labels": from_json(labels),
    }
    if attachments:
        summary["attachments"] = attachments
    return summary


def snippet(body: str) -> str:
    """The beginning of a body on one line."""
    line = " ".join(body.split())
    return line if len(line) <= SNIPPET else line[:SNIPPET].rstrip() + "..."


SEARCH_TOOLS = (tool("mail_search", Search, search),)
