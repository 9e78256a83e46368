"""A world: the whole state of one workplace at one moment, and the one door through which every call goes.

* ``World.call`` is the door. Agent, user, coworker and event use it alike: clock, rights, validation, transaction,
  journal.
* ``servers.store.Store``, which it extends, holds the records that services read and write inside a call, and the log.
* ``advance`` and ``end_turn`` move time; due events fire in order.
* ``fork`` and ``freeze`` copy the whole of it; ``changes``, ``journal`` and ``state_hash`` tell what happened.

Time is simulated: it moves by the latency of calls and by ``advance``, never by the wall clock. One world belongs to
one task at a time; different worlds are independent. Not promised: durability of an in-memory world. With ``path`` the
world lives in a file and survives the process; the process that has it open has it alone.

When the database itself fails (a full disk), whatever was being written is undone, the world is again what the database
holds, and ``StorageFault`` says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pydantic_core import from_json, to_json

from servers.bindings import BindingError, resolve
from servers.errors import CoworkEnvError, InUse, ServiceFault, StorageFault, ToolError, suggest
from servers.events import EventSpec
from servers.image import Image
from servers.journal import Actor, argument_text
from servers.store import Store
from servers.tools import Call, JsonObject, Tool

P = ParamSpec("P")
T = TypeVar("T")

REFUSAL_LIMIT = 1200
"""Longest text of a refusal, characters; of a longer one the middle is left out."""
_REFUSAL_HEAD = 400
_CUT = " [...] "


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call gave."""

    ok: bool
    text: str
    """JSON of the result, or the words of the refusal."""
    value: JsonObject | None
    """The result; None for a refusal."""
    seq: int
    """Number of the journal entry."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to which a world can go back; see ``World.mark``."""

    number: int
    now: int
    turn: int
    seq: int
    next_due: int | None
    hash: int
    hashed: int


