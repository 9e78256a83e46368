"""Drafts: messages that are not sent yet, seen by nobody but their owner."""

from __future__ import annotations

import sqlalchemy as sa
from pydantic import Field

from servers.paging import page
from servers.services.mail.addresses import recipients, resolve_all, shown_all
from servers.services.mail.reading import find_attachment, find_message, list_attachments
from servers.services.mail.records import Draft
from servers.services.mail.sending import (
    LONGEST_BODY,
    LONGEST_SUBJECT,
    MOST_RECIPIENTS,
    Outgoing,
    deliver,
    one_line,
    reply_recipients,
    reply_subject,
)
from servers.sql import Query, param
from servers.tools import Arguments, Call, JsonObject, tool

MOST_ATTACHMENTS = 20


class CreateDraft(Arguments):
    """Write a draft without sending it.

    With reply_to_message_id it is an answer in that thread; recipient and subject then follow from the
    message unless given.
    """

    to: list[str] = Field(
        default=[],
        max_length=MOST_RECIPIENTS,
        description="Mail addresses, 'Name <address>' or coworkers' names",
    )
    subject: str = Field(default="", max_length=LONGEST_SUBJECT)
    body: str = Field(default="", max_length=LONGEST_BODY, description="Plain text")
    cc: list[str] = Field(default=[], max_length=MOST_RECIPIENTS)
    bcc: list[str] = Field(default=[], max_length=MOST_RECIPIENTS)
    reply_to_message_id: str | None = Field(default=None, description="The message that it answers")
    attachment_ids: list[str] = Field(
        default=[], max_length=MOST_ATTACHMENTS, description="Attachments of messages that you have"
    )


class UpdateDraft(Arguments):
    """Change a draft; what is not given stays as it is."""

    draft_id: str
    to: list[str] | None = Field(default=None, max_length=MOST_RECIPIENTS)
    subject: str | None = Field(default=None, max_length=LONGEST_SUBJECT)
    body: str | None = Field(default=None, max_length=LONGEST_BODY)
    cc: list[str] | None = Field(default=None, max_length=MOST_RECIPIENTS)
    bcc: list[str] | None = Field(default=None, max_length=MOST_RECIPIENTS)
    attachment_ids: list[str] | None = Field(default=None, max_length=MOST_ATTACHMENTS)


class ListDrafts(Arguments):
    """List your drafts in full, last changed first."""

    page_size: int = Field(default=10, ge=1, le=25, description="Drafts per page, at most 25")
    cursor: str | None = Field(default=None, description="next_cursor of the previous page")


class DeleteDraft(Arguments):
    """Delete a draft for good."""

    draft_id: str


class SendDraft(Arguments):
    """Send a draft now; it is then no draft any more."""

    draft_id: str


_OWN = Query(
    Draft,
    lambda d: (
        sa.select(d)
        .where(d.c.owner == param("owner"))
        .order_by(d.c.updated_at.desc(), sa.literal_column("rowid", sa.Integer).desc())
    ),
)


def create_draft(call: Call, args: CreateDraft) -> JsonObject:
    """Write a draft."""
    wanted = args.reply_to_message_id
    answered = None if wanted is None else find_message(call, wanted).message
    to, subject = resolve_all(call, args.to), args.subject
    if answered is not None:
        to = to or reply_recipients(call, answered, everyone=False).to
        subject = subject or reply_subject(answered.subject)
    people = recipients(to, resolve_all(call, args.cc), resolve_all(call, args.bcc))
    draft = Draft(
        id=call.new_id("mail.draft"),
        owner=call.person.email,
        to=people.to,
        cc=people.cc,
        bcc=people.bcc,
        subject=one_line(subject),
        body=args.body,
        reply_to=None if answered is None else answered.id,
        thread_id="" if answered is None else answered.thread_id,
        updated_at=call.now,
        attachments=_attachments(call, args.attachment_ids),
    )
    call.world.insert(draft)
    return _receipt(draft)


