"""Building an image with mail: finding what cannot be, deriving what need not be written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

import sqlalchemy as sa

from servers.errors import Problem
from servers.people import Person
from servers.records import Record
from servers.services.mail.records import ADDRESS_PATTERN, INBOX, SENT, UNREAD, Copy, Draft, Message, copy_id
from servers.sql import Query, Statement, table
from servers.world import World

_MESSAGES = Query(Message, lambda m: sa.select(m).order_by(m.c.sent_at, sa.literal_column("rowid")))
_DRAFTS = Query(Draft, lambda d: sa.select(d).where(d.c.reply_to.is_not(None), d.c.thread_id == "").order_by(d.c.id))
_COPY_IDS = Statement(lambda: sa.select(table(Copy).c.id))


def check(records: Mapping[str, Mapping[str, Record]], start: int) -> list[Problem]:
    """Find impossible mail: from the future, to nobody, older than what it answers, in a stranger's box."""
    people = cast("Mapping[str, Person]", records[Person.type_name])
    messages = cast("Mapping[str, Message]", records[Message.type_name])
    copies = cast("Mapping[str, Copy]", records[Copy.type_name])
    drafts = cast("Mapping[str, Draft]", records[Draft.type_name])
    spelled = {email.lower(): email for email in people}
    problems = [
        Problem("bad_address", f"cast[{index}].email", f"{email} cannot be a mail address", "Simplify it.")
        for index, email in enumerate(people)
        if re.fullmatch(ADDRESS_PATTERN, email) is None
    ]
    for index, message in enumerate(messages.values()):
        where = f"records.{Message.type_name}[{index}]"
        problems += _message_problems(message, where, messages, start)
        problems += _spelling(where, spelled, sender=[message.sender])
        problems += _spelling(where, spelled, to=message.to, cc=message.cc, bcc=message.bcc)
    for index, copy in enumerate(copies.values()):
        problems += _copy_problems(copy, f"records.{Copy.type_name}[{index}]", people, messages)
    for index, draft in enumerate(drafts.values()):
        where = f"records.{Draft.type_name}[{index}]"
        problems += _draft_problems(draft, where, people, messages, start)
        problems += _spelling(where, spelled, to=draft.to, cc=draft.cc, bcc=draft.bcc)
    return problems


def prepare(world: World) -> None:
    """Give every message its thread, and everyone inside who sent or got it a copy."""
    threads: dict[str, str] = {}
    written = {row[0] for row in world.rows(_COPY_IDS)}
    for message in world.select(_MESSAGES):
        # A parent is older (``check``), so its thread is known by now.
        threads[message.id] = message.thread_id or threads.get(message.in_reply_to or "", message.id)
        if not message.thread_id:
            world.update(message, thread_id=threads[message.id])
        for owner, labels in mailbox_labels(world, message).items():
            if copy_id(owner, message.id) not in written:
                world.insert(Copy(owner=owner, message_id=message.id, labels=labels))
    for draft in world.select(_DRAFTS):
        world.update(draft, thread_id=threads[draft.reply_to or ""])


def mailbox_labels(world: World, message: Message) -> dict[str, list[str]]:
    """In whose mailboxes a sent message belongs, and with which labels: a new message, sender first."""
    boxes: dict[str, list[str]] = {message.sender: [SENT]} if has_mailbox(world, message.sender) else {}
    for recipient in message.recipients:
        if has_mailbox(world, recipient):
            boxes[recipient] = [INBOX, SENT, UNREAD] if recipient == message.sender else [INBOX, UNREAD]
    return boxes


def has_mailbox(world: World, address: str) -> bool:
    """Whether the address is of someone inside."""
    person = world.people.get(address)
    return person is not None and not person.external


def _message_problems(message: Message, where: str, messages: Mapping[str, Message], start: int) -> Iterator[Problem]:
    if message.sent_at > start:
        yield _future(f"{where}.sent_at")
    if not message.recipients:
        yield Problem("no_recipient", f"{where}.to", "the message has no recipient", "Name somebody in to, cc or bcc.")
    if message.in_reply_to is None:
        return
    parent = messages[message.in_reply_to]
    if parent.sent_at >= message.sent_at:
        yield Problem(
            "impossible_time",
            f"{where}.sent_at",
            f"not later than {parent.id!r}, the message that it answers",
            "Set a later time, or answer another message.",
        )
    elif message.thread_id and message.thread_id != (thread := _thread(parent, messages)):
        yield Problem(
            "wrong_thread",
            f"{where}.thread_id",
            f"{message.thread_id!r} is not the thread of what it answers",
            f"Leave it out or write {thread!r}.",
        )


def _thread(message: Message, messages: Mapping[str, Message]) -> str:
    while not message.thread_id and message.in_reply_to is not None:
        parent = messages[message.in_reply_to]
        if parent.sent_at >= message.sent_at:  # a mistake of its own, and the way out of a circle
            break
        message = parent
    return message.thread_id or message.id


def _copy_problems(
    copy: Copy, where: str, people: Mapping[str, Person], messages: Mapping[str, Message]
) -> Iterator[Problem]:
    yield from _owner_problems(copy.owner, f"{where}.owner", people)
    if not _concerns(copy.owner, messages[copy.message_id]):
        found = f"{copy.owner} neither sent nor got message {copy.message_id!r}"
        yield Problem("impossible_copy", f"{where}.owner", found, "Name the sender or a recipient.")


def _draft_problems(
    draft: Draft, where: str, people: Mapping[str, Person], messages: Mapping[str, Message], start: int
) -> Iterator[Problem]:
    yield from _owner_problems(draft.owner, f"{where}.owner", people)
    if draft.updated_at > start:
        yield _future(f"{where}.updated_at")
    if draft.reply_to is not None and not _concerns(draft.owner, messages[draft.reply_to]):
        found = f"{draft.owner} neither sent nor got message {draft.reply_to!r} and cannot answer it"
        yield Problem("impossible_reply", f"{where}.reply_to", found)


def _concerns(person: str, message: Message) -> bool:
    return person == message.sender or person in message.recipients


def _owner_problems(owner: str, where: str, people: Mapping[str, Person]) -> Iterator[Problem]:
    person = people.get(owner)
    if person is None or person.external:
        found = "is nobody in the cast" if person is None else "is an outsider and has no mailbox"
        yield Problem("no_mailbox", where, f"{owner} {found}", "Name an internal person of the cast.")


def _spelling(where: str, spelled: Mapping[str, str], **fields: list[str]) -> Iterator[Problem]:
    """Addresses that differ from those of the cast in capitals only."""
    for field, addresses in fields.items():
        for position, address in enumerate(addresses):
            known = spelled.get(address.lower(), address)
            if known != address:
                place = f"{where}.{field}" if field == "sender" else f"{where}.{field}[{position}]"
                found = f"{address} is written {known} in the cast"
                yield Problem("address_spelling", place, found, f"Write {known}.")


def _future(where: str) -> Problem:
    return Problem("impossible_time", where, "lies after the start", "Set a time before the episode begins.")
