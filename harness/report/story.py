"""What the report shows of one episode: steps in the order in which they happened, each with what it changed.

A trajectory holds the conversation and the journal apart. Here they are joined: the agent's journal entries
are its calls in order, so each call gets the rows it changed, and what coworkers did stands where it
happened, before the call that came after it.

A story is plain JSON with these steps, told apart by ``kind``:

* ``say``: the agent's words. ``user``: the user's.
* ``call``: a tool, its arguments, its result and notices, and ``changes``.
* ``event``: what coworkers did (``acts``, each with ``changes``), and whether the agent was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from harness.trajectory import CallRecord, ChangeRecord, JournalRecord, MessageRecord, Trajectory

JsonObject = dict[str, Any]

_NOTICE = "[notice] "


def tell(trajectory: Trajectory, events: Mapping[str, str | None]) -> JsonObject:
    """The story of an episode.

    Args:
        trajectory: The record.
        events: Notice of each event by id, None for a silent one (``EnvironmentRecord.events``).
    """
    system = next((message.content for message in trajectory.messages if message.role == "system"), "")
    request = next((message.content for message in trajectory.messages if message.role == "user"), "")
    return {
        "briefing": system,
        "request": request,
        "begin": trajectory.messages[0].at if trajectory.messages else "",
        "reason": trajectory.reason,
        "steps": list(Teller(trajectory, events).steps()),
        "checks": [check.model_dump() for check in trajectory.checks],
        "state": trajectory.state,
    }


class Teller:
    """Walks through conversation and journal together."""

    def __init__(self, trajectory: Trajectory, events: Mapping[str, str | None]) -> None:
        self._messages = trajectory.messages
        self._journal = trajectory.journal
        self._position = 0
        """The first journal entry that has not been told."""
        self._events = events

    def steps(self) -> Iterator[JsonObject]:
        """All steps after the request, in order."""
        answers = {message.call_id: message for message in self._messages if message.role == "tool"}
        heard_request = False
        for message in self._messages:
            if message.role == "assistant":
                yield from self._meanwhile(None, message.at)
                if message.content.strip():
                    yield {"kind": "say", "at": message.at, "text": message.content}
                for call in message.calls:
                    yield from self._call(message, call, answers.get(call.id))
            elif message.role == "user":
                if heard_request:
                    yield from self._meanwhile(None, message.at)
                    yield {"kind": "user", "at": message.at, "text": message.content}
                heard_request = True
        yield from self._meanwhile(None)

    def _call(self, message: MessageRecord, call: CallRecord, answer: MessageRecord | None) -> Iterator[JsonObject]:
        step: JsonObject = {
            "kind": "call",
            "at": message.at,
            "tool": call.name,
            "arguments": call.arguments,
            "changes": [],
        }
        if call.problem is None and answer is not None:
            yield from self._meanwhile(call.name)
            entry = self._take()
            if entry is not None:
                step |= {"at": entry.at, "changes": self._changes(entry.changes)}
        if answer is not None:
            step["result"], step["notices"] = _split_notices(answer.content)
            step["error"] = answer.is_error
        yield step

    def _meanwhile(self, tool: str | None, until: str | None = None) -> Iterator[JsonObject]:
        """What coworkers did before the agent's next call, or up to a moment."""
        entries: list[JournalRecord] = []
        while self._position < len(self._journal):
            entry = self._journal[self._position]
            if entry.actor == "agent" and (tool is not None or until is not None):
                break
            if until is not None and entry.at > until:
                break
            entries.append(entry)
            self._position += 1
        for (event, at), group in groupby(entries, key=lambda entry: (entry.event, entry.at)):
            yield self._event(event, at, list(group))

    def _take(self) -> JournalRecord | None:
        if self._position == len(self._journal):
            return None
        self._position += 1
        return self._journal[self._position - 1]

    def _event(self, event: str | None, at: str, entries: Sequence[JournalRecord]) -> JsonObject:
        return {
            "kind": "event",
            "at": at,
            "event": event,
            "notice": None if event is None else self._events.get(event),
            "acts": [
                {
                    "actor": entry.actor,
                    "person": entry.person,
                    "tool": entry.tool,
                    "arguments": entry.arguments,
                    "error": entry.error,
                    "changes": self._changes(entry.changes),
                }
                for entry in entries
            ],
        }

    def _changes(self, changes: Sequence[ChangeRecord]) -> list[JsonObject]:
        return [
            {
                "type": change.type,
                "key": change.key,
                "operation": change.operation,
                "fields": [[name, before, after] for name, before, after in _fields(change)],
            }
            for change in changes
        ]


def _fields(change: ChangeRecord) -> Iterator[tuple[str, Any, Any]]:
    """The fields to show; of a row that came or went, those that hold something besides its key."""
    before, after = change.before or {}, change.after or {}
    for name in {**after, **before}:
        pair = before.get(name), after.get(name)
        empty = all(value in (None, "", [], {}, False) for value in pair)
        if change.operation == "updated" or not (empty or change.key in pair):
            yield name, *pair


def _split_notices(content: str) -> tuple[str, list[str]]:
    """A tool's result, and the notices told behind it."""
    lines = content.split("\n")
    end = len(lines)
    while end > 1 and lines[end - 1].startswith(_NOTICE):
        end -= 1
    return "\n".join(lines[:end]), [line.removeprefix(_NOTICE) for line in lines[end:]]
