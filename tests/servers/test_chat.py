from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.desk import Desk, agent_desk, expose
from servers.errors import SpecError
from servers.image import Image
from servers.journal import Actor
from servers.services.chat import CHAT
from servers.services.directory import DIRECTORY
from servers.world import World
from tests.support import DANA, KLARA, NORA, OMAR, PRIYA, act, desk, office, over_mcp

pytestmark = pytest.mark.anyio

CHANNELS: list[dict[str, Any]] = [
    {"id": "C1", "name": "general", "members": [NORA, OMAR, PRIYA], "topic": "Company news"},
    {"id": "C2", "name": "alpenrad", "members": [NORA, OMAR, KLARA], "topic": "Customer channel"},
    {"id": "C3", "name": "board", "private": True, "members": [PRIYA, DANA]},
    {"id": "C4", "name": "deals", "private": True, "members": [NORA, PRIYA]},
    {"id": "D1", "kind": "dm", "members": [OMAR, NORA]},
    {"id": "D2", "kind": "dm", "members": [PRIYA, DANA]},
]


def message(number: int, channel: str, author: str, text: str, at: str, **more: Any) -> dict[str, Any]:
    return {"id": f"m{number}", "channel_id": channel, "author": author, "text": text, "sent_at": at, **more}


SEEN = {"eyes": [OMAR]}
MESSAGES = [
    message(1, "C1", PRIYA, "The Übung starts at ten", "2026-02-27T09:00:00+01:00", reactions=SEEN),
    message(2, "C1", OMAR, "Which room?", "2026-02-27T09:05:00+01:00", thread_id="m1"),
    message(3, "C1", PRIYA, "Room 4", "2026-02-27T09:06:00+01:00", thread_id="m1"),
    message(5, "C2", KLARA, "Our order 4711 is late", "2026-03-01T10:00:00+01:00"),
    message(4, "C1", NORA, "Order 4711 left the house", "2026-02-28T10:00:00+01:00"),
    message(6, "C3", PRIYA, "Secret order 4711 will be cancelled", "2026-03-01T11:00:00+01:00"),
    message(7, "C4", PRIYA, "Give Klara 100% of the 10_percent rebate", "2026-03-01T12:00:00+01:00"),
    message(8, "D1", OMAR, "Lunch?", "2026-03-01T12:30:00+01:00"),
    message(9, "C1", OMAR, "Same second, first", "2026-03-01T13:00:00+01:00"),
    message(10, "C1", OMAR, "Same second, second", "2026-03-01T13:00:00+01:00"),
]


def chat(**records: Any) -> Image:
    given_records = {"chat.channel": CHANNELS, "chat.message": MESSAGES}
    return office([CHAT, DIRECTORY], given_records | {f"chat.{key}": value for key, value in records.items()})


def as_person(image: Image, person: str) -> Desk:
    world = World.open(image)
    return Desk(world, Actor("agent", person), expose(image.workplace, None))


def ids(answer: dict[str, Any]) -> list[str]:
    return [entry["message_id"] for entry in answer["messages"]]


async def test_the_list_holds_what_the_caller_can_read_and_who_else_will() -> None:
    async with over_mcp(desk(chat())) as agent:
        answer = await agent.ok("chat_list_channels")
        some = await agent.ok("chat_list_channels", query="customer")
    by_id = {channel["channel_id"]: channel for channel in answer["channels"]}
    assert list(by_id) == ["C2", "C4", "C1", "D1"]
    assert by_id["C2"]["external_members"] == [KLARA]
    assert by_id["C4"]["members"] == [NORA, PRIYA]
    assert [channel["channel"] for channel in some["channels"]] == ["#alpenrad"]


async def test_a_channel_is_read_newest_first_by_time_then_by_insertion_with_replies_counted() -> None:
    async with over_mcp(desk(chat())) as agent:
        answer = await agent.ok("chat_read_channel", channel="#general")
        thread = await agent.ok("chat_read_thread", channel="C1", thread_id="m1")
    assert ids(answer) == ["m10", "m9", "m4", "m1"]
    assert answer["messages"][-1]["reply_count"] == 2
    assert answer["messages"][-1]["reactions"] == {"eyes": [OMAR]}
    assert ids(thread) == ["m1", "m2", "m3"]


async def test_messages_are_in_order_of_time_however_the_author_listed_them() -> None:
    turned = list(reversed(MESSAGES))
    async with over_mcp(desk(chat(message=turned))) as agent:
        answer = await agent.ok("chat_read_channel", channel="general")
    assert ids(answer) == ["m9", "m10", "m4", "m1"]  # m10 was now written first within its second


