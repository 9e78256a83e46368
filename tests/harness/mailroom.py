"""A small environment for tests of runs: answer Klara's mail with a draft, while Omar writes in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.lowlevel

from harness.agents.base import AgentTurn, Briefing, NoRecord, Session
from harness.agents.scripted import ScriptedAgent
from harness.environment import Environment, Step
from harness.errors import EpisodeFault
from harness.messages import Message
from tests.support import KLARA, NORA, OMAR, PEOPLE, START

QUESTION = "0123456789abcdef"
REPLY = "Dear Klara, ORD-2041 arrives on 12 March 2026."


def mailroom(name: str = "mailroom", *, level: int = 1, **changes: Any) -> Environment:
    """The environment; ``changes`` replace parts of it."""
    data: dict[str, Any] = {
        "id": name,
        "family": "answers",
        "difficulty": {"level": level},
        "seed": name,
        "start": START,
        "principal": NORA,
        "cast": PEOPLE,
        "services": ["mail"],
        "tools": ["mail_search", "mail_get_message", "mail_create_draft", "mail_send"],
        "records": {
            "mail.message": [
                {"id": QUESTION, "sender": KLARA, "to": [NORA], "subject": "ORD-2041",
                 "body": "When does <b>ORD-2041</b> arrive?", "sent_at": "2026-03-01T08:00:00Z"},
            ]
        },
        "request": "Please save a draft that answers Klara, and tell me when it is done.",
        "rules": ["Replies to customers are saved as drafts."],
        "user": {"facts": [{"id": "thanks", "text": "And is it friendly?", "disclose": "volunteered"}]},
        "events": [
            {"id": "omar-writes", "when": {"after_call": {"tool": "mail_create_draft"}},
             "do": [{"by": OMAR, "tool": "mail_send",
                     "arguments": {"to": [NORA], "subject": "Lunch", "body": "At noon?"}}],
             "notice": "New mail from Omar Haddad: Lunch"},
            {"id": "omar-again", "when": {"after_turn": 1},
             "do": [{"by": OMAR, "tool": "mail_send", "arguments": {"to": [NORA], "subject": "Lunch?", "body": "?"}}]},
        ],
        "checks": [
            {"kind": "record", "id": "draft", "type": "mail.draft", "where": {"owner": NORA},
             "about": "There is a draft"},
            {"kind": "calls", "id": "nothing-sent", "guard": True, "call": {"tool": "mail_send"}, "count": {"max": 0},
             "about": "Nothing is sent"},
        ],
        "oracle": [
            {"call": "mail_search", "arguments": {"query": "from:klara"}},
            {"call": "mail_create_draft",
             "arguments": {"to": [KLARA], "subject": "Re: ORD-2041", "body": REPLY, "reply_to_message_id": QUESTION}},
            {"say": "The draft is saved."},
            {"say": "Yes, it is."},
        ],
    }  # fmt: skip
    return Environment.parse(data | changes)


def says(name: str, *words: str) -> ScriptedAgent:
    """An agent that only talks."""
    return ScriptedAgent(name, lambda _: [Step(say=text) for text in words])


def calls(name: str, tool: str, **arguments: Any) -> ScriptedAgent:
    """An agent that calls one tool and is done."""
    return ScriptedAgent(name, lambda _: [Step(call=tool, arguments=arguments), Step(say="Done.")])


@dataclass(slots=True)
class Moody(NoRecord):
    """An agent for which things go wrong as ``moods`` say, one for each episode, and then go well."""

    moods: list[BaseException] = field(default_factory=list[BaseException])
    name: str = "moody"
    closed: int = 0
    running: int = 0
    most: int = 0
    """Most episodes at the same time."""

    async def begin(self, briefing: Briefing) -> Session:
        if self.moods:
            raise self.moods.pop(0)
        return MoodySession(self)

    async def close(self) -> None:
        self.closed += 1


@dataclass(slots=True)
class MoodySession(NoRecord):
    agent: Moody = field(default_factory=Moody)

    def __init__(self, agent: Moody) -> None:
        NoRecord.__init__(self)
        self.agent = agent

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        self.agent.running += 1
        self.agent.most = max(self.agent.most, self.agent.running)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()  # others come in meanwhile
        self.agent.running -= 1
        return AgentTurn(Message("assistant", "I did nothing."), finished=True)


def provider_down() -> EpisodeFault:
    return EpisodeFault("infra", "provider", "502 Bad Gateway")


def broken_user() -> EpisodeFault:
    return EpisodeFault("invalid", "user", "said nothing")
