"""Statements of chat. Parameters ``me`` and ``internal`` (0 or 1) say whose rights count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.operators import custom_op

from servers.search import Shape, holds, where
from servers.services.chat.records import Channel, Message
from servers.sql import Query, Statement, among, has_item, param, table

Select = sa.Select[*tuple[Any, ...]]


def _open(channel: sa.FromClause) -> sa.ColumnElement[bool]:
    """``Channel.open_to`` as SQL."""
    public = sa.and_(channel.c.kind == "channel", channel.c.private == 0, param("internal") == 1)
    return sa.or_(public, has_item(channel.c.members, "me"))


def _row(message: sa.Table) -> sa.ColumnElement[Any]:
    """Row numbers follow time, then insertion (``records.prepare``), and an index gives them in order."""
    return sa.literal_column(f"{message.name}.rowid")


OPEN_CHANNELS = Query(Channel, lambda c: sa.select(c).where(_open(c)).order_by(c.c.kind, c.c.name, c.c.id))
CHANNEL = Query(
    Channel,
    lambda c: (
        sa.select(c)
        .where(sa.or_(c.c.id == param("id"), c.c.name == param("name")), _open(c))
        .order_by((c.c.id == param("id")).desc())
    ),
)
SAME_PEOPLE = Query(Channel, lambda c: sa.select(c).where(c.c.kind == "dm", c.c.members == param("members")))
SHARED = Query(Channel, lambda c: sa.select(c).where(has_item(c.c.members, "me"), has_item(c.c.members, "other")))
MESSAGE_IN = Query(Message, lambda m: sa.select(m).where(m.c.id == param("id"), m.c.channel_id == param("channel")))


def _timeline() -> Select:
    message = table(Message)
    return (
        sa.select(*[_row(message), message.c.thread_id])
        .where(message.c.channel_id == param("channel"))
        .order_by(_row(message).desc())
    )


def _shown(message: sa.Table) -> Select:
    names = ("id", "author", "sent_at", "text", "thread_id", "reactions", "edited_at", "channel_id")
    return sa.select(*[message.c[name] for name in names])


def _chosen() -> Select:
    message = table(Message)
    return _shown(message).where(among(_row(message), "rows")).order_by(_row(message).desc())


def _thread() -> Select:
    message = table(Message)
    in_thread = sa.or_(message.c.id == param("thread"), message.c.thread_id == param("thread"))
    return (
        _shown(message)
        .where(message.c.channel_id == param("channel"), in_thread)
        .order_by(message.c.thread_id.is_not(None), _row(message))
    )


TIMELINE = Statement(_timeline)
"""Row number and thread of every message of ``channel``, newest first."""
CHOSEN = Statement(_chosen)
"""What is shown of the messages with these ``rows`` (a JSON list of row numbers), newest first."""
THREAD = Statement(_thread)
"""What is shown of the messages of ``thread`` in ``channel``: the first one, then replies, oldest first."""


def find_messages(message: sa.Table, shape: Shape) -> Select:
    """What is shown of the messages that fit a search, newest first, among those that ``me`` may read."""
    c = message.c
    channel = table(Channel)
    thread = table(Message).alias("thread")

    def clause(name: str, values: Sequence[sa.BindParameter[Any]]) -> sa.ColumnElement[bool]:
        match name:
            case "in":
                return c.channel_id == values[0]
            case "from":
                return c.author == values[0]
            case "before":
                return c.sent_at < values[0]
            case "after":
                return c.sent_at >= values[0]
            case "has":
                return c.id.in_(sa.select(thread.c.thread_id).where(thread.c.thread_id.is_not(None)))
            case _:
                return holds([c.text], values)

    # The plus keeps SQLite from going channel by channel through the index: one scan in order is cheaper.
    plus: custom_op[str] = custom_op("+")
    channel_id: sa.ColumnElement[str] = sa.UnaryExpression(c.channel_id, operator=plus)
    readable = channel_id.in_(sa.select(channel.c.id).where(_open(channel)))
    return _shown(message).where(readable, *where(shape, clause)).order_by(_row(message).desc())
