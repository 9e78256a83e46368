"""Labels: what there is, and putting them on and off.

The system labels INBOX, SENT, UNREAD, STARRED, IMPORTANT and TRASH are always there. Any other name becomes a
label of the person's own when it is first put on a message. INBOX and TRASH exclude each other; a received
message with neither is archived.
"""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa
from pydantic import Field
from pydantic_core import from_json

from servers.errors import suggest
from servers.services.mail.records import (
    INBOX,
    SENT,
    SYSTEM_LABELS,
    TRASH,
    UNREAD,
    Copy,
    canonical_label,
    copy_id,
    mailbox_bounds,
    ordered_labels,
)
from servers.sql import Statement, param, table
from servers.tools import Arguments, Call, JsonObject, tool


class ListLabels(Arguments):
    """List your labels with their numbers of messages and unread ones; what is in TRASH counts only there."""


class ModifyLabels(Arguments):
    """Add and remove labels of one message.

    Remove UNREAD to mark it read, remove INBOX to archive it, add TRASH to delete it (takes it out of INBOX;
    adding INBOX takes it out of TRASH). A new label name is created.
    """

    message_id: str
    add: list[str] = Field(default=[], max_length=20, description="Labels to add")
    remove: list[str] = Field(default=[], max_length=20, description="Labels to remove")


def _label_sets() -> sa.Executable:
    copies = table(Copy).c
    return (
        sa.select(copies.labels, sa.func.count())
        .where(copies.id >= param("low"), copies.id < param("high"))
        .group_by(copies.labels)
    )


_LABEL_SETS = Statement(_label_sets)


def own_labels(call: Call) -> list[str]:
    """The caller's labels apart from the system ones, sorted."""
    return ordered_labels(label for labels, _ in _sets(call) for label in labels if label not in SYSTEM_LABELS)


def list_labels(call: Call, args: ListLabels) -> JsonObject:
    """Count messages by label."""
    messages, unread = Counter[str](), Counter[str]()
    own: set[str] = set()
    for labels, count in _sets(call):
        own.update(labels)
        for label in (TRASH,) if TRASH in labels else labels:
            messages[label] += count
            unread[label] += count if UNREAD in labels else 0
    return {
        "labels": [
            {"label": label, "messages": messages[label], "unread": unread[label]}
            for label in ordered_labels([*SYSTEM_LABELS, *own])
        ]
    }


def _sets(call: Call) -> list[tuple[list[str], int]]:
    """The sets of labels that occur in the caller's mailbox, and how often: far fewer than messages."""
    rows = call.world.rows(_LABEL_SETS, **mailbox_bounds(call.person.email))
    return [(from_json(labels), count) for labels, count in rows]


def modify_labels(call: Call, args: ModifyLabels) -> JsonObject:
    """Put labels on and off."""
    copy = call.world.get(Copy, copy_id(call.person.email, args.message_id))
    if copy is None:
        raise call.refuse(f"you have no message {args.message_id!r:.80}. mail_search gives the ids of messages.")
    known = own_labels(call) if {*args.add, *args.remove}.difference(SYSTEM_LABELS) else []
    adding = [_label(call, name, known) for name in args.add]
    removing = [_label(call, name, known) for name in args.remove]
    _refuse_impossible(call, adding, removing, known)
    dropped = {INBOX} if TRASH in adding else {TRASH} if INBOX in adding else set[str]()
    labels = ordered_labels(({*copy.labels} - {*removing} - dropped) | {*adding})
    call.world.update(copy, labels=labels)
    answer: JsonObject = {"message_id": copy.message_id, "labels": labels}
    created = [label for label in labels if label not in known and label not in SYSTEM_LABELS]
    if created:
        answer["created_labels"] = created
    return answer


def _label(call: Call, name: str, known: list[str]) -> str:
    try:
        label = canonical_label(name)
    except ValueError as error:
        raise call.refuse(str(error)) from None
    return next((other for other in known if other.lower() == label.lower()), label)


def _refuse_impossible(call: Call, adding: list[str], removing: list[str], known: list[str]) -> None:
    if not adding and not removing:
        raise call.refuse("nothing to do: name labels in add or remove")
    both = sorted({*adding} & {*removing})
    if both:
        raise call.refuse(f"{', '.join(both)} cannot be both added and removed")
    if SENT in adding or SENT in removing:
        raise call.refuse("SENT tells who sent the message and cannot be changed")
    if INBOX in adding and TRASH in adding:
        raise call.refuse("a message cannot be in INBOX and TRASH at once; add one of them")
    for label in removing:
        if label not in SYSTEM_LABELS and label not in known:
            raise call.refuse(f"you have no label {label!r}. {suggest(label, {*SYSTEM_LABELS, *known})}")


LABEL_TOOLS = (
    tool("mail_list_labels", ListLabels, list_labels),
    tool("mail_modify_labels", ModifyLabels, modify_labels, effect="write", idempotent=True),
)
