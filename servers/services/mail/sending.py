"""Sending, replying, forwarding: every way in which a message comes into being.

A reply does not quote: the thread has the earlier messages. A forward does, below the comment, because its
readers have not. Both stay in the thread; only a reply says ``in_reply_to``. Blind copies of the original
never reach an answer or a quotation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pydantic import Field

from servers.services.mail.addresses import Recipients, recipients, resolve_all, shown, shown_all
from servers.services.mail.reading import Seen, find_message
from servers.services.mail.records import Copy, Message
from servers.services.mail.upkeep import mailbox_labels
from servers.tools import Arguments, Call, JsonObject, tool

MOST_RECIPIENTS = 50
LONGEST_SUBJECT = 300
LONGEST_BODY = 50_000
_RE = re.compile(r"(?:re\s*:\s*)+", re.IGNORECASE)
_FWD = re.compile(r"(?:fwd?\s*:\s*)+", re.IGNORECASE)


class Send(Arguments):
    """Send a new message now.

    Recipients: mail addresses, 'Name <address>', or names of coworkers. To answer a message use mail_reply;
    to prepare one without sending it use mail_create_draft.
    """

    to: list[str] = Field(max_length=MOST_RECIPIENTS)
    subject: str = Field(max_length=LONGEST_SUBJECT)
    body: str = Field(min_length=1, max_length=LONGEST_BODY, description="Plain text")
    cc: list[str] = Field(default=[], max_length=MOST_RECIPIENTS)
    bcc: list[str] = Field(default=[], max_length=MOST_RECIPIENTS, description="Recipients whom the others do not see")


class Reply(Arguments):
    """Answer a message now, in its thread.

    Goes to its sender (to its recipients if you sent it), with reply_all to everyone in to and cc. Do not
    quote the message; the thread shows it.
    """

    message_id: str
    body: str = Field(min_length=1, max_length=LONGEST_BODY, description="Plain text")
    reply_all: bool = Field(default=False, description="Also to all other recipients in to and cc")
    cc: list[str] = Field(default=[], max_length=MOST_RECIPIENTS, description="Further recipients")


class Forward(Arguments):
    """Forward a message with its text and attachments now, with a comment above it."""

    message_id: str
    to: list[str] = Field(max_length=MOST_RECIPIENTS)
    comment: str = Field(default="", max_length=LONGEST_BODY, description="Plain text")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message about to be sent."""

    recipients: Recipients
    subject: str
    body: str
    thread_id: str = ""
    """Empty: a new thread."""
    in_reply_to: str | None = None
    attachments: list[str] = field(default_factory=list[str])


def deliver(call: Call, mail: Outgoing) -> JsonObject:
    """Send a message: everyone inside whom it reaches gets a copy; who is outside is only written to.

    Raises:
        ToolError: It has no recipient.
    """
    if not mail.recipients.everyone:
        raise call.refuse("the message has no recipient; name at least one")
    message_id = call.new_id("mail.message")
    message = Message(
        id=message_id,
        thread_id=mail.thread_id or message_id,
        sender=call.person.email,
        to=mail.recipients.to,
        cc=mail.recipients.cc,
        bcc=mail.recipients.bcc,
        subject=one_line(mail.subject),
        sent_at=call.now,
        in_reply_to=mail.in_reply_to,
        attachments=mail.attachments,
        body=mail.body,
    )
    call.world.insert(message)
    for owner, labels in mailbox_labels(call.world, message).items():
        call.world.insert(Copy(owner=owner, message_id=message.id, labels=labels))
    receipt: JsonObject = {"message_id": message.id, "thread_id": message.thread_id, "to": message.to}
    receipt |= {name: listed for name, listed in (("cc", message.cc), ("bcc", message.bcc)) if listed}
    return {**receipt, "subject": message.subject}


def reply_recipients(call: Call, message: Message, *, everyone: bool) -> Recipients:
    """Whom an answer goes to: the sender, or the recipients of one's own message.

    With ``everyone`` also all others in to and cc. Who answers is left out unless nobody else remains.
    """
    me = call.person.email
    first = message.to if message.sender == me else [message.sender]
    to = [*first, *message.to] if everyone else first
    cc = message.cc if everyone else []
    others = recipients([a for a in to if a != me], [a for a in cc if a != me])
    return others if others.everyone else recipients(first)


def reply_subject(subject: str) -> str:
    """``Re: `` before the subject, once."""
    return _prefixed("Re: ", _RE, subject)


def forward_subject(subject: str) -> str:
    """``Fwd: `` before the subject, once."""
    return _prefixed("Fwd: ", _FWD, subject)


def one_line(subject: str) -> str:
    """A subject without line breaks and repeated spaces."""
    return " ".join(subject.split())


def send(call: Call, args: Send) -> JsonObject:
    """Send a new message."""
    people = recipients(*(resolve_all(call, field) for field in (args.to, args.cc, args.bcc)))
    return deliver(call, Outgoing(people, args.subject, args.body))


def reply(call: Call, args: Reply) -> JsonObject:
    """Answer a message."""
    message = find_message(call, args.message_id).message
    people = reply_recipients(call, message, everyone=args.reply_all)
    people = recipients(people.to, [*people.cc, *resolve_all(call, args.cc)])
    return deliver(call, Outgoing(people, reply_subject(message.subject), args.body, message.thread_id, message.id))


def forward(call: Call, args: Forward) -> JsonObject:
    """Forward a message."""
    seen = find_message(call, args.message_id)
    message = seen.message
    body = "\n\n".join(part for part in (args.comment.rstrip(), _quotation(call, seen)) if part)
    people = recipients(resolve_all(call, args.to))
    return deliver(
        call,
        Outgoing(people, forward_subject(message.subject), body, message.thread_id, attachments=message.attachments),
    )


def _prefixed(prefix: str, pattern: re.Pattern[str], subject: str) -> str:
    subject = one_line(subject)
    found = pattern.match(subject)
    return prefix + (subject if found is None else subject[found.end() :])


def _quotation(call: Call, seen: Seen) -> str:
    message = seen.message
    lines = [
        "---------- Forwarded message ----------",
        f"From: {shown(call, message.sender)}",
        f"Date: {call.local(message.sent_at)}",
        f"Subject: {message.subject}",
        f"To: {', '.join(shown_all(call, message.to))}",
    ]
    if message.cc:
        lines.append(f"Cc: {', '.join(shown_all(call, message.cc))}")
    return "\n".join(lines) + f"\n\n{message.body}"


# Mail that has left cannot be taken back, hence "destroy".
SENDING_TOOLS = (
    tool("mail_send", Send, send, effect="destroy", latency=2),
    tool("mail_reply", Reply, reply, effect="destroy", latency=2),
    tool("mail_forward", Forward, forward, effect="destroy", latency=2),
)
