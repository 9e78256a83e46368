"""Tools of chat."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field
from pydantic_core import from_json, to_json

from servers.paging import page
from servers.people import Person, find_person
from servers.search import MAX_QUERY, Condition, Term, arrange, parse_query, snippet, words
from servers.services.chat.queries import (
    CHANNEL,
    CHOSEN,
    MESSAGE_IN,
    OPEN_CHANNELS,
    SAME_PEOPLE,
    SHARED,
    THREAD,
    TIMELINE,
    find_messages,
)
from servers.services.chat.records import Channel, Message
from servers.sql import shaped
from servers.tools import Arguments, Call, JsonObject, Tool, tool

MAX_TEXT = 4000
"""Longest message, in characters."""
MAX_LISTED = 20
"""Most channels that a refusal names."""
SNIPPET = 300
"""Length of a message's text in search results, in characters."""
OPERATORS = {
    "in": "#general",
    "from": "@nora",
    "before": "2026-03-09",
    "after": "2026-03-02",
    "has": "thread",
}
_EMOJI = re.compile(r"[^\s:]{1,40}")


CHANNEL_ARGUMENT = Field(description="Channel name such as #general, or a channel_id")
PAGE_SIZE = Field(default=20, ge=1, le=50, description="Entries per page, at most 50")
CURSOR = Field(default=None, description="next_cursor of the previous page")


class ListChannels(Arguments):
    """List the channels and direct-message conversations that you can read and post in."""

    query: str = Field(default="", max_length=MAX_QUERY, description="Words of a name, topic or address")
    page_size: int = PAGE_SIZE
    cursor: str | None = CURSOR


class ReadChannel(Arguments):
    """Read a channel or direct-message conversation, newest message first.

    Replies in threads are not in it: reply_count tells how many a message has; chat_read_thread shows them.
    """

    channel: str = CHANNEL_ARGUMENT
    page_size: int = PAGE_SIZE
    cursor: str | None = CURSOR


class ReadThread(Arguments):
    """Read a thread: the message it began with, then the replies, oldest first."""

    channel: str = CHANNEL_ARGUMENT
    thread_id: str = Field(description="message_id of the message that the thread began with")
    page_size: int = PAGE_SIZE
    cursor: str | None = CURSOR


class SearchMessages(Arguments):
    """Search messages in all channels and conversations that you can read, newest first.

    All terms must fit: words, "quoted phrases", -not, in:#channel, from:@name (or from:me),
    before:2026-03-09, after:2026-03-02 (that day included), has:thread (messages with replies).
    Long texts are cut.
    """

    query: str = Field(min_length=1, max_length=MAX_QUERY, description="Words and operators")
    page_size: int = PAGE_SIZE
    cursor: str | None = CURSOR


class Post(Arguments):
    """Post a message in a channel or conversation, or a reply in a thread.

    Everyone who can read the channel will see it; it cannot be taken back.
    """

    channel: str = CHANNEL_ARGUMENT
    text: str = Field(min_length=1, max_length=MAX_TEXT, description=f"At most {MAX_TEXT} characters")
    thread_id: str | None = Field(
        default=None, description="To reply: message_id of the message that the thread begins with"
    )


class OpenDm(Arguments):
    """Open the direct-message conversation with one or more people, to post in with chat_post.

    The same people always give the same conversation.
    """

    people: list[str] = Field(min_length=1, max_length=8, description="Mail addresses or names, without yourself")


class React(Arguments):
    """Add your reaction to a message."""

    message_id: str
    emoji: str = Field(description="Name such as thumbsup or white_check_mark")


