"""The mail service through the real MCP client: sending, answering, reading, labels, drafts, rights."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.desk import Desk
from servers.errors import SpecError
from servers.image import Image
from servers.journal import Actor
from servers.services.directory import DIRECTORY
from servers.services.mail import MAIL
from servers.services.mail.sending import forward_subject, reply_subject
from servers.world import World
from tests.support import DANA, DANA_K, KLARA, NORA, OMAR, PRIYA, act, desk, office, over_mcp

pytestmark = pytest.mark.anyio

RECORDS: dict[str, list[dict[str, Any]]] = {
    "mail.attachment": [
        {"id": "a-report", "name": "report.csv", "media_type": "text/csv", "text": "x" * 45_000},
        {"id": "a-logo", "name": "logo.png", "media_type": "image/png", "base64": "cG5nIQ=="},
        {"id": "a-huge", "name": "film.mp4", "media_type": "video/mp4", "base64": "A" * 400_000},
        {"id": "a-private", "name": "salaries.txt", "media_type": "text/plain", "text": "secret"},
    ],
    "mail.message": [
        {"id": "m1", "sender": KLARA, "to": [NORA, OMAR], "cc": [PRIYA], "bcc": [DANA],
         "subject": "Order 4711", "body": "Where is it?", "sent_at": "2026-02-26T10:00:00+01:00",
         "attachments": ["a-report", "a-logo", "a-huge"]},
        {"id": "m2", "sender": OMAR, "to": [KLARA], "cc": [NORA], "subject": "Re: Order 4711",
         "body": "On its way.", "sent_at": "2026-02-27T10:00:00+01:00", "in_reply_to": "m1"},
        {"id": "m3", "sender": PRIYA, "to": [DANA_K], "subject": "Salaries", "body": "Between us.",
         "sent_at": "2026-02-27T11:00:00+01:00", "attachments": ["a-private"]},
        {"id": "m4", "sender": PRIYA, "to": [NORA], "subject": "Lunch", "body": "z" * 5000,
         "sent_at": "2026-02-28T11:00:00+01:00"},
    ],
    "mail.copy": [{"owner": NORA, "message_id": "m4", "labels": ["Team", "inbox"]}],
    "mail.draft": [
        {"id": "d-omar", "owner": OMAR, "to": [KLARA], "subject": "Refund", "body": "Not yet",
         "updated_at": "2026-02-28T11:00:00+01:00"},
    ],
}  # fmt: skip


def mail_office(records: dict[str, list[dict[str, Any]]] | None = None) -> Image:
    return office([DIRECTORY, MAIL], RECORDS if records is None else records)


@cache
def cached_office() -> Image:
    return mail_office()


def mail_desk() -> Desk:
    return desk(mail_office())


def refusal(world: World, person: str, tool: str, **arguments: Any) -> str:
    result = world.call(tool, arguments, Actor("coworker", person))
    assert not result.ok, result.text
    return result.text


def inbox(world: World, person: str, query: str = "") -> list[dict[str, Any]]:
    return act(world, person, "mail_search", query=query, page_size=50)["messages"]


# ---------------------------------------------------------------------- sending


async def test_a_sent_message_arrives_unread_with_coworkers_and_stands_in_the_senders_sent_mail() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        sent = await agent.ok(
            "mail_send",
            to=["Omar", f"Klara <{KLARA}>"],
            cc=["priya raman"],
            subject=" Site\n visit ",
            body="Tuesday?",
        )
        mine = await agent.ok("mail_search", query="subject:visit")
    assert sent["to"] == [OMAR, KLARA]
    assert sent["cc"] == [PRIYA]
    assert sent["subject"] == "Site visit"
    assert sent["thread_id"] == sent["message_id"]
    assert mine["messages"][0]["labels"] == ["SENT"]
    for person in (OMAR, PRIYA):
        (got,) = inbox(where.world, person, "subject:visit")
        assert got["message_id"] == sent["message_id"]
        assert got["labels"] == ["INBOX", "UNREAD"]
        assert got["from"] == f"Nora Lind <{NORA}>"
    assert inbox(where.world, KLARA) == []
    assert {change.type for change in where.world.changes()} == {"mail.message", "mail.copy"}
    assert len(where.world.changes()) == 4


async def test_blind_copies_are_seen_by_the_sender_and_by_nobody_else() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        sent = await agent.ok(
            "mail_send",
            to=["omar"],
            subject="Offer",
            body="See below",
            bcc=["dana.fox@northwind.example", PRIYA],
        )
        mine = await agent.ok("mail_get_message", message_id=sent["message_id"])
    assert mine["bcc"] == [f"Dana Fox <{DANA}>", f"Priya Raman <{PRIYA}>"]
    omar = act(where.world, OMAR, "mail_get_message", message_id=sent["message_id"])
    dana = act(where.world, DANA, "mail_get_message", message_id=sent["message_id"])
    assert "bcc" not in omar
    assert dana["bcc"] == [f"Dana Fox <{DANA}>"]
    assert inbox(where.world, OMAR, "dana fox subject:offer") == []
    answer = act(where.world, DANA, "mail_reply", message_id=sent["message_id"], body="ok", reply_all=True)
    assert PRIYA not in [*answer["to"], *answer.get("cc", [])]
    forwarded = act(where.world, OMAR, "mail_forward", message_id=sent["message_id"], to=[PRIYA])
    assert "Dana" not in act(where.world, PRIYA, "mail_get_message", message_id=forwarded["message_id"])["body"]


@pytest.mark.parametrize(
    ("recipient", "words"),
    [
        ("Dana", DANA_K),
        ("Nobody", "nobody called"),
        ("nora.lint@northwind.example", NORA),
        ("someone@nowhere", "'someone@nowhere' is not a recipient"),
        ("a@b.example, c@d.example", "one recipient per item"),
        ("Omar <omar>", "is not a recipient"),
        ("", "nobody called ''"),
    ],
)
async def test_a_recipient_that_cannot_be_meant_is_refused_with_what_would_be_valid(recipient: str, words: str) -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        assert words in await agent.refused("mail_send", to=[recipient], subject="Hi", body="Hello")
    assert where.world.changes() == []


async def test_addresses_are_kept_as_the_cast_has_them_or_in_small_letters() -> None:
    async with over_mcp(mail_desk()) as agent:
        sent = await agent.ok(
            "mail_send",
            to=["New.Buyer@Alpenrad.Example", OMAR.upper()],
            cc=[OMAR],
            subject="Hi",
            body="Hello",
        )
    assert sent["to"] == ["new.buyer@alpenrad.example", OMAR]
    assert "cc" not in sent


async def test_a_message_to_oneself_is_both_sent_and_received() -> None:
    async with over_mcp(mail_desk()) as agent:
        await agent.ok("mail_send", to=["nora"], subject="Note", body="Remember")
        found = await agent.ok("mail_search", query="from:me to:me")
    assert found["messages"][0]["labels"] == ["INBOX", "SENT", "UNREAD"]


async def test_a_message_without_recipient_is_refused() -> None:
    async with over_mcp(mail_desk()) as agent:
        assert "no recipient" in await agent.refused("mail_send", to=[], subject="Hi", body="Hello")


# ---------------------------------------------------------------------- answering


async def test_a_reply_goes_to_the_sender_and_a_reply_to_all_to_everyone_but_oneself_and_blind_copies() -> None:
    async with over_mcp(mail_desk()) as agent:
        one = await agent.ok("mail_reply", message_id="m1", body="Soon")
        everyone = await agent.ok("mail_reply", message_id="m1", body="Soon", reply_all=True, cc=["dana kim", OMAR])
        own = await agent.ok("mail_reply", message_id=one["message_id"], body="Really")
        thread = await agent.ok("mail_get_thread", thread_id="m1")
    assert one["to"] == [KLARA]
    assert "cc" not in one
    assert everyone["to"] == [KLARA, OMAR]
    assert everyone["cc"] == [PRIYA, DANA_K]
    assert own["to"] == [KLARA]
    assert {one["subject"], everyone["subject"], own["subject"]} == {"Re: Order 4711"}
    ids = ["m1", "m2", one["message_id"], everyone["message_id"], own["message_id"]]
    assert [message["message_id"] for message in thread["messages"]] == ids
    assert thread["messages"][-1]["in_reply_to"] == one["message_id"]
    assert thread["messages"][-1]["body"] == "Really"


async def test_a_forward_carries_text_and_attachments_to_people_who_had_neither() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        sent = await agent.ok("mail_forward", message_id="m1", to=["dana kim"], comment="Can you check?")
    assert sent["subject"] == "Fwd: Order 4711"
    got = act(where.world, DANA_K, "mail_get_message", message_id=sent["message_id"])
    assert got["body"].startswith("Can you check?\n\n---------- Forwarded message")
    assert f"From: Klara Voss <{KLARA}>" in got["body"]
    assert got["body"].endswith("Where is it?")
    assert "in_reply_to" not in got
    assert [item["name"] for item in got["attachments"]] == ["report.csv", "logo.png", "film.mp4"]
    logo = act(where.world, DANA_K, "mail_get_attachment", attachment_id="a-logo")
    assert base64.b64decode(logo["base64"]) == b"png!"
    thread = act(where.world, DANA_K, "mail_get_thread", thread_id=sent["thread_id"])
    assert len(thread["messages"]) == 1


async def test_people_outside_can_answer_what_they_were_sent_but_have_no_mailbox() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        sent = await agent.ok("mail_send", to=[KLARA], subject="Delivery", body="Friday?")
        answer = act(where.world, KLARA, "mail_reply", message_id=sent["message_id"], body="Friday is fine")
        found = await agent.ok("mail_search", query="from:klara in:inbox friday")
    assert found["messages"][0]["message_id"] == answer["message_id"]
    assert found["messages"][0]["thread_id"] == sent["thread_id"]
    assert inbox(where.world, KLARA) == []
    assert "you have no message" in refusal(where.world, KLARA, "mail_reply", message_id="m4", body="Hm")


@given(st.lists(st.sampled_from(["Re: ", "RE:", "re : ", "Fwd: ", "FW: ", "Offer ", " a:b "]), max_size=6).map("".join))
def test_prefixes_of_subjects_stand_once(subject: str) -> None:
    for prefixed, prefix in ((reply_subject, "Re: "), (forward_subject, "Fwd: ")):
        once = prefixed(subject)
        assert once.startswith(prefix)
        assert not once.removeprefix(prefix).lower().startswith(prefix.lower())
        assert prefixed(once) == once


# ---------------------------------------------------------------------- reading


async def test_reading_leaves_a_message_unread_and_long_bodies_are_cut_in_threads_only() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        message = await agent.ok("mail_get_message", message_id="m1")
        thread = await agent.ok("mail_get_thread", thread_id="m4")
        full = await agent.ok("mail_get_message", message_id="m4")
    assert message["labels"] == ["INBOX", "UNREAD"]
    assert message["date"] == "2026-02-26T10:00:00+01:00"
    assert where.world.changes() == []
    assert "[cut: 1000 more characters" in thread["messages"][0]["body"]
    assert full["body"] == "z" * 5000


async def test_a_long_text_is_read_in_parts_that_join_up() -> None:
    text, offset = "", 0
    async with over_mcp(mail_desk()) as agent:
        while True:
            part = await agent.ok("mail_get_attachment", attachment_id="a-report", offset=offset)
            text += part["text"].split("\n[cut: ")[0]
            if "next_offset" not in part:
                break
            offset = part["next_offset"]
        huge = await agent.refused("mail_get_attachment", attachment_id="a-huge")
    assert text == "x" * 45_000
    assert "300000 bytes" in huge


async def test_what_others_have_does_not_exist_for_the_agent() -> None:
    other = {
        "mail_get_message": ("message_id", "m3"),
        "mail_get_thread": ("thread_id", "m3"),
        "mail_get_attachment": ("attachment_id", "a-private"),
        "mail_delete_draft": ("draft_id", "d-omar"),
        "mail_send_draft": ("draft_id", "d-omar"),
        "mail_update_draft": ("draft_id", "d-omar"),
    }
    async with over_mcp(mail_desk()) as agent:
        for tool, (argument, key) in other.items():
            words = await agent.refused(tool, **{argument: key})
            unknown = await agent.refused(tool, **{argument: "no-such"})
            assert words.replace(key, "no-such") == unknown
        drafts = await agent.ok("mail_list_drafts")
        salaries = await agent.ok("mail_search", query="salaries in:anywhere")
        attached = await agent.refused("mail_create_draft", attachment_ids=["a-private"])
        answered = await agent.refused("mail_create_draft", reply_to_message_id="m3")
    assert drafts["drafts"] == []
    assert salaries["total"] == 0
    assert "you have no attachment" in attached
    assert "you have no message" in answered


# ---------------------------------------------------------------------- labels


async def test_labels_mark_read_archive_trash_and_bring_back() -> None:
    async with over_mcp(mail_desk()) as agent:
        read = await agent.ok("mail_modify_labels", message_id="m1", remove=["unread"])
        archived = await agent.ok("mail_modify_labels", message_id="m1", add=["Waiting"], remove=["INBOX"])
        trashed = await agent.ok("mail_modify_labels", message_id="m4", add=["TRASH"])
        hidden = await agent.ok("mail_search", query="lunch")
        found = await agent.ok("mail_search", query="lunch in:trash")
        labels = await agent.ok("mail_list_labels")
        back = await agent.ok("mail_modify_labels", message_id="m4", add=["inbox", "team"])
    assert read["labels"] == ["INBOX"]
    assert archived["labels"] == ["Waiting"]
    assert archived["created_labels"] == ["Waiting"]
    assert trashed["labels"] == ["TRASH", "Team"]
    assert hidden["total"] == 0
    assert found["total"] == 1
    assert back["labels"] == ["INBOX", "Team"]
    assert labels["labels"] == [
        {"label": "INBOX", "messages": 1, "unread": 1},
        {"label": "SENT", "messages": 0, "unread": 0},
        {"label": "UNREAD", "messages": 1, "unread": 1},
        {"label": "STARRED", "messages": 0, "unread": 0},
        {"label": "IMPORTANT", "messages": 0, "unread": 0},
        {"label": "TRASH", "messages": 1, "unread": 0},
        {"label": "Team", "messages": 0, "unread": 0},
        {"label": "Waiting", "messages": 1, "unread": 0},
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "nothing to do"),
        ({"add": ["STARRED"], "remove": ["starred"]}, "both added and removed"),
        ({"remove": ["SENT"]}, "cannot be changed"),
        ({"add": ["INBOX", "TRASH"]}, "at once"),
        ({"remove": ["Taem"]}, "Did you mean Team"),
        ({"add": ['say "hi"']}, "cannot be a label"),
    ],
)
async def test_impossible_label_changes_are_refused(change: dict[str, list[str]], words: str) -> None:
    async with over_mcp(mail_desk()) as agent:
        assert words in await agent.refused("mail_modify_labels", message_id="m4", **change)


async def test_labels_are_each_persons_own() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        await agent.ok("mail_modify_labels", message_id="m1", add=["STARRED", "Mine"], remove=["UNREAD"])
    assert act(where.world, OMAR, "mail_get_message", message_id="m1")["labels"] == ["INBOX", "UNREAD"]
    assert "you have no label 'mine'" in refusal(where.world, OMAR, "mail_search", query="label:mine")


# ---------------------------------------------------------------------- drafts


async def test_a_draft_is_written_changed_listed_and_sent_once() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        draft = await agent.ok("mail_create_draft", reply_to_message_id="m1", body="Soon", attachment_ids=["a-logo"])
        assert draft["to"] == [KLARA]
        assert draft["subject"] == "Re: Order 4711"
        await agent.ok("mail_update_draft", draft_id=draft["draft_id"], body="Tomorrow", cc=["omar"])
        listed = await agent.ok("mail_list_drafts")
        sent = await agent.ok("mail_send_draft", draft_id=draft["draft_id"])
        again = await agent.refused("mail_send_draft", draft_id=draft["draft_id"])
        empty = await agent.ok("mail_list_drafts")
    assert listed["drafts"][0]["body"] == "Tomorrow"
    assert listed["drafts"][0]["cc"] == [f"Omar Haddad <{OMAR}>"]
    assert listed["drafts"][0]["attachments"][0]["name"] == "logo.png"
    assert sent["thread_id"] == "m1"
    assert "you have no draft" in again
    assert empty["total"] == 0
    got = act(where.world, OMAR, "mail_get_message", message_id=sent["message_id"])
    assert got["in_reply_to"] == "m1"
    assert got["body"] == "Tomorrow"


async def test_an_unsent_draft_reaches_nobody_and_a_deleted_one_leaves_no_trace() -> None:
    where = mail_desk()
    async with over_mcp(where) as agent:
        draft = await agent.ok("mail_create_draft", to=["omar"], subject="Half", body="done")
        assert inbox(where.world, OMAR, "half") == []
        await agent.ok("mail_delete_draft", draft_id=draft["draft_id"])
    assert where.world.changes() == []


async def test_an_unfinished_draft_is_not_sent() -> None:
    async with over_mcp(mail_desk()) as agent:
        draft = await agent.ok("mail_create_draft", subject="Empty")
        assert "no body" in await agent.refused("mail_send_draft", draft_id=draft["draft_id"])
        await agent.ok("mail_update_draft", draft_id=draft["draft_id"], body="text")
        assert "no recipient" in await agent.refused("mail_send_draft", draft_id=draft["draft_id"])
        assert "nothing to change" in await agent.refused("mail_update_draft", draft_id=draft["draft_id"])


# ---------------------------------------------------------------------- records


def test_copies_and_threads_follow_from_messages() -> None:
    world = World.open(mail_office())
    assert inbox(world, OMAR, "in:sent")[0]["thread_id"] == "m1"
    assert [message["message_id"] for message in inbox(world, DANA)] == ["m1"]
    assert [message["labels"] for message in inbox(world, NORA)] == [
        ["INBOX", "Team"],
        ["INBOX", "UNREAD"],
        ["INBOX", "UNREAD"],
    ]


def broken(kind: str, record: dict[str, Any]) -> str:
    records = {**RECORDS, kind: [record, *RECORDS[kind]]}
    with pytest.raises(SpecError) as caught:
        mail_office(records)
    return str(caught.value)


def test_impossible_records_are_found_with_their_place() -> None:
    message = {
        "id": "x",
        "sender": OMAR,
        "to": [NORA],
        "subject": "S",
        "body": "B",
        "sent_at": "2026-02-26T09:00:00Z",
    }
    copy = {"owner": NORA, "message_id": "m3"}
    draft = {"id": "x", "owner": NORA, "updated_at": "2026-02-26T09:00:00Z"}
    where = "records.mail.message[0]"
    assert f"{where}.sent_at: lies after the start" in broken(
        "mail.message", message | {"sent_at": "2026-03-03T09:00:00Z"}
    )
    assert f"{where}.sent_at: not later than 'm4'" in broken("mail.message", message | {"in_reply_to": "m4"})
    assert f"{where}.thread_id" in broken(
        "mail.message", message | {"in_reply_to": "m1", "thread_id": "x", "sent_at": "2026-02-27T09:00:00Z"}
    )
    assert f"{where}.to: the message has no recipient" in broken("mail.message", message | {"to": []})
    assert f"Write {OMAR}" in broken("mail.message", message | {"sender": OMAR.title()})
    assert f"{where}.to[0]" in broken("mail.message", message | {"to": [NORA.upper()]})
    assert "neither sent nor got" in broken("mail.copy", copy)
    assert "has no mailbox" in broken("mail.copy", copy | {"owner": KLARA, "message_id": "m1"})
    assert "leave it out" in broken("mail.copy", copy | {"id": "c1"})
    assert "cannot be a label" in broken("mail.copy", copy | {"labels": [" "]})
    assert "cannot answer it" in broken("mail.draft", draft | {"reply_to": "m3"})
    assert "nobody in the cast" in broken("mail.draft", draft | {"owner": "gone@northwind.example"})
    assert "exactly one of text and base64" in broken("mail.attachment", {"id": "x", "name": "n", "media_type": "a/b"})
    assert "does not decode" in broken("mail.attachment", {"id": "x", "name": "n", "media_type": "a/b", "base64": "?"})


# ---------------------------------------------------------------------- properties

IDS = st.sampled_from(["m1", "m2", "m3", "m4", "a-logo", "a-private", "d-omar", "nope", ""])
PEOPLE = st.lists(
    st.sampled_from([NORA, OMAR, KLARA, "Dana Fox", "priya", "x@y.example", "İ" * 120 + "@y.example", "x@@y"])
    | st.text(max_size=12),
    max_size=4,
)
TEXT = st.text(max_size=30)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "message_id": IDS, "thread_id": IDS, "attachment_id": IDS, "draft_id": IDS, "reply_to_message_id": IDS,
    "to": PEOPLE, "cc": PEOPLE, "bcc": PEOPLE, "subject": TEXT, "body": TEXT, "comment": TEXT, "query": TEXT,
    "add": st.lists(st.sampled_from(["INBOX", "TRASH", "team", "ÄÖ"]) | TEXT, max_size=3),
    "remove": st.lists(st.sampled_from(["INBOX", "UNREAD", "TEAM"]) | TEXT, max_size=3),
    "attachment_ids": st.lists(IDS, max_size=3), "offset": st.integers(0, 10**9), "reply_all": st.booleans(),
    "page_size": st.integers(1, 25), "cursor": st.text(max_size=20),
}  # fmt: skip


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    tool = draw(st.sampled_from(MAIL.tools))
    schema = tool.input_schema
    names = [name for name in schema["properties"] if name in schema.get("required", ()) or draw(st.booleans())]
    person = draw(st.sampled_from([NORA, OMAR, KLARA, DANA_K]))
    return person, tool.name, {name: draw(VALUES[name]) for name in names}


@settings(max_examples=120, deadline=None)
@given(st.lists(calls(), max_size=8))
def test_whatever_is_asked_tools_answer_or_refuse_and_copies_stay_true(
    steps: list[tuple[str, str, dict[str, Any]]],
) -> None:
    image = cached_office()
    world = World.open(image)
    for person, tool, arguments in steps:
        world.call(tool, arguments, Actor("coworker", person))
    messages = {record["id"]: record for record in world.dump("mail.message")}
    copies = {(record["owner"], record["message_id"]): record["labels"] for record in world.dump("mail.copy")}
    expected = {
        (person.email, record["id"])
        for record in messages.values()
        for person in world.people.values()
        if not person.external and person.email in (record["sender"], *record["to"], *record["cc"], *record["bcc"])
    }
    assert set(copies) == expected
    for (owner, message_id), labels in copies.items():
        assert ("SENT" in labels) == (messages[message_id]["sender"] == owner) or message_id == "m4"
        assert not {"INBOX", "TRASH"} <= set(labels)
    twin = World.open(image)
    for person, tool, arguments in steps:
        twin.call(tool, arguments, Actor("coworker", person))
    assert twin.freeze() == world.freeze()
    world.close()
    twin.close()