async def test_pages_of_a_channel_join_up() -> None:
    async with over_mcp(desk(chat())) as agent:
        first = await agent.ok("chat_read_channel", channel="#general", page_size=3)
        more = first["next_cursor"]
        second = await agent.ok("chat_read_channel", channel="#general", page_size=3, cursor=more)
        words = await agent.refused("chat_read_channel", channel="#alpenrad", cursor=more)
    assert ids(first) + ids(second) == ["m10", "m9", "m4", "m1"]
    assert second["next_cursor"] is None
    assert "cursor" in words


async def test_an_unknown_channel_is_refused_with_the_visible_ones_only() -> None:
    async with over_mcp(desk(chat())) as agent:
        words = await agent.refused("chat_post", channel="#generall", text="hi")
    assert "#general" in words
    assert "#deals" in words
    assert "#board" not in words


@pytest.mark.parametrize("name", ["#board", "board", "C3", "D2", "BOARD"])
async def test_what_is_hidden_gets_the_words_of_what_does_not_exist(name: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("chat_read_channel", {}),
        ("chat_read_thread", {"thread_id": "m6"}),
        ("chat_post", {"text": "hi"}),
    ]
    async with over_mcp(desk(chat())) as agent:
        for tool, arguments in calls:
            hidden = await agent.refused(tool, channel=name, **arguments)
            unknown = await agent.refused(tool, channel="nowhere", **arguments)
            assert hidden.replace(name, "nowhere") == unknown
        hidden = await agent.refused("chat_search", query=f"in:{name} order")
        unknown = await agent.refused("chat_search", query="in:nowhere order")
        assert hidden.replace(name.removeprefix("#"), "nowhere").replace("#nowhere'", "nowhere'") == unknown


async def test_a_hidden_message_cannot_be_reacted_to_found_or_answered() -> None:
    async with over_mcp(desk(chat())) as agent:
        hidden = await agent.refused("chat_react", message_id="m6", emoji="eyes")
        unknown = await agent.refused("chat_react", message_id="m99", emoji="eyes")
        found = await agent.ok("chat_search", query="order 4711")
        thread = await agent.refused("chat_post", channel="#general", text="hi", thread_id="m6")
        no_thread = await agent.refused("chat_post", channel="#general", text="hi", thread_id="m99")
    assert hidden.replace("m6", "m99") == unknown
    assert ids(found) == ["m5", "m4"]
    assert thread.replace("m6", "m99") == no_thread


async def test_outsiders_see_only_the_channels_that_they_are_members_of() -> None:
    async with over_mcp(as_person(chat(), KLARA)) as agent:
        answer = await agent.ok("chat_list_channels")
        found = await agent.ok("chat_search", query="order")
        words = await agent.refused("chat_read_channel", channel="#general")
        await agent.ok("chat_post", channel="#alpenrad", text="Thank you")
    assert [channel["channel_id"] for channel in answer["channels"]] == ["C2"]
    assert ids(found) == ["m5"]
    assert "#alpenrad" in words
    assert "#deals" not in words


async def test_internal_people_read_and_post_in_public_channels_without_joining() -> None:
    async with over_mcp(as_person(chat(), DANA)) as agent:
        await agent.ok("chat_read_channel", channel="#general")
        posted = await agent.ok("chat_post", channel="#general", text="Hello from Tokyo")
        answer = await agent.ok("chat_list_channels", query="general")
    assert posted["sent_at"].endswith("+09:00")
    assert answer["channels"][0]["joined"] is False


async def test_a_post_is_there_at_once_and_can_be_answered_in_a_thread() -> None:
    where = desk(chat())
    async with over_mcp(where) as agent:
        posted = await agent.ok("chat_post", channel="#deals", text="Offer is out")
        act(where.world, PRIYA, "chat_post", channel="C4", text="Great", thread_id=posted["thread_id"])
        answer = await agent.ok("chat_read_channel", channel="#deals")
        thread = await agent.ok("chat_read_thread", channel="#deals", thread_id=posted["message_id"])
    assert answer["messages"][0]["message_id"] == posted["message_id"]
    assert answer["messages"][0]["reply_count"] == 1
    assert [entry["author"] for entry in thread["messages"]] == [NORA, PRIYA]


async def test_replies_go_to_the_message_that_the_thread_begins_with() -> None:
    async with over_mcp(desk(chat())) as agent:
        to_reply = await agent.refused("chat_post", channel="#general", text="hi", thread_id="m2")
        elsewhere = await agent.refused("chat_post", channel="#general", text="hi", thread_id="m5")
        reading = await agent.refused("chat_read_thread", channel="#general", thread_id="m3")
    assert "'m1'" in to_reply
    assert "no message 'm5' in #general" in elsewhere
    assert "'m1'" in reading


