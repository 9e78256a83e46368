"""Labels: what there is, and putting them on and off.

The system labels INBOX, SENT, UNREAD, STARRED, IMPORTANT and TRASH are always there. Any other name becomes a
label of the person's own when it is first put on a message. INBOX and TRASH exclude each other; a received
message with neither is archived.
"""

from __future__ import annotations

import sqlalchemy as sa
from pydantic import Field

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


def _counts() -> sa.Executable:
    copies = table(Copy).c
    each = sa.func.json_each(copies.labels).table_valued("value")
    trashed = sa.func.instr(copies.labels, f'"{TRASH}"')
    unread = sa.func.instr(copies.labels, f'"{UNREAD}"') > 0
    return (
        sa.select(each.c.value, sa.func.count(), sa.func.sum(unread))
        .select_from(table(Copy), each)
        .where(copies.id >= param("low"), copies.id < param("high"))
        .where(sa.or_(trashed == 0, each.c.value == TRASH))
        .group_by(each.c.value)
    )


def _names() -> sa.Executable:
    copies = table(Copy).c
    each = sa.func.json_each(copies.labels).table_valued("value")
    return (
        sa.select(each.c.value)
        .select_from(table(Copy), each)
        .where(copies.id >= param("low"), copies.id < param("high"), each.c.value.not_in(SYSTEM_LABELS))
        .distinct()
        .order_by(each.c.value)
    )


_COUNTS = Statement(_counts)
_NAMES = Statement(_names)


def own_labels(call: Call) -> list[str]:
    """The caller's labels apart from the system ones, sorted."""
    return [name for (name,) in call.world.rows(_NAMES, **mailbox_bounds(call.person.email))]


def list_labels(call: Call, args: ListLabels) -> JsonObject:
    """Count messages by label."""
    rows = call.world.rows(_COUNTS, **mailbox_bounds(call.person.email))
    counts = {name: (messages, unread) for name, messages, unread in rows}
    return {
        "labels": [
            {"label": name, "messages": counts.get(name, (0, 0))[0], "unread": counts.get(name, (0, 0))[1]}
            for name in ordered_labels([*SYSTEM_LABELS, *counts])
        ]
    }


def modify_labels(call: Call, args: ModifyLabels) -> JsonObject:
    """Put labels on and off."""
    copy = call.world.get(Copy, copy_id(call.person.email, args.message_id))
    if copy is None:
        raise call.refuse(
            f"you have no message {args.message_id!r:.80}. mail_search gives the ids of messages."
        )
    known = own_labels(call)
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
