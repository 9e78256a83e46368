"""A service that a dict can model, for testing the world engine; and a script to run in two processes."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, ClassVar

from pydantic import Field

from servers.desk import Desk, expose
from servers.image import Image
from servers.journal import Actor
from servers.records import Instant, Record, Ref
from servers.services.directory import DIRECTORY
from servers.services.workplace import WORKPLACE
from servers.tools import Arguments, Call, JsonObject, Service, tool
from servers.world import World
from tests.support import NORA, OMAR, desk, office


class Note(Record):
    """A note, with a field of every kind."""

    type_name: ClassVar[str] = "notes.note"

    id: str
    text: str = ""
    done: bool = False
    weight: float = 0.0
    tags: list[str] = Field(default_factory=list[str])
    seen_at: Instant | None = None
    about: Annotated[str | None, Ref("notes.note")] = None


class Put(Arguments):
    """Write a note."""

    note_id: str
    text: str = ""
    tags: list[str] = Field(default_factory=list[str])


class Edit(Arguments):
    """Change a note."""

    note_id: str
    text: str | None = None
    done: bool | None = None


class Name(Arguments):
    """Name a note."""

    note_id: str


class Fresh(Arguments):
    """Write a note under a new id."""

    text: str = ""


def put(call: Call, args: Put) -> JsonObject:
    """Add a note; the world refuses an id that is there."""
    call.world.insert(Note(id=args.note_id, text=args.text, tags=args.tags, seen_at=call.now))
    return {"note_id": args.note_id, "note": {"tags": args.tags}}


def find(call: Call, key: str) -> Note:
    """The note, or a refusal."""
    note = call.world.get(Note, key)
    if note is None:
        raise call.refuse(f"there is no note {key!r}.")
    return note


def edit(call: Call, args: Edit) -> JsonObject:
    """Change a note."""
    values = args.model_dump(exclude={"note_id"}, exclude_none=True)
    note = call.world.update(find(call, args.note_id), **values)
    return {"note_id": note.id, "text": note.text}


def drop(call: Call, args: Name) -> JsonObject:
    """Remove a note."""
    call.world.delete(find(call, args.note_id))
    return {"note_id": args.note_id}


def show(call: Call, args: Name) -> JsonObject:
    """Read a note."""
    note = find(call, args.note_id)
    return {"note_id": note.id, "text": note.text, "done": note.done}


def fresh(call: Call, args: Fresh) -> JsonObject:
    """Add a note under ids from the world's streams."""
    note = Note(id=f"{call.new_id('note')}-{call.world.next_number('notes')}", text=args.text)
    call.world.insert(note)
    return {"note_id": note.id}


def spoil(call: Call, args: Name) -> JsonObject:
    """Write all over the place, then refuse."""
    _scribble(call, args.note_id)
    raise call.refuse("changed my mind.")


def crash(call: Call, args: Name) -> JsonObject:
    """Write all over the place, then break."""
    _scribble(call, args.note_id)
    raise RuntimeError("out of ink")


def _scribble(call: Call, key: str) -> None:
    call.world.insert(Note(id=call.new_id("note")))
    call.world.next_number("notes")
    call.world.notify("scribbled")
    note = call.world.get(Note, key)
    if note is not None:
        call.world.update(note, text="scribble", done=True)
        call.world.delete(note)


NOTES = Service(
    name="notes",
    title="Notes",
    summary="For tests.",
    records=(Note,),
    tools=(
        tool("notes_put", Put, put, effect="write"),
        tool("notes_edit", Edit, edit, effect="write"),
        tool("notes_drop", Name, drop, effect="destroy"),
        tool("notes_show", Name, show),
        tool("notes_fresh", Fresh, fresh, effect="write"),
        tool("notes_spoil", Name, spoil, effect="write"),
        tool("notes_crash", Name, crash, effect="write"),
    ),
)

AUTHORED: list[dict[str, Any]] = [
    {"id": "a", "text": "alpha", "tags": ["x", "ü"], "weight": 1.5},
    {"id": "b", "text": "beta", "seen_at": "2026-03-01T08:00:00+01:00", "about": "a"},
    {"id": "c"},
]


def notebook(*events: dict[str, Any], seed: str = "office") -> Image:
    """An office with three notes."""
    return office([NOTES, WORKPLACE, DIRECTORY], {"notes.note": AUTHORED}, events=events, seed=seed)


def seat(world: World, person: str) -> Desk:
    """A coworker's way into a world, with all tools."""
    return Desk(world, Actor("coworker", person), expose(world.image.workplace, None))


def script() -> str:
    """Run a fixed sequence of calls; the hashes of image and frozen world."""
    image = notebook(
        {
            "id": "late",
            "when": {"after": "30s"},
            "do": [{"by": OMAR, "tool": "notes_fresh"}],
            "notice": "Omar wrote",
        },
        {
            "id": "echo",
            "when": {
                "after_call": {"tool": "notes_put", "result": {"note.tags": {"contains": "y"}}},
                "delay": "5s",
            },
            "do": [
                {
                    "by": OMAR,
                    "tool": "notes_put",
                    "arguments": {"note_id": "r-$", "text": "$call.arguments.text"},
                }
            ],
        },
    )
    agent = desk(image)
    omar = seat(agent.world, OMAR)
    for number in range(12):
        agent.call("notes_put", {"note_id": f"n{number}", "text": f"text {number}", "tags": ["y", "z"]})
        omar.call("notes_edit", {"note_id": f"n{number - 1}", "done": True})
        agent.call("notes_fresh", {"text": "fresh"})
        agent.call("notes_spoil", {"note_id": "a"})
        agent.call("directory_search", {"query": "dana"})
    agent.call("workplace_wait", {"minutes": 2})
    agent.world.end_turn()
    world: World = agent.world
    assert world.people[NORA].email == NORA
    return json.dumps(
        {
            "image": hashlib.sha256(image.data).hexdigest(),
            "world": hashlib.sha256(world.freeze()).hexdigest(),
            "state": world.state_hash(),
            "journal": world.journal_length,
        }
    )


if __name__ == "__main__":
    print(script())