async def test_long_and_empty_messages_are_refused() -> None:
    async with over_mcp(desk(chat())) as agent:
        long = await agent.refused("chat_post", channel="#general", text="x" * 4001)
        empty = await agent.refused("chat_post", channel="#general", text=" \n ")
        await agent.ok("chat_post", channel="#general", text="x" * 4000)
    assert "4000" in long
    assert "empty" in empty


async def test_a_dm_with_the_same_people_is_the_same_conversation() -> None:
    async with over_mcp(desk(chat())) as agent:
        known = await agent.ok("chat_open_dm", people=["Omar"])
        new = await agent.ok("chat_open_dm", people=["priya", OMAR, NORA])
        again = await agent.ok("chat_open_dm", people=[OMAR, OMAR, "Priya Raman"])
        posted = await agent.ok("chat_post", channel=new["channel_id"], text="Hi both")
    assert known["channel_id"] == "D1"
    assert (new["created"], again["created"]) == (True, False)
    assert new["channel_id"] == again["channel_id"] == posted["channel_id"]


async def test_a_dm_needs_somebody_else_who_is_known_here() -> None:
    async with over_mcp(desk(chat())) as agent:
        alone = await agent.refused("chat_open_dm", people=["Nora"])
        several = await agent.refused("chat_open_dm", people=["Dana"])
    assert "besides yourself" in alone
    assert DANA in several


async def test_outsiders_are_reached_only_by_those_who_share_a_channel_with_them() -> None:
    image = chat()
    async with over_mcp(desk(image)) as nora:
        assert (await nora.ok("chat_open_dm", people=["Klara"]))["created"]
    async with over_mcp(as_person(image, DANA)) as dana:
        words = await dana.refused("chat_open_dm", people=["Klara"])
    async with over_mcp(as_person(image, KLARA)) as klara:
        back = await klara.refused("chat_open_dm", people=["Priya"])
    assert "outside the organisation" in words
    assert "outside the organisation" in back


async def test_a_reaction_counts_once_per_person() -> None:
    where = desk(chat())
    async with over_mcp(where) as agent:
        first = await agent.ok("chat_react", message_id="m1", emoji=":eyes:")
        second = await agent.ok("chat_react", message_id="m1", emoji="eyes")
        words = await agent.refused("chat_react", message_id="m1", emoji="two words")
    assert first["reactions"] == second["reactions"] == {"eyes": [OMAR, NORA]}
    assert len(where.world.changes()) == 1
    assert "no emoji" in words


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("order", ["m5", "m4"]),
        ("ORDER -late", ["m4"]),
        ('"order 4711 left"', ["m4"]),
        ("in:#alpenrad order", ["m5"]),
        ("in:general in:alpenrad", []),
        ("from:@omar", ["m10", "m9", "m8", "m2"]),
        ('from:"Omar Haddad" -in:general', ["m8"]),
        ("from:me", ["m4"]),
        ("after:2026-03-01 before:2026-03-01T12:00:00", ["m5"]),
        ("has:thread", ["m1"]),
        ("-has:thread from:priya", ["m7", "m3"]),
        ("übung", ["m1"]),
        ("ÜBUNG", ["m1"]),
        ("100%", ["m7"]),
        ("10_p", ["m7"]),
        ("0%p", []),
        ("https://example.com", []),
    ],
)
async def test_search_terms_all_have_to_fit(query: str, expected: list[str]) -> None:
    async with over_mcp(desk(chat())) as agent:
        answer = await agent.ok("chat_search", query=query)
    assert ids(answer) == expected
    assert answer["total"] == len(expected)


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("to:omar", "Operators: in:"),
        ("from:", "no value"),
        ("from:nobody", "nobody called"),
        ("has:link", "has:thread"),
        ("before:yesterday", "not a time"),
        (" ".join(f"w{n}" for n in range(17)), "at most 16"),
    ],
)
async def test_search_says_what_it_does_not_understand(query: str, part: str) -> None:
    async with over_mcp(desk(chat())) as agent:
        assert part in await agent.refused("chat_search", query=query)


async def test_hits_in_threads_name_the_thread_and_long_texts_are_cut_around_the_word() -> None:
    text = "a " * 400 + "needle" + " b" * 400
    long = message(20, "C1", OMAR, text, "2026-03-01T14:00:00+01:00", thread_id="m1")
    async with over_mcp(desk(chat(message=[*MESSAGES, long]))) as agent:
        (hit,) = (await agent.ok("chat_search", query="needle"))["messages"]
    assert (hit["channel"], hit["thread_id"]) == ("#general", "m1")
    assert "needle" in hit["text"]
    assert hit["text"].startswith("…")
    assert hit["text"].endswith("…")
    assert len(hit["text"]) < 310


