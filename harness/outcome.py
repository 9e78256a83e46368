"""What an episode left behind, as checks see it.

That is: the final state, what the agent changed, who called what, what was said.

An ``Outcome`` is taken from a frozen copy of the world, out of the agent's reach, and everything in it is
computed once, when a check first asks. Times in records are ISO in UTC, so patterns compare text with text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.messages import Message
from servers.journal import JournalEntry, RowChange, net_changes
from servers.world import World

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Disclosure:
    """The user told a fact."""

    fact: str
    after_call: int
    """Number of the last journal entry at that time."""


class Outcome:
    """The end of an episode."""

    def __init__(
        self, world: World, *, messages: Sequence[Message] = (), disclosures: Sequence[Disclosure] = ()
    ) -> None:
        self.world = world
        self.messages = tuple(messages)
        self.disclosures = tuple(disclosures)
        self._records: dict[str, list[JsonObject]] = {}

    @cached_property
    def journal(self) -> list[JournalEntry]:
        """All calls in order."""
        return self.world.journal()

    @cached_property
    def agent_calls(self) -> list[JournalEntry]:
        """The agent's calls in order, refused ones included."""
        return [entry for entry in self.journal if entry.actor.kind == "agent"]

    @cached_property
    def agent_changes(self) -> list[RowChange]:
        """The net change set of the agent's own calls; what events and coworkers did is not in it."""
        own = {entry.seq for entry in self.agent_calls}
        return net_changes(change for change in self.world.row_changes() if change.call in own)

    def records(self, type_name: str) -> list[JsonObject]:
        """All records of a type at the end, in the order in which they were added."""
        if type_name not in self._records:
            self._records[type_name] = self.world.dump(type_name)
        return self._records[type_name]

    def shown(self, change: RowChange) -> JsonObject:
        """The row of a change as checks see it: the new one, for a deletion the old one."""
        row = change.after if change.after is not None else change.before or {}
        return self.world.image.workplace.types[change.type].shown(row)

    @cached_property
    def said(self) -> list[str]:
        """What the agent said to the user, in order."""
        return [
            message.content
            for message in self.messages
            if message.role == "assistant" and not message.tool_calls and message.content.strip()
        ]

    @cached_property
    def final_words(self) -> str | None:
        """The agent's last words to the user; None if it said nothing since the user last spoke."""
        for message in reversed(self.messages):
            if message.role == "user":
                return None
            if message.role == "assistant" and not message.tool_calls and message.content.strip():
                return message.content
        return None
