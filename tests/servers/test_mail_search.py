"""Searching mail: the language, its meaning checked against a plain Python reading of it, order and pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.image import Image
from servers.journal import Actor
from servers.services.mail import MAIL
from servers.services.mail.query import Every, Negated, Node, QueryError, Some, Term, parse
from servers.world import World
from tests.support import DANA, DANA_K, KLARA, NORA, OMAR, PRIYA, act, desk, office, over_mcp

pytestmark = pytest.mark.anyio

WORDS = ["offer", "march", "Übung", "100%", "under_score", "re: order"]
SENDERS = [NORA, OMAR, PRIYA, KLARA]
LABELS: list[list[str]] = [
    ["INBOX", "UNREAD"],
    ["INBOX"],
    [],
    ["TRASH"],
    ["STARRED", "Team Work"],
    ["INBOX", "UNREAD", "IMPORTANT"],
]


def many(count: int) -> Image:
    """Mail of Nora's that differs in every way that the language knows."""
    messages: list[dict[str, Any]] = []
    copies: list[dict[str, Any]] = []
    for i in range(count):
        sender = SENDERS[i % 4]
        messages.append(
            {
                "id": f"m{i:03}",
                "sender": sender,
                "to": [OMAR if sender == NORA else NORA],
                "cc": [DANA] if i % 5 == 0 else [],
                "subject": f"{WORDS[i % 6]} {i}",
                "body": f"About {WORDS[(i + 2) % 6].upper()} and {WORDS[(i // 6) % 6]}.",
                "sent_at": f"2026-02-{1 + i % 28:02}T{i % 3 + 8:02}:00:00+01:00",
                "attachments": ["a1"] if i % 7 == 0 else ["a2"] if i % 7 == 3 else [],
            }
        )
        if sender != NORA:
            copies.append({"owner": NORA, "message_id": f"m{i:03}", "labels": LABELS[(i // 2) % 6]})
    attachments = [
        {"id": "a1", "name": "Contract.PDF", "media_type": "application/pdf", "base64": "AAAA"},
        {"id": "a2", "name": "notes.txt", "media_type": "text/plain", "text": "offer"},
    ]
    return office([MAIL], {"mail.message": messages, "mail.copy": copies, "mail.attachment": attachments})


@cache
def image() -> Image:
    return many(90)


@cache
def world() -> World:
    return World.open(image())


def ids(query: str) -> list[str]:
    """All results of a query over its pages, through the door."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        arguments = {"query": query, "page_size": 25} | ({} if cursor is None else {"cursor": cursor})
        result = act(world(), NORA, "mail_search", **arguments)
        found += [message["message_id"] for message in result["messages"]]
        cursor = result["next_cursor"]
        if cursor is None:
            assert result["total"] == len(found)
            return found


@cache
def everything() -> dict[str, dict[str, Any]]:
    """All messages in the order of the mailbox, in full."""
    return {key: act(world(), NORA, "mail_get_message", message_id=key) for key in ids("in:anywhere")}


ORACLE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "from:omar": lambda m: OMAR in m["from"],
    'from:"priya raman"': lambda m: PRIYA in m["from"],
    "from:me": lambda m: NORA in m["from"],
    "from:klara.voss@alpenrad.example": lambda m: KLARA in m["from"],
    "to:me": lambda m: NORA in m["to"][0],
    "to:omar": lambda m: OMAR in m["to"][0],
    "cc:dana": lambda m: "cc" in m,
    'cc:"Dana Fox"': lambda m: "cc" in m,
    "subject:offer": lambda m: "offer" in m["subject"],
    "subject:100%": lambda m: "100%" in m["subject"],
    "subject:r_s": lambda m: "r_s" in m["subject"],
    "ÜBUNG": lambda m: "übung" in (m["subject"] + m["body"]).lower(),
    "übung": lambda m: "übung" in (m["subject"] + m["body"]).lower(),
    '"re: order"': lambda m: "re: order" in (m["subject"] + m["body"]).lower(),
    "march": lambda m: "march" in (m["subject"] + m["body"]).lower(),
    "is:unread": lambda m: "UNREAD" in m["labels"],
    "is:read": lambda m: "UNREAD" not in m["labels"],
    "is:starred": lambda m: "STARRED" in m["labels"],
    "is:important": lambda m: "IMPORTANT" in m["labels"],
    "in:inbox": lambda m: "INBOX" in m["labels"],
    "in:sent": lambda m: "SENT" in m["labels"],
    "in:trash": lambda m: "TRASH" in m["labels"],
    "in:archive": lambda m: not {"INBOX", "SENT", "TRASH"} & set(m["labels"]),
    "label:team-work": lambda m: "Team Work" in m["labels"],
    'label:"TEAM WORK"': lambda m: "Team Work" in m["labels"],
    "has:attachment": lambda m: "attachments" in m,
    "filename:pdf": lambda m: "attachments" in m and m["attachments"][0]["name"] == "Contract.PDF",
    "after:2026/02/10": lambda m: m["date"] >= "2026-02-10",
    "before:2026-02-10": lambda m: m["date"] < "2026-02-10",
    "newer_than:10d": lambda m: m["date"] >= "2026-02-20T09:00:00+01:00",
    "older_than:2w": lambda m: m["date"] < "2026-02-16T09:00:00+01:00",
}


def test_the_fixture_holds_what_the_properties_need() -> None:
    assert len(everything()) == 90
    for query, fits in ORACLE.items():
        assert 0 < sum(fits(message) for message in everything().values()) < 90, query


def fits(query: Any, message: dict[str, Any]) -> bool:
    """The plain reading of a query built by ``queries``: nested tuples over keys of ``ORACLE``."""
    if isinstance(query, str):
        return ORACLE[query](message)
    kind, *parts = query
    found = [fits(part, message) for part in parts]
    return not found[0] if kind == "-" else any(found) if kind in ("or", "{") else all(found)


def written(query: Any) -> str:
    if isinstance(query, str):
        return query
    kind, *parts = query
    texts = [written(part) for part in parts]
    match kind:
        case "-":
            return f"-({texts[0]})" if texts[0].startswith("-") else f"-{texts[0]}"
        case "or":
            return f"({' OR '.join(texts)})"
        case "{":
            return f"{{{' '.join(texts)}}}"
        case _:
            return f"({' '.join(texts)})"


QUERIES = st.recursive(
    st.sampled_from(sorted(ORACLE)),
    lambda inner: (
        st.tuples(st.just("-"), inner)
        | st.tuples(st.sampled_from(["or", "{", "and"]), inner, inner)
        | st.tuples(st.sampled_from(["or", "and"]), inner, inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(QUERIES)
def test_a_search_finds_what_its_words_say_newest_first(query: Any) -> None:
    text = written(query)
    everywhere = "in:trash" in text
    expected = [key for key, m in everything().items() if fits(query, m) and (everywhere or "TRASH" not in m["labels"])]
    assert ids(text) == expected


def test_the_order_is_newest_first_and_of_one_second_the_last_to_arrive() -> None:
    keys = [(message["date"], key) for key, message in everything().items()]
    assert keys == sorted(keys, reverse=True)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a b", Every((Term("text", "a"), Term("text", "b")))),
        ("a b OR c", Every((Term("text", "a"), Some((Term("text", "b"), Term("text", "c")))))),
        ("-a AND b", Every((Negated(Term("text", "a")), Term("text", "b")))),
        ('from: "Nora Lind"', Term("from", "Nora Lind")),
        ("subject:(a OR -b)", Some((Term("subject", "a"), Negated(Term("subject", "b"))))),
        ("{a from:b}", Some((Term("text", "a"), Term("from", "b")))),
        (
            "10:30 e-mail - ORDER",
            Every(tuple(Term("text", word) for word in ("10:30", "e-mail", "-", "ORDER"))),
        ),
        ("https://x.example/a", Term("text", "https://x.example/a")),
        ("", Every(())),
    ],
)
def test_queries_are_read_as_gmail_reads_them(text: str, tree: Node[Term]) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("larger:5m", "larger: is not an operator"),
        ("Re: order", "put text that holds a colon in quotes"),
        ("from:", "from: has no value"),
        ("subject:()", "a group is empty"),
        ('"open', "a quote is not closed"),
        ("(a", ") is missing"),
        ("a)", ") closes nothing"),
        ("a OR", "OR needs a term on both sides"),
        ("OR a", "OR needs a term on both sides"),
        ("a NOT b", "write -term"),
        ('""', "a phrase is empty"),
        ("is:open", "is:open is not known"),
        ("has:drive", "has:drive is not known"),
        ("in:drafts", "mail_list_drafts"),
        ("label:teamwork", "Did you mean"),
        ("after:yesterday", "after:2026/03/01"),
        ("before:2026/13/01", "is not a day"),
        ("newer_than:7", "is not an age"),
        ("((((((((((a", "nested more than 8"),
        (" ".join("a" * 31), "more than 30 terms"),
    ],
)
async def test_a_query_that_means_nothing_is_refused_with_what_is_valid(query: str, words: str) -> None:
    async with over_mcp(desk(image())) as agent:
        assert words in await agent.refused("mail_search", query=query)


async def test_a_refused_operator_comes_with_the_list_of_operators() -> None:
    async with over_mcp(desk(image())) as agent:
        words = await agent.refused("mail_search", query="list:all")
    for operator in ("from:", "has:attachment", "newer_than:7d", "OR"):
        assert operator in words


async def test_a_result_is_short_and_a_cursor_is_good_for_its_query_only() -> None:
    async with over_mcp(desk(image())) as agent:
        first = await agent.ok("mail_search", query="is:unread", page_size=1)
        other = await agent.refused("mail_search", query="is:read", page_size=1, cursor=first["next_cursor"])
    (message,) = first["messages"]
    assert set(message) <= {
        "message_id",
        "thread_id",
        "from",
        "to",
        "subject",
        "date",
        "snippet",
        "labels",
        "attachments",
    }
    assert first["total"] == len(ids("is:unread"))
    assert "Start again" in other


async def test_days_begin_at_midnight_where_the_caller_is() -> None:
    late = {
        "id": "m",
        "sender": OMAR,
        "to": [NORA, DANA],
        "subject": "S",
        "body": "B",
        "sent_at": "2026-02-10T20:00:00Z",
    }
    evening = World.open(office([MAIL], {"mail.message": [late]}))
    in_berlin = act(evening, NORA, "mail_search", query="after:2026/02/11")  # 21:00 of the tenth
    in_tokyo = act(evening, DANA, "mail_search", query="after:2026/02/11")  # 05:00 of the eleventh
    assert (in_berlin["total"], in_tokyo["total"]) == (0, 1)


PIECES = [
    "a", "from:", "-", '"', "(", ")", "{", "}", " ", "OR", "AND", "NOT", "is:read", "in:", "%", "\\", "_",
    "ß", "after:", "9999/12/31", "0001/01/01", "newer_than:99999y", "\x00",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(PIECES) | st.text(max_size=3),
        max_size=25,
    ).map("".join)
)
def test_any_text_is_a_query_or_refused(text: str) -> None:
    try:
        parse(text)
        parsed = True
    except QueryError:
        parsed = False
    result = world().call("mail_search", {"query": text}, Actor("coworker", DANA_K))
    assert parsed or not result.ok