def _guarded(method: Callable[Concatenate[World, P], T]) -> Callable[Concatenate[World, P], T]:
    """Wrap a method that writes, so that a database that fails leaves no half of anything behind."""

    @wraps(method)
    def guarded(world: World, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(world, *args, **kwargs)
        except sqlite3.Error as error:
            world.recover()
            raise StorageFault(
                f"the data of this workplace could not be written or read ({error}). Its last step was undone and it "
                "has no score any more; see to the disk and open it anew."
            ) from error

    return guarded


class World(Store):
    """One live workplace."""

    __slots__ = ("_event", "_marks", "_next_due", "now", "turn")

    def __init__(self, image: Image, connection: sqlite3.Connection) -> None:
        """A world at the very beginning of ``image``, kept in ``connection``; use ``open``."""
        super().__init__(image, connection)
        self.now = image.start
        """Simulated time, seconds since 1970 UTC."""
        self.turn = 0
        """Turns of the agent that have ended."""
        self._event: str | None = None
        self._next_due = image.next_due
        self._marks = 0

    @classmethod
    def open(cls, image: Image, path: Path | None = None) -> World:
        """Open a world from an image; from the file at ``path`` when that exists already.

        Raises:
            InUse: Another process, or this one, has the file open.
            CoworkEnvError: The file belongs to another image or is no world.
        """
        if path is None:
            connection = _connect(":memory:")
            image.copy_into(connection)
            return cls(image, connection)
        connection: sqlite3.Connection | None = None
        try:
            connection = _connect(str(path))
            _keep_alone(connection)
            known = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
            if known:
                _same_image(connection, image, path)
            else:
                image.copy_into(connection)
                connection.execute("INSERT INTO _meta VALUES ('image', ?)", (image.digest,))
            # A killed process loses nothing; a power cut may cost the last calls but never half of one.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise InUse(
                    f"{path}: another process keeps this workplace. Stop it, or name another directory."
                ) from None
            raise CoworkEnvError(
                f"{path}: cannot keep a world there ({error}). Name a writable file or directory."
            ) from None
        world = cls(image, connection)
        if known:
            world._read_mirrors()
        return world

    # ------------------------------------------------------------------ the door

    @_guarded
    def call(
        self, tool: str, arguments: Mapping[str, Any], actor: Actor, exposed: Mapping[str, Tool] | None = None
    ) -> CallResult:
        """Run a tool on behalf of ``actor``; the only way in which anything in a world changes.

        An agent's call takes the tool's latency: time moves first, due events fire, then the tool runs. ``exposed`` are
        the tools that this caller has, all by default.

        A refusal of more than ``REFUSAL_LIMIT`` characters, which repeats what the caller sent, loses its middle: the
        end stays, where it says what is valid. The journal keeps arguments as they came.

        Raises:
            ServiceFault: The tool broke; the world is as it was before the call.
            StorageFault: The database failed.
            WorldClosed: The world is closed.
        """
        tools = self.image.workplace.tools if exposed is None else exposed
        declared = tools.get(tool)
        if actor.kind == "agent" and declared is not None:
            self._pass_time(declared, arguments)
        result = self._perform(tool, arguments, actor, tools)
        if result.ok and tool in self.image.events.on_call:
            self._react(tool, arguments, actor, result)
        return result

    def _pass_time(self, declared: Tool, arguments: Mapping[str, Any]) -> None:
        self.advance(declared.latency)
        if declared.waits is not None:
            try:
                limit = declared.waits(declared.parse(arguments))
            except ToolError:
                return  # the call itself will be refused with these words
            self.advance_to_next_event(limit)

    def _perform(
        self, tool: str, arguments: Mapping[str, Any], actor: Actor, tools: Mapping[str, Tool], unfit: str = ""
    ) -> CallResult:
        connection = self._live()
        declared = tools.get(tool)
        if declared is None:
            tool = tool.encode("utf-8", "replace").decode()
        given, broken = argument_text(arguments)
        value: JsonObject | None = None
        error: str | None = None
        seq = self._seq + 1
        # A savepoint and not a transaction, because a call may happen between ``mark`` and ``rewind``.
        connection.execute("SAVEPOINT call")
        try:
            try:
                if unfit or broken:
                    raise ToolError(f"{tool}: {unfit or broken}")
                value = self._run(tool, declared, arguments, actor, tools)
                text = to_json(value).decode()
            except ToolError as refusal:
                connection.execute("ROLLBACK TO call")
                value, error = None, _clipped(str(refusal))
                text = error
            connection.execute(
                "INSERT INTO _journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (seq, self.now, actor.kind, actor.person, tool, given, None if error else text, error, self._event),
            )
        except (sqlite3.Error, StorageFault):
            raise  # the database may have ended the savepoint by itself; ``_guarded`` undoes everything
        except BaseException as fault:
            connection.execute("ROLLBACK TO call")
            connection.execute("RELEASE call")
            if isinstance(fault, Exception):
                raise ServiceFault(f"{tool} broke: {fault!r}") from fault
            raise
        connection.execute("RELEASE call")
        self._seq = seq
        return CallResult(error is None, text, value, seq)

    def _run(
        self,
        tool: str,
        declared: Tool | None,
        arguments: Mapping[str, Any],
        actor: Actor,
        tools: Mapping[str, Tool],
    ) -> JsonObject:
        if declared is None:
            raise ToolError(f"there is no tool {tool!r}. {suggest(tool, tools)}")
        person = self.people.get(actor.person)
        if person is None:
            raise ToolError(f"{tool}: {actor.person!r} is nobody in this workplace")
        return declared.run(Call(self, tool, person, self.now), declared.parse(arguments))

    # ------------------------------------------------------------------ time and events

    @_guarded
    def advance(self, seconds: int) -> None:
        """Let time pass; events that fall due fire in order, each at its own time.

        Raises:
            ServiceFault: A tool broke that an event called.
            StorageFault: The database failed.
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError("time does not run backwards")
        target = self.now + seconds
        if self._next_due is not None and self._next_due <= target:
            self._fire_until(target)
        if target > self.now:
            self._set_now(target)

    def advance_to_next_event(self, limit: int) -> bool:
        """Let time pass until the next pending event has fired, at most ``limit`` seconds; say whether one did."""
        due = self._next_due
        self.advance(limit if due is None else min(limit, max(0, due - self.now)))
        return due is not None and due <= self.now

    @_guarded
    def end_turn(self) -> None:
        """The agent's turn is over: count it and fire what waits for it."""
        connection = self._live()
        self.turn += 1
        connection.execute("UPDATE _state SET turn = ?", (self.turn,))
        for spec in self.image.events.on_turn.get(self.turn, ()):
            self._schedule(spec, {})
        self.advance(0)

    def _react(self, tool: str, arguments: Mapping[str, Any], actor: Actor, result: CallResult) -> None:
        connection = self._live()
        for trigger in self.image.events.on_call[tool]:
            if not trigger.anyone and actor.kind != "agent":
                continue
            if not (trigger.where.test(arguments) and trigger.result.test(result.value or {})):
                continue
            spent = connection.execute(
                "UPDATE _armed SET remaining = remaining - 1 WHERE event = ? AND remaining > 0", (trigger.event.id,)
            )
            if spent.rowcount:
                call = {"arguments": dict(arguments), "result": result.value, "by": actor.person}
                self._schedule(trigger.event, {"call": call})
        if self._event is None:
            self.advance(0)

    def _schedule(self, spec: EventSpec, bindings: JsonObject) -> None:
        due = self.now + spec.when.delay
        self._live().execute(
            "INSERT INTO _pending (due, event, bindings) VALUES (?, ?, ?)", (due, spec.id, to_json(bindings).decode())
        )
        self._next_due = due if self._next_due is None else min(self._next_due, due)

    def _fire_until(self, target: int) -> None:
        connection = self._live()
        while self._next_due is not None and self._next_due <= target:
            seq, due, event, bindings = connection.execute(
                "SELECT seq, due, event, bindings FROM _pending ORDER BY due, seq LIMIT 1"
            ).fetchone()
            connection.execute("DELETE FROM _pending WHERE seq = ?", (seq,))
            self._next_due = self._read_next_due()  # now, since a tool that breaks leaves this loop
            if due > self.now:
                self._set_now(due)
            self._fire(self.image.events.specs[event], from_json(bindings))

    def _fire(self, spec: EventSpec, bindings: JsonObject) -> None:
        self._event = spec.id
        try:
            for action in spec.do:
                actor = Actor("coworker", action.by)
                try:
                    arguments = cast("JsonObject", resolve(action.arguments, bindings))
                except BindingError as missing:  # an earlier action was refused
                    self._perform(action.tool, action.arguments, actor, self.image.workplace.tools, str(missing))
                    continue
                result = self.call(action.tool, arguments, actor)
                if action.bind is not None and result.ok:
                    bindings[action.bind] = result.value
        finally:
            self._event = None
        if spec.notice is not None:
            with suppress(BindingError):  # it would tell of what did not come about
                self.notify(cast("str", resolve(spec.notice, bindings)))

    def _set_now(self, now: int) -> None:
        self.now = now
        self._live().execute("UPDATE _state SET now = ?", (now,))

    def _read_next_due(self) -> int | None:
        row = self._live().execute("SELECT min(due) FROM _pending").fetchone()
        return cast("int | None", row[0])

    def _read_mirrors(self) -> None:
        """Take from the database what this object keeps of it."""
        connection = self._live()
        self.now, self.turn = connection.execute("SELECT now, turn FROM _state").fetchone()
        (self._seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM _journal").fetchone()
        self._next_due = self._read_next_due()
        self._hash, self._hashed = self.image.records_hash, 0

    def recover(self) -> None:
        """End what a database that failed has not finished, marks included, and be again what it holds."""
        connection = self._live()
        self._marks = 0
        with suppress(sqlite3.Error):  # it may fail again; the fault that is on its way voids the episode anyway
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._read_mirrors()

    # ------------------------------------------------------------------ notices

    @_guarded
    def notify(self, text: str) -> None:
        """Leave a notice for the agent."""
        self._live().execute("INSERT INTO _notices (at, text, taken) VALUES (?, ?, 0)", (self.now, text))

    @_guarded
    def take_notices(self) -> list[str]:
        """Give the notices that the agent has not had yet, oldest first, and mark them as given."""
        connection = self._live()
        rows = connection.execute("SELECT text FROM _notices WHERE taken = 0 ORDER BY seq").fetchall()
        if rows:
            connection.execute("UPDATE _notices SET taken = 1 WHERE taken = 0")
        return [cast("str", text) for (text,) in rows]

    # ------------------------------------------------------------------ copies and the end

    def fork(self) -> World:
        """An independent copy of this moment, journal and pending events included.

        Raises:
            StorageFault: There is a mark to which this world may go back, or its database fails.
        """
        source = self._live()
        if source.in_transaction:
            # SQLite would wait for the end of the transaction, which this very thread holds open.
            raise StorageFault("this world cannot be copied while it may go back to a mark. Copy it before that.")
        connection = _connect(":memory:")
        try:
            source.backup(connection)
        except sqlite3.Error as error:
            raise StorageFault(f"the data of this workplace cannot be read ({error})") from error
        world = World(self.image, connection)
        world.now, world.turn, world._seq, world._next_due = self.now, self.turn, self._seq, self._next_due
        world._hash, world._hashed = self._hash, self._hashed
        return world

    @_guarded
    def mark(self) -> Mark:
        """Remember this moment, to ``rewind`` to it.

        Until the world is closed or back at its first mark, it cannot be forked, and its file, if it has one,
        holds what was there before that mark.
        """
        self._marks += 1
        self._live().execute(f"SAVEPOINT mark_{self._marks}")
        return Mark(self._marks, self.now, self.turn, self._seq, self._next_due, self._hash, self._hashed)

    @_guarded
    def rewind(self, mark: Mark) -> None:
        """Be as at ``mark`` again; it stays, later marks are gone.

        A tenth of the cost of a fork and its first call, because the connection keeps its prepared statements.

        Raises:
            ValueError: The mark is gone, since the world went back to an earlier one.
        """
        if mark.number > self._marks:
            raise ValueError("this mark is gone: the world went back to an earlier one")
        self._live().execute(f"ROLLBACK TO mark_{mark.number}")
        self._marks = mark.number
        self.now, self.turn, self._seq, self._next_due = mark.now, mark.turn, mark.seq, mark.next_due
        self._hash, self._hashed = mark.hash, mark.hashed

    def freeze(self) -> bytes:
        """The whole world as bytes of a SQLite database."""
        return self._live().serialize()


def _connect(database: str) -> sqlite3.Connection:
    # No waiting for locks: whoever holds one keeps it.
    return sqlite3.connect(database, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)


def _keep_alone(connection: sqlite3.Connection) -> None:
    """Lock the file until the connection is closed or its process dies, on every platform.

    A lock is only ever given back at the end of a transaction, and in this mode not even then.
    """
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")


def _clipped(words: str) -> str:
    """A refusal that is not longer than ``REFUSAL_LIMIT``."""
    if len(words) <= REFUSAL_LIMIT:
        return words
    return words[:_REFUSAL_HEAD] + _CUT + words[_REFUSAL_HEAD + len(_CUT) - REFUSAL_LIMIT :]


def _same_image(connection: sqlite3.Connection, image: Image, path: Path) -> None:
    row = connection.execute("SELECT value FROM _meta WHERE name = 'image'").fetchone()
    if row is None or row[0] != image.digest:
        connection.close()
        raise CoworkEnvError(
            f"{path}: holds the world of another environment or version. Remove it to start anew, or name another file."
        )
