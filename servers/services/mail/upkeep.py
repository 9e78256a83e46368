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
from servers.sql import Query
from servers.world import World

_MESSAGES = Query(Message, lambda m: sa.select(m).order_by(m.c.sent_at, sa.literal_column("rowid")))
_DRAFTS = Query(
    Draft, lambda d: sa.select(d).where(d.c.reply_to.is_not(None), d.c.thread_id == "").order_by(d.c.id)
)


def check(records: Mapping[str, Mapping[str, Record]], start: int) -> list[Problem]:
    """Find impossible mail: from the future, to nobody, older than what it answers, in a stranger's box."""
    people = cast("Mapping[str, Person]", records[Person.type_name])
    messages = cast("Mapping[str, Message]", records[Message.type_name])
    copies = cast("Mapping[str, Copy]", records[Copy.type_name])
    drafts = cast("Mapping[str, Draft]", records[Draft.type_name])
    spelled = {email.lower(): email for email in people}
    problems = [
        Problem(
            "bad_address",
            f"cast[{index}].email",
            f"{email} cannot be a mail address",
            "Use plain characters.",
        )
        for index, email in enumerate(people)
        if re.fullmatch(ADDRESS_PATTERN, email) is None
    ]
    for index, message in enumerate(messages.values()):
        where = f"records.{Message.type_name}[{index}]"
        problems += _message_problems(message, where, messages, start)
        problems += _spelling(message, ("to", "cc", "bcc"), where, spelled)
        if spelled.get(message.sender.lower(), message.sender) != message.sender:
            problems.append(_misspelt(f"{where}.sender", message.sender, spelled))
    for index, copy in enumerate(copies.values()):
        where = f"records.{Copy.type_name}[{index}].owner"
        problems += _owner_problems(copy.owner, where, people)
        message = messages[copy.message_id]
        if copy.owner not in (message.sender, *message.recipients):
            found = f"{copy.owner} neither sent nor got message {message.id!r}"
            problems.append(
                Problem("impossible_copy", where, found, "Name the sender or a recipient of the message.")
            )
    for index, draft in enumerate(drafts.values()):
        where = f"records.{Draft.type_name}[{index}]"
        problems += _owner_problems(draft.owner, f"{where}.owner", people)
        problems += _spelling(draft, ("to", "cc", "bcc"), where, spelled)
        if draft.updated_at > start:
            problems.append(_future(f"{where}.updated_at"))
        answered = None if draft.reply_to is None else messages[draft.reply_to]
        if answered is not None and draft.owner not in (answered.sender, *answered.recipients):
            found = f"{draft.owner} neither sent nor got message {answered.id!r} and cannot answer it"
            problems.append(Problem("impossible_reply", f"{where}.reply_to", found))
    return problems


def prepare(world: World) -> None:
    """Give every message its thread, and everyone inside who sent or got it a copy."""
    threads: dict[str, str] = {}
    for message in world.select(_MESSAGES):
        # A parent is older (``check``), so its thread is known by now.
        threads[message.id] = message.thread_id or threads.get(message.in_reply_to or "", message.id)
        if not message.thread_id:
            world.update(message, thread_id=threads[message.id])
        for owner, labels in mailbox_labels(world, message).items():
            if world.get(Copy, copy_id(owner, message.id)) is None:
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


def _message_problems(
    message: Message, where: str, messages: Mapping[str, Message], start: int
) -> Iterator[Problem]:
    if message.sent_at > start:
        yield _future(f"{where}.sent_at")
    if not message.recipients:
        yield Problem(
            "no_recipient", f"{where}.to", "the message has no recipient", "Name somebody in to, cc or bcc."
        )
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


def _owner_problems(owner: str, where: str, people: Mapping[str, Person]) -> Iterator[Problem]:
    person = people.get(owner)
    if person is None or person.external:
        found = (
            "is nobody in the cast" if person is None else "is outside the organisation and has no mailbox"
        )
        yield Problem(
            "no_mailbox", where, f"{owner} {found}", "Name an internal person by the address in the cast."
        )


def _spelling(
    record: Message | Draft, fields: tuple[str, ...], where: str, spelled: Mapping[str, str]
) -> Iterator[Problem]:
    for field in fields:
        for position, address in enumerate(cast("list[str]", getattr(record, field))):
            if spelled.get(address.lower(), address) != address:
                yield _misspelt(f"{where}.{field}[{position}]", address, spelled)


def _misspelt(where: str, address: str, spelled: Mapping[str, str]) -> Problem:
    known = spelled[address.lower()]
    return Problem("address_spelling", where, f"{address} is written {known} in the cast", f"Write {known}.")


def _future(where: str) -> Problem:
    return Problem("impossible_time", where, "lies after the start", "Set a time before the episode begins.")