LATE, EARLY, GOOD = "2026-03-03T10:00:00+01:00", "2026-02-01T10:00:00+01:00", "2026-03-01T10:00:00+01:00"


@pytest.mark.parametrize(
    ("kind", "record", "where"),
    [
        ("message", message(11, "C1", NORA, "x", LATE), "chat.message[10].sent_at"),
        ("message", message(11, "C1", NORA, "x", GOOD, edited_at=EARLY), "chat.message[10].edited_at"),
        ("message", message(11, "C3", NORA, "x", GOOD), "chat.message[10].author"),
        ("message", message(11, "C1", KLARA, "x", GOOD), "chat.message[10].author"),
        ("message", message(11, "C1", NORA, "x", GOOD, thread_id="m2"), "chat.message[10].thread_id"),
        ("message", message(11, "C1", NORA, "x", GOOD, thread_id="m5"), "chat.message[10].thread_id"),
        ("message", message(11, "C1", NORA, "x", EARLY, thread_id="m1"), "chat.message[10].thread_id"),
        ("message", message(11, "C1", NORA, "x", GOOD, reactions={"x": ["a@b.c"]}), "[10].reactions"),
        ("message", message(11, "C9", "x@y.z", "x", GOOD), "chat.message[10].channel_id"),
        ("channel", {"id": "C9", "name": "general"}, "chat.channel[6].name"),
        ("channel", {"id": "C9", "name": "General"}, "chat.channel[6].name"),
        ("channel", {"id": "D9", "kind": "dm", "members": [NORA, OMAR]}, "chat.channel[6].members"),
        ("channel", {"id": "D9", "kind": "dm", "members": [NORA]}, "chat.channel[6]"),
    ],
)
def test_impossible_records_are_found_with_their_place(kind: str, record: dict[str, Any], where: str) -> None:
    known = CHANNELS if kind == "channel" else MESSAGES
    with pytest.raises(SpecError) as found:
        chat(**{kind: [*known, record]})
    assert any(where in problem.where for problem in found.value.problems)


FUZZED = chat()
NAMES = [
    "#general",
    "C1",
    "C3",
    "m1",
    "m2",
    "m6",
    "Omar",
    "dana",
    "in:#board",
    "from:@me",
    "before:0001-01-01",
]
PARTS = ["in:", "from:", '"', "-", "has:thread", "after:", "2026-03-01", "%", "\\", "x", "ß", " "]
TEXTS = st.one_of(
    st.text(max_size=30), st.sampled_from(NAMES), st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_arguments_break_a_tool_and_hidden_words_never_come_out(data: st.DataObject) -> None:
    world = World.open(FUZZED)
    clerk = agent_desk(world, expose(FUZZED.workplace, None))
    for _ in range(3):
        tool = data.draw(st.sampled_from([tool for tool in clerk.tools if tool.startswith("chat_")]))
        schema = clerk.tools[tool].input_schema["properties"]
        strategies: dict[str, st.SearchStrategy[Any]] = {
            name: st.integers(-1, 60)
            if kind["type"] == "integer"
            else st.lists(TEXTS, max_size=3)
            if kind["type"] == "array"
            else TEXTS
            for name, kind in schema.items()
        }
        optional = {name: value for name, value in strategies.items() if data.draw(st.booleans())}
        needed = {name: strategies[name] for name in clerk.tools[tool].input_schema.get("required", [])}
        result = clerk.call(tool, data.draw(st.fixed_dictionaries(optional | needed)))
        assert "Secret order" not in result.text
    world.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3600), min_size=1, max_size=12), st.integers(1, 5))
def test_pages_give_every_message_once_in_order_for_any_history(offsets: list[int], size: int) -> None:
    base = 1_772_000_000
    history: list[dict[str, Any]] = [
        {"id": f"h{n}", "channel_id": "C1", "author": NORA, "text": "x", "sent_at": base + offset}
        for n, offset in enumerate(offsets)
    ]
    clerk = desk(chat(message=history))
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = clerk.call("chat_read_channel", {"channel": "C1", "page_size": size, **cursor}).value
        assert answer is not None
        seen += ids(answer)
        if answer["next_cursor"] is None:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert seen == [f"h{n}" for n in sorted(range(len(offsets)), key=lambda n: (offsets[n], n), reverse=True)]
