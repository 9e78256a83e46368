"""Record types of the mail service, and what may be a label.

Labels are kept in one canonical order (system labels as listed, then the person's own by name), so that equal
sets of labels are equal rows.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field, field_validator, model_validator

from servers.records import Index, Instant, Record, Ref

ADDRESS_PATTERN = r'^[^@\s<>,;:"()\\\x00-\x20\x7f]+@[^@\s<>,;:"()\\\x00-\x20\x7f]+\.[^@\s<>,;:"()\\\x00-\x20\x7f]+$'
MailAddress = Annotated[str, Field(pattern=ADDRESS_PATTERN, max_length=254)]

INBOX, SENT, UNREAD, STARRED, IMPORTANT, TRASH = "INBOX", "SENT", "UNREAD", "STARRED", "IMPORTANT", "TRASH"
SYSTEM_LABELS = (INBOX, SENT, UNREAD, STARRED, IMPORTANT, TRASH)
LABEL_RULE = "1 to 50 characters, no quotes, backslashes or control characters, no space at either end"
_LABEL = re.compile(r'(?!\s)[^"\\\x00-\x1f\x7f]{1,50}(?<!\s)')


def canonical_label(text: str) -> str:
    """The name under which a label is kept: system labels in capitals, others as written.

    Raises:
        ValueError: It cannot be a label.
    """
    if _LABEL.fullmatch(text) is None:
        raise ValueError(f"{text!r:.60} cannot be a label: {LABEL_RULE}")
    return text.upper() if text.upper() in SYSTEM_LABELS else text


def ordered_labels(labels: Iterable[str]) -> list[str]:
    """Labels without repetition, in canonical order."""
    given = set(labels)
    return [label for label in SYSTEM_LABELS if label in given] + sorted(given.difference(SYSTEM_LABELS))


class Message(Record):
    """A message as it was sent; the same for everyone who has a copy."""

    type_name: ClassVar[str] = "mail.message"

    id: str = Field(min_length=1)
    thread_id: Annotated[str, Index()] = ""
    """Left out: the thread of the message that it answers, or a new one with the message's own id."""
    sender: MailAddress
    to: list[MailAddress]
    cc: list[MailAddress] = Field(default_factory=list[str])
    bcc: list[MailAddress] = Field(default_factory=list[str])
    """Shown to the sender only."""
    subject: str
    sent_at: Instant
    in_reply_to: Annotated[str | None, Ref("mail.message")] = None
    attachments: list[Annotated[str, Ref("mail.attachment")]] = Field(default_factory=list[str])
    # Last, because SQLite walks through a long value to reach the columns behind it.
    body: str

    @property
    def recipients(self) -> list[str]:
        """Everyone whom it reaches, each once."""
        return list(dict.fromkeys([*self.to, *self.cc, *self.bcc]))


class Attachment(Record):
    """A file sent along: exactly one of ``text`` and ``base64``."""

    type_name: ClassVar[str] = "mail.attachment"

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    media_type: str = Field(pattern=r"^[^/\s]+/[^/\s]+$")
    text: str | None = None
    base64: str | None = None

    @model_validator(mode="after")
    def _one_content(self) -> Attachment:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("expected exactly one of text and base64")
        if self.base64 is not None:
            try:
                base64.b64decode(self.base64, validate=True)
            except binascii.Error:
                raise ValueError("base64 does not decode; expected standard base64 without line breaks") from None
        return self

    @property
    def size(self) -> int:
        """Bytes of the content."""
        if self.text is not None:
            return len(self.text.encode())
        data = self.base64 or ""
        return len(data) * 3 // 4 - data[-2:].count("=")


def copy_id(owner: str, message_id: str) -> str:
    """The key of a person's copy. An address holds no space, so no two copies share a key."""
    return f"{owner} {message_id}"


def mailbox_bounds(owner: str) -> dict[str, str]:
    """Parameters ``low`` and ``high`` between which the keys of all copies of ``owner`` lie.

    The primary key serves as the index of mailboxes; one of its own would be copied into every world for
    nothing.
    """
    return {"low": f"{owner} ", "high": f"{owner}!"}


class Copy(Record):
    """One person's own view of a message. Left out by an author, it is derived: INBOX and UNREAD, or SENT."""

    type_name: ClassVar[str] = "mail.copy"

    id: str = ""
    """Always ``owner``, a space, ``message_id``; may be left out."""
    owner: MailAddress
    message_id: Annotated[str, Ref("mail.message")]
    labels: list[str] = Field(default_factory=list[str])
    """None of INBOX, SENT and TRASH: archived."""

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        values = cast("Mapping[str, Any]", data)
        return {
            **values,
            "id": values.get("id") or copy_id(values.get("owner", ""), values.get("message_id", "")),
        }

    @model_validator(mode="after")
    def _derived_id(self) -> Copy:
        if self.id != copy_id(self.owner, self.message_id):
            raise ValueError(
                f"id follows from owner and message_id; leave it out or write {self.owner} {self.message_id}"
            )
        return self

    @field_validator("labels")
    @classmethod
    def _canonical(cls, labels: list[str]) -> list[str]:
        return ordered_labels(canonical_label(label) for label in labels)


class Draft(Record):
    """A message that is not sent yet; nobody but its owner sees it."""

    type_name: ClassVar[str] = "mail.draft"

    id: str = Field(min_length=1)
    owner: MailAddress
    to: list[MailAddress] = Field(default_factory=list[str])
    cc: list[MailAddress] = Field(default_factory=list[str])
    bcc: list[MailAddress] = Field(default_factory=list[str])
    subject: str = ""
    body: str = ""
    reply_to: Annotated[str | None, Ref("mail.message")] = None
    """The message that it answers."""
    thread_id: str = ""
    """Left out: the thread of the message that it answers, if any."""
    updated_at: Instant
    attachments: list[Annotated[str, Ref("mail.attachment")]] = Field(default_factory=list[str])