def update_draft(call: Call, args: UpdateDraft) -> JsonObject:
    """Change a draft."""
    draft = _find(call, args.draft_id)
    if args.model_fields_set <= {"draft_id"}:
        raise call.refuse("nothing to change: give a field of the draft")
    attached = args.attachment_ids
    people = recipients(
        draft.to if args.to is None else resolve_all(call, args.to),
        draft.cc if args.cc is None else resolve_all(call, args.cc),
        draft.bcc if args.bcc is None else resolve_all(call, args.bcc),
    )
    changed = call.world.update(
        draft,
        to=people.to,
        cc=people.cc,
        bcc=people.bcc,
        subject=draft.subject if args.subject is None else one_line(args.subject),
        body=draft.body if args.body is None else args.body,
        attachments=draft.attachments if attached is None else _attachments(call, attached),
        updated_at=call.now,
    )
    return _receipt(changed)


def list_drafts(call: Call, args: ListDrafts) -> JsonObject:
    """Show the caller's drafts."""
    found = call.world.select(_OWN, owner=call.person.email)
    part = page(call, "", found, key=lambda draft: draft.id, size=args.page_size, cursor=args.cursor)
    return {
        "drafts": [_shown(call, draft) for draft in part.items],
        "total": part.total,
        "next_cursor": part.next_cursor,
    }


def delete_draft(call: Call, args: DeleteDraft) -> JsonObject:
    """Delete a draft."""
    draft = _find(call, args.draft_id)
    call.world.delete(draft)
    return {"draft_id": draft.id, "deleted": True}


def send_draft(call: Call, args: SendDraft) -> JsonObject:
    """Send a draft."""
    draft = _find(call, args.draft_id)
    if not draft.body:
        raise call.refuse("the draft has no body; write one with mail_update_draft")
    people = recipients(draft.to, draft.cc, draft.bcc)
    sent = deliver(
        call, Outgoing(people, draft.subject, draft.body, draft.thread_id, draft.reply_to, draft.attachments)
    )
    call.world.delete(draft)
    return sent


def _find(call: Call, draft_id: str) -> Draft:
    draft = call.world.get(Draft, draft_id)
    if draft is None or draft.owner != call.person.email:
        raise call.refuse(f"you have no draft {draft_id!r:.80}. mail_list_drafts shows your drafts.")
    return draft


def _attachments(call: Call, ids: list[str]) -> list[str]:
    return [find_attachment(call, attachment_id).id for attachment_id in dict.fromkeys(ids)]


def _receipt(draft: Draft) -> JsonObject:
    copies = {"cc": draft.cc, "bcc": draft.bcc}
    receipt: JsonObject = {"draft_id": draft.id, "to": draft.to, **{k: v for k, v in copies.items() if v}}
    if draft.thread_id:
        receipt["thread_id"] = draft.thread_id
    return {**receipt, "subject": draft.subject}


def _shown(call: Call, draft: Draft) -> JsonObject:
    copies = {"cc": draft.cc, "bcc": draft.bcc}
    shown: JsonObject = {"draft_id": draft.id, "to": shown_all(call, draft.to)}
    shown |= {name: shown_all(call, listed) for name, listed in copies.items() if listed}
    shown |= {"subject": draft.subject, "body": draft.body, "updated": call.local(draft.updated_at)}
    if draft.reply_to is not None:
        shown |= {"reply_to_message_id": draft.reply_to, "thread_id": draft.thread_id}
    if draft.attachments:
        shown["attachments"] = list_attachments(call, draft.attachments)
    return shown


DRAFT_TOOLS = (
    tool("mail_create_draft", CreateDraft, create_draft, effect="write"),
    tool("mail_update_draft", UpdateDraft, update_draft, effect="write", idempotent=True),
    tool("mail_list_drafts", ListDrafts, list_drafts),
    tool("mail_delete_draft", DeleteDraft, delete_draft, effect="destroy"),
    tool("mail_send_draft", SendDraft, send_draft, effect="destroy", latency=2),
)
