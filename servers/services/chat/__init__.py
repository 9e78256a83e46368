"""Chat: channels, direct messages, threads, reactions and search.

Records are ``chat.channel`` (a channel or a direct-message conversation) and ``chat.message``. One rule
decides where somebody may read and post: members wherever they are members, internal people in public
channels too. What a person may not see does not exist for that person: the words are those for an unknown
name.

Threads are one level deep: a reply belongs to a message that is no reply itself. Messages are ordered by
time, then by the order in which they were written. Not promised: editing or deleting messages.

* ``records``: the record types, and what types and ids cannot show of them.
* ``queries``: the statements.
* ``tools``: what people and agents can do.
"""

from __future__ import annotations

from servers.services.chat.records import Channel, Message, check, prepare
from servers.services.chat.tools import TOOLS
from servers.tools import Service

__all__ = ["CHAT", "Channel", "Message"]

CHAT = Service(
    name="chat",
    title="Chat",
    summary="Channels, direct messages, threads, reactions and search; private channels stay private.",
    records=(Channel, Message),
    tools=TOOLS,
    check=check,
    prepare=prepare,
)
