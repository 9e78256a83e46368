"""Reading messages, threads and attachments; what one person may see."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from pydantic import Field

from servers.services.mail.addresses import shown, shown_all
from servers.services.mail.records import Attachment, Copy, Draft, Message, copy_id, mailbox_bounds
from servers.sql import Query, Statement, has_item, param, table
from servers.tools import Arguments, Call, JsonObject, tool

LONGEST_BODY_IN_THREAD = 4_000
LONGEST_TEXT = 20_000
LARGEST_BINARY = 256 * 1024


class GetMessage(Arguments):
    """Get one message in full. Reading leaves UNREAD as it is; mail_get_attachment gets attachments."""

    message_id: str


class GetThread(Arguments):
    """Get your messages of a thread, oldest first; mail_get_message gives long bodies in full."""

    thread_id: str


class GetAttachment(Arguments):
    """Get the content of an attachment: text (long ones in parts, see next_offset) or base64."""

    attachment_id: str
    offset: int = Field(default=0, ge=0, le=1_000_000_000, description="Character of a text at which to begin")


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as one person sees it."""

    message: Message
    labels: list[str]


_THREAD = Query(
    Message,
    lambda m: (
        sa.select(m)
        .where(m.c.thread_id == param("thread"))
        .order_by(m.c.sent_at, sa.literal_column("rowid", sa.Integer))
    ),
)
_SENT_WITH = Query(Message, lambda m: sa.select(m).where(_attached(m)))
_RECEIVED_WITH = Statement(
    lambda: (
        sa.select(table(Copy).c.id)
        .join(table(Message), table(Copy).c.id == param("low").concat(table(Message).c.id))
        .where(_attached(table(Message)))
        .limit(1)
    )
)
_DRAFTED_WITH = Statement(
    lambda: sa.select(table(Draft).c.id).where(
        table(Draft).c.owner == param("owner"), has_item(table(Draft).c.attachments, "attachment")
    )
)


def _attached(messages: sa.Table) -> sa.ColumnElement[bool]:
    some = messages.c.attachments != sa.literal_column("'[]'", sa.Text)
    return sa.and_(some, has_item(messages.c.attachments, "attachment"))


def see(call: Call, message: Message) -> Seen | None:
    """The message as the caller sees it; None for one that is not the caller's.

    Who is outside has no mailbox, but knows what went to and fro.
    """
    me = call.person.email
    copy = call.world.get(Copy, copy_id(me, message.id))
    if copy is not None:
        return Seen(message, copy.labels)
    outside = call.person.external and (me == message.sender or me in message.recipients)
    return Seen(message, []) if outside else None


def find_message(call: Call, message_id: str) -> Seen:
    """The caller's message of this id.

    Raises:
        ToolError: There is none, or it is not the caller's: the same words for both.
    """
    message = call.world.get(Message, message_id)
    seen = None if message is None else see(call, message)
    if seen is None:
        raise call.refuse(f"you have no message {message_id!r:.80}. mail_search gives the ids of messages.")
    return seen


def find_attachment(call: Call, attachment_id: str) -> Attachment:
    """An attachment of one of the caller's messages or drafts.

    Raises:
        ToolError: There is none, or it is not the caller's.
    """
    attachment = call.world.get(Attachment, attachment_id)
    if attachment is None or not _holds(call, attachment_id):
        raise call.refuse(f"you have no attachment {attachment_id!r:.80}. mail_get_message lists those of a message.")
    return attachment


def visible_bcc(call: Call, message: Message) -> list[str]:
    """Blind copies that the caller knows of: all as the sender, otherwise at most the caller's own."""
    if call.person.email == message.sender:
        return message.bcc
    return [address for address in message.bcc if address == call.person.email]


def list_attachments(call: Call, ids: list[str]) -> list[JsonObject]:
    """What is attached, without content."""
    found = [call.world.get(Attachment, attachment_id) for attachment_id in ids]
    return [
        {"attachment_id": item.id, "name": item.name, "media_type": item.media_type, "size": item.size}
        for item in found
        if item is not None
    ]


def get_message(call: Call, args: GetMessage) -> JsonObject:
    """Show a message in full."""
    seen = find_message(call, args.message_id)
    return {**_head(call, seen), "body": seen.message.body}


def get_thread(call: Call, args: GetThread) -> JsonObject:
    """Show the caller's part of a thread."""
    found = [see(call, message) for message in call.world.select(_THREAD, thread=args.thread_id)]
    messages = [seen for seen in found if seen is not None]
    if not messages:
        raise call.refuse(f"you have no thread {args.thread_id!r:.80}. mail_search gives the ids of threads.")
    return {
        "thread_id": args.thread_id,
        "messages": [{**_head(call, seen), "body": _cut(seen.message.body)} for seen in messages],
    }


def get_attachment(call: Call, args: GetAttachment) -> JsonObject:
    """Show the content of an attachment."""
    attachment = find_attachment(call, args.attachment_id)
    answer = list_attachments(call, [attachment.id])[0]
    if attachment.text is None:
        if attachment.size > LARGEST_BINARY:
            raise call.refuse(
                f"{attachment.name} has {attachment.size} bytes; files other than text can be fetched up to "
                f"{LARGEST_BINARY} bytes"
            )
        return {**answer, "base64": attachment.base64}
    end = args.offset + LONGEST_TEXT
    left = len(attachment.text) - end
    if left <= 0:
        return {**answer, "text": attachment.text[args.offset :]}
    marker = f"\n[cut: {left} more characters; ask again with offset {end}]"
    return {**answer, "text": attachment.text[args.offset : end] + marker, "next_offset": end}


def _holds(call: Call, attachment_id: str) -> bool:
    me = call.person.email
    if call.world.rows(_RECEIVED_WITH, low=mailbox_bounds(me)["low"], attachment=attachment_id):
        return True
    if call.world.rows(_DRAFTED_WITH, owner=me, attachment=attachment_id):
        return True
    sent = call.world.select(_SENT_WITH, attachment=attachment_id) if call.person.external else []
    return any(see(call, message) is not None for message in sent)


def _head(call: Call, seen: Seen) -> JsonObject:
    message = seen.message
    head: JsonObject = {
        "message_id": message.id,
        "thread_id": message.thread_id,
        "from": shown(call, message.sender),
        "to": shown_all(call, message.to),
    }
    if message.cc:
        head["cc"] = shown_all(call, message.cc)
    if bcc := visible_bcc(call, message):
        head["bcc"] = shown_all(call, bcc)
    head |= {"subject": message.subject, "date": call.local(message.sent_at), "labels": seen.labels}
    if message.in_reply_to is not None:
        head["in_reply_to"] = message.in_reply_to
    if message.attachments:
        head["attachments"] = list_attachments(call, message.attachments)
    return head


def _cut(body: str) -> str:
    left = len(body) - LONGEST_BODY_IN_THREAD
    if left <= 0:
        return body
    return f"{body[:LONGEST_BODY_IN_THREAD]}\n[cut: {left} more characters; mail_get_message gives all]"


READING_TOOLS = (
    tool("mail_get_message", GetMessage, get_message),
    tool("mail_get_thread", GetThread, get_thread),
    tool("mail_get_attachment", GetAttachment, get_attachment),
)