def list_channels(call: Call, args: ListChannels) -> JsonObject:
    """List what the caller may read."""
    wanted = args.query.casefold().replace("#", " ").split()
    readable = call.world.select(OPEN_CHANNELS, **_rights(call))
    found = [channel for channel in readable if _fits(channel, wanted)]
    result = page(call, args.query, found, key=lambda one: one.id, size=args.page_size, cursor=args.cursor)
    return {
        "channels": [_summary(call, channel) for channel in result.items],
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def read_channel(call: Call, args: ReadChannel) -> JsonObject:
    """Show a channel's messages outside threads."""
    channel = find_channel(call, args.channel)
    roots: list[int] = []
    replies: dict[str, int] = {}
    for number, thread_id in call.world.rows(TIMELINE, channel=channel.id):
        if thread_id is None:
            roots.append(number)
        else:
            replies[thread_id] = replies.get(thread_id, 0) + 1
    result = page(call, channel.id, roots, key=int, size=args.page_size, cursor=args.cursor)
    messages: list[JsonObject] = []
    for row in call.world.rows(CHOSEN, rows=to_json(result.items).decode()):
        message = _message(call, row)
        if row[0] in replies:
            message["reply_count"] = replies[row[0]]
        messages.append(message)
    return {
        "channel_id": channel.id,
        "channel": _label(call, channel),
        "messages": messages,
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def read_thread(call: Call, args: ReadThread) -> JsonObject:
    """Show a thread."""
    channel = find_channel(call, args.channel)
    root = _root(call, channel, args.thread_id)
    rows = call.world.rows(THREAD, channel=channel.id, thread=root.id)
    result = page(call, root.id, rows, key=lambda row: row[0], size=args.page_size, cursor=args.cursor)
    return {
        "channel_id": channel.id,
        "channel": _label(call, channel),
        "thread_id": root.id,
        "messages": [_message(call, row) for row in result.items],
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def search_messages(call: Call, args: SearchMessages) -> JsonObject:
    """Find messages by words and operators."""
    terms = parse_query(call, args.query, OPERATORS)
    shape, values = arrange([_condition(call, term) for term in terms])
    rows = call.world.rows(shaped(Message, find_messages, shape), **_rights(call), **values)
    result = page(call, args.query, rows, key=lambda row: row[0], size=args.page_size, cursor=args.cursor)
    places = {row[7] for row in result.items}
    labels = {channel_id: _label(call, find_channel(call, channel_id)) for channel_id in places}
    messages: list[JsonObject] = []
    for row in result.items:
        message = {"channel_id": row[7], "channel": labels[row[7]], **_message(call, row)}
        message["text"] = snippet(row[3], terms, SNIPPET)
        if row[4] is not None:
            message["thread_id"] = row[4]
        messages.append(message)
    return {"messages": messages, "total": result.total, "next_cursor": result.next_cursor}


def post(call: Call, args: Post) -> JsonObject:
    """Write a message."""
    channel = find_channel(call, args.channel)
    if not args.text.strip():
        raise call.refuse("the text is empty.")
    root = None if args.thread_id is None else _root(call, channel, args.thread_id).id
    message = Message(
        id=call.new_id(Message.type_name),
        channel_id=channel.id,
        author=call.person.email,
        text=args.text,
        sent_at=call.now,
        thread_id=root,
    )
    call.world.insert(message)
    return {
        "message_id": message.id,
        "channel_id": channel.id,
        "channel": _label(call, channel),
        "thread_id": root or message.id,
        "sent_at": call.local(message.sent_at),
    }


def open_dm(call: Call, args: OpenDm) -> JsonObject:
    """Give the conversation with some people, made if need be."""
    me = call.person
    others = {person.email: person for person in (find_person(call, text) for text in args.people)}
    others.pop(me.email, None)
    if not others:
        raise call.refuse("people must name somebody besides yourself.")
    members = sorted([me.email, *others])
    known = call.world.first(SAME_PEOPLE, members=to_json(members).decode())
    if known is not None:
        return {"channel_id": known.id, "members": known.members, "created": False}
    for other in others.values():
        _reachable(call, other)
    channel = Channel(id=call.new_id(Channel.type_name), kind="dm", private=True, members=members)
    call.world.insert(channel)
    return {"channel_id": channel.id, "members": members, "created": True}


def react(call: Call, args: React) -> JsonObject:
    """Add a reaction; a second time changes nothing."""
    message = call.world.get(Message, args.message_id)
    channel = None if message is None else call.world.get(Channel, message.channel_id)
    if message is None or channel is None or not channel.open_to(call.person):
        raise call.refuse(
            f"there is no message {args.message_id!r} that you can see. Take a message_id from a channel or a search."
        )
    emoji = args.emoji.strip().strip(":")
    if not _EMOJI.fullmatch(emoji):
        raise call.refuse(f"{args.emoji!r} is no emoji. Give a name such as thumbsup, eyes or white_check_mark.")
    who = message.reactions.get(emoji, [])
    if call.person.email not in who:
        message = call.world.update(message, reactions={**message.reactions, emoji: [*who, call.person.email]})
    return {"message_id": message.id, "channel_id": message.channel_id, "reactions": message.reactions}


def find_channel(call: Call, text: str) -> Channel:
    """The channel of an id or name, if the caller may read it.

    Raises:
        ToolError: There is none, or none that the caller may know of; the visible ones are listed.
    """
    wanted = text.strip()
    channel = call.world.first(CHANNEL, id=wanted, name=wanted.removeprefix("#").lower() or "#", **_rights(call))
    if channel is not None:
        return channel
    names = [f"#{item.name}" for item in call.world.select(OPEN_CHANNELS, **_rights(call)) if item.kind == "channel"]
    more = ", ..." if len(names) > MAX_LISTED else ""
    options = f"You can read {', '.join(names[:MAX_LISTED])}{more}" if names else "You can read no channels"
    raise call.refuse(f"there is no channel {text!r} that you can see. {options}; for people use chat_open_dm.")


def _reachable(call: Call, other: Person) -> None:
    """Refuse a conversation across the border of the organisation with somebody met in no channel."""
    me = call.person
    if not (me.external or other.external):
        return
    if call.world.first(SHARED, me=me.email, other=other.email) is None:
        raise call.refuse(
            f"{other.email} and you share no channel, and one of you is outside the organisation, so chat "
            "cannot reach them. Use mail."
        )


def _rights(call: Call) -> dict[str, Any]:
    return {"me": call.person.email, "internal": 0 if call.person.external else 1}


def _root(call: Call, channel: Channel, message_id: str) -> Message:
    message = call.world.first(MESSAGE_IN, id=message_id, channel=channel.id)
    if message is None:
        raise call.refuse(
            f"there is no message {message_id!r} in {_label(call, channel)}. thread_id is the message_id of "
            "the message that the thread begins with."
        )
    if message.thread_id is not None:
        raise call.refuse(
            f"message {message_id!r} is itself a reply. Use the thread it belongs to: {message.thread_id!r}."
        )
    return message


def _condition(call: Call, term: Term) -> Condition:
    value: str | int | None
    match term.operator:
        case "":
            return words(term)
        case "in":
            value = find_channel(call, term.value).id
        case "from":
            name = term.value.removeprefix("@")
            value = call.person.email if name.casefold() == "me" else find_person(call, name).email
        case "has":
            if term.value.casefold() != "thread":
                raise call.refuse(f"has:{term.value} is not possible. Valid: has:thread.")
            return Condition("has", term.negated, ())
        case _:
            value = call.instant(term.value, f"{term.operator}:")
    return Condition(term.operator, term.negated, (value,))


def _message(call: Call, row: tuple[Any, ...]) -> JsonObject:
    message_id, author, sent_at, text, _, reactions, edited_at, _ = row
    shown: JsonObject = {
        "message_id": message_id,
        "author": author,
        "sent_at": call.local(sent_at),
        "text": text,
    }
    if reactions != "{}":
        shown["reactions"] = from_json(reactions)
    if edited_at is not None:
        shown["edited_at"] = call.local(edited_at)
    return shown


def _label(call: Call, channel: Channel) -> str:
    if channel.kind == "channel":
        return f"#{channel.name}"
    return "dm: " + ", ".join(email for email in channel.members if email != call.person.email)


def _fits(channel: Channel, wanted: list[str]) -> bool:
    text = f"{channel.name} {channel.topic} {' '.join(channel.members)}".casefold()
    return all(word in text for word in wanted)


def _summary(call: Call, channel: Channel) -> JsonObject:
    """Tell who will read a post: all internal people read a public channel, so there guests are named."""
    shown: JsonObject = {
        "channel_id": channel.id,
        "channel": _label(call, channel),
        "private": channel.private,
    }
    if channel.kind == "dm":
        return {"channel_id": channel.id, "channel": _label(call, channel), "members": channel.members}
    if channel.topic:
        shown["topic"] = channel.topic
    shown["joined"] = call.person.email in channel.members
    if channel.private:
        shown["members"] = channel.members
        return shown
    shown["member_count"] = len(channel.members)
    people = call.world.people
    guests = [email for email in channel.members if people[email].external]
    if guests:
        shown["external_members"] = guests
    return shown


TOOLS: tuple[Tool, ...] = (
    tool("chat_list_channels", ListChannels, list_channels),
    tool("chat_read_channel", ReadChannel, read_channel),
    tool("chat_read_thread", ReadThread, read_thread),
    tool("chat_search", SearchMessages, search_messages),
    tool("chat_post", Post, post, effect="write"),
    tool("chat_open_dm", OpenDm, open_dm, effect="write", idempotent=True),
    tool("chat_react", React, react, effect="write", idempotent=True),
)
