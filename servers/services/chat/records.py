"""Records of chat, and what their types and ids cannot show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import sqlalchemy as sa
from pydantic import Field, field_validator, model_validator

from servers.errors import Problem, suggest
from servers.people import Person
from servers.records import Index, Instant, Record, Ref
from servers.sql import Query
from servers.world import World

PersonRef = Annotated[str, Ref("directory.person")]


class Channel(Record):
    """A channel, or the conversation of a few people (``kind: dm``)."""

    type_name: ClassVar[str] = "chat.channel"

    id: str
    name: str = Field(default="", pattern=r"^[^\s#@A-Z]{0,80}$")
    """Lower case, without ``#``; empty for a direct-message conversation."""
    kind: Literal["channel", "dm"] = "channel"
    private: bool = False
    """Only members see it. Direct-message conversations always are."""
    members: list[PersonRef] = Field(default_factory=list[str])
    """A set: kept sorted, so that the same people give the same conversation."""
    topic: str = ""

    @field_validator("members")
    @classmethod
    def _as_set(cls, value: list[str]) -> list[str]:
        return sorted(set(value))

    @model_validator(mode="after")
    def _kind_fits(self) -> Channel:
        if self.kind == "channel" and not self.name:
            raise ValueError("a channel needs a name")
        if self.kind == "dm" and (self.name or len(self.members) < 2):
            raise ValueError("a dm has no name and at least two members")
        return self

    def open_to(self, person: Person) -> bool:
        """Whether this person may read and post here."""
        return person.email in self.members or (self.kind == "channel" and not self.private and not person.external)


class Message(Record):
    """A message in a channel; with ``thread_id`` a reply in the thread of that message."""

    type_name: ClassVar[str] = "chat.message"

    id: str
    channel_id: Annotated[str, Ref("chat.channel"), Index()]
    author: PersonRef
    text: str = Field(min_length=1)
    sent_at: Instant
    thread_id: Annotated[str, Ref("chat.message")] | None = None
    """The message that the thread began with; None outside threads and for the first message itself."""
    reactions: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    """Who reacted, by name of the emoji."""
    edited_at: Instant | None = None


MESSAGES = Query(Message, lambda m: sa.select(m).order_by(sa.literal_column("rowid")))


def prepare(world: World) -> None:
    """Bring authored messages into the order of time, so that the order of rows is the order of reading."""
    written = world.select(MESSAGES)
    ordered = sorted(written, key=lambda message: message.sent_at)
    if written == ordered:
        return
    for message in written:
        world.delete(message)
    for message in ordered:
        world.insert(message)


def check(records: Mapping[str, Mapping[str, Record]], start: int) -> list[Problem]:
    """Find names and conversations that are there twice, and messages that cannot have been written.

    A message cannot come from the future, from somebody who may not post in its channel, or before the
    message that it answers. Dangling ids are left to ``servers.records.dangling``.
    """
    people = {key: person for key, person in records[Person.type_name].items() if isinstance(person, Person)}
    channels = {key: item for key, item in records[Channel.type_name].items() if isinstance(item, Channel)}
    messages = {key: item for key, item in records[Message.type_name].items() if isinstance(item, Message)}
    problems: list[Problem] = []
    seen: dict[object, str] = {}
    for index, channel in enumerate(channels.values()):
        identity = channel.name or tuple(channel.members)
        if identity in seen:
            field = "name" if channel.name else "members"
            what = f"channel {seen[identity]!r} has this name" if channel.name else f"{seen[identity]!r} is their dm"
            problems.append(Problem("duplicate_name", f"records.{Channel.type_name}[{index}].{field}", what))
        seen.setdefault(identity, channel.id)
    for index, message in enumerate(messages.values()):
        where = f"records.{Message.type_name}[{index}]"
        problems += _times(message, where, start)
        problems += _rights(message, where, people, channels)
        problems += _thread(message, where, messages)
    return problems


def _times(message: Message, where: str, start: int) -> list[Problem]:
    problems: list[Problem] = []
    if message.sent_at > start:
        problems.append(Problem("impossible_time", f"{where}.sent_at", "the message lies after the start"))
    if message.edited_at is not None and not message.sent_at <= message.edited_at <= start:
        text = "the edit lies before the message or after the start"
        problems.append(Problem("impossible_time", f"{where}.edited_at", text))
    return problems


def _rights(
    message: Message, where: str, people: Mapping[str, Person], channels: Mapping[str, Channel]
) -> list[Problem]:
    author, channel = people.get(message.author), channels.get(message.channel_id)
    problems: list[Problem] = []
    if author is not None and channel is not None and not channel.open_to(author):
        text = f"{author.email} cannot post in channel {channel.id!r}"
        problems.append(Problem("no_access", f"{where}.author", text, "Make them a member or move the message."))
    reacted = {email for emails in message.reactions.values() for email in emails}
    problems += [
        Problem(
            "unknown_person",
            f"{where}.reactions",
            f"nobody has the address {email!r}",
            suggest(email, people),
        )
        for email in sorted(reacted - people.keys())
    ]
    return problems


def _thread(message: Message, where: str, messages: Mapping[str, Message]) -> list[Problem]:
    root = messages.get(message.thread_id or "")
    if root is None:
        return []
    field = f"{where}.thread_id"
    if root.thread_id is not None:
        text = f"message {root.id!r} is itself a reply"
        return [Problem("wrong_thread", field, text, f"Name the first message, {root.thread_id!r}.")]
    if root.channel_id != message.channel_id:
        return [Problem("wrong_thread", field, f"message {root.id!r} is in channel {root.channel_id!r}")]
    if root.sent_at > message.sent_at:
        return [Problem("impossible_time", field, f"the reply is older than message {root.id!r}")]
    return []
