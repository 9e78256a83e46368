"""Rehearsals: many programs played on one environment, over real MCP, without paying for each from the start.

A certificate plays the oracle once and then dozens of variants that differ from it in a step or two. All of
them are played in one world behind one MCP connection: the world remembers its moment before every step of
the oracle (``World.mark``), and a variant begins at the last moment that it shares with the oracle. Whoever
plays many programs plays those that share most first (``Rehearsal.play_all`` does).

The rules of time, turns and user are those of ``harness.episode``; a test holds that both give the same grade
and the same final state. Not promised: more than one rehearsal of the same world at a time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import mcp
import mcp_types
from pydantic_core import from_json

from harness.environment import Environment, Step
from harness.episode import MCP_VERSION
from harness.grading import Grade, grade
from harness.messages import Message
from harness.outcome import Disclosure, Outcome
from harness.user import ScriptedUser
from servers.bindings import BindingError, resolve
from servers.desk import agent_desk
from servers.errors import ServiceFault
from servers.journal import JournalEntry, RowChange
from servers.mcp_server import desk_server
from servers.world import Mark, World

Program = Sequence[Step]


@dataclass(frozen=True, slots=True)
class StepTrace:
    """What one step of a program did."""

    result: str
    """What the agent read: the result or the refusal; what the user answered."""
    ok: bool


@dataclass(frozen=True, slots=True)
class Performance:
    """A program that was played to its end."""

    grade: Grade
    traces: tuple[StepTrace, ...]
    """Of the steps that were played; fewer than the program has when the user left or a budget was spent."""
    broke: str | None
    """A reference that could not be resolved, so the program stopped there."""
    said: tuple[str, ...]
    """What the agent told the user."""
    writes: tuple[tuple[str, object], ...]
    """Tool and arguments of the agent's calls that changed records. Only of the oracle and of what passed:
    nobody asks what else a failure did."""
    changes: tuple[object, ...]
    """What these calls changed in the end, also only of the oracle and of what passed."""
    writing_steps: tuple[int, ...]
    """The steps that were these calls."""

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return self.grade.score is not None and self.grade.score.passed

    @property
    def total(self) -> float:
        """The scalar score; 0 when a check could not decide."""
        return 0.0 if self.grade.score is None else self.grade.score.total


@dataclass(slots=True)
class _Talk:
    """Everything about an episode at one moment that is not in the world."""

    user: ScriptedUser
    messages: list[Message] = field(default_factory=list[Message])
    """What agent and user said to each other, after the request."""
    disclosures: list[Disclosure] = field(default_factory=list[Disclosure])
    bindings: dict[str, Any] = field(default_factory=dict[str, Any])
    traces: list[StepTrace] = field(default_factory=list[StepTrace])
    steps: int = 0
    over: bool = False

    def copy(self) -> _Talk:
        user = replace(self.user, known=set(self.user.known))
        return _Talk(
            user,
            list(self.messages),
            list(self.disclosures),
            dict(self.bindings),
            list(self.traces),
            self.steps,
            self.over,
        )


class Rehearsal:
    """Plays programs on one environment, one after the other."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.faults: list[ServiceFault] = []
        """Tools that broke; nothing that was played counts then."""
        self.world = World.open(environment.image)
        """As the last program left it."""
        self._talk = _Talk(ScriptedUser(environment.user))
        self._moments: list[tuple[Mark, _Talk]] = [(self.world.mark(), self._talk.copy())]
        """Before each step of the oracle, as far as programs went along with it."""
        self._client: mcp.Client | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Rehearsal]:
        """Connect once for all programs; frees the world at the end."""
        desk = agent_desk(self.world, self.environment.exposed, notices=False)
        try:
            async with mcp.Client(desk_server(desk, on_fault=self.faults.append), mode=MCP_VERSION) as client:
                self._client = client
                yield self
        finally:
            self.world.close()

    async def play_all(self, programs: Sequence[Program]) -> list[Performance]:
        """Play programs, cheapest order; gives the performances in the order of the programs."""
        shared = [self._shared(program) for program in programs]
        played: dict[int, Performance] = {}
        for index in sorted(range(len(programs)), key=lambda index: -shared[index]):
            played[index] = await self.play(programs[index])
        return [played[index] for index in range(len(programs))]

    async def play(self, program: Program) -> Performance:
        """Play one program, beginning at the last moment it shares with the oracle that is still remembered."""
        oracle = self.environment.oracle
        begin = min(self._shared(program), len(self._moments) - 1)
        del self._moments[begin + 1 :]
        mark, talk = self._moments[begin]
        self.world.rewind(mark)
        self._talk = talk.copy()
        broke: str | None = None
        for index, step in enumerate(program[begin:], start=begin):
            if self._talk.over or self._talk.steps >= self.environment.budget.steps:
                break
            broke = await self._step(step)
            if broke is not None:
                break
            if len(self._moments) == index + 1 and index < len(oracle) and step is oracle[index]:
                self._moments.append((self.world.mark(), self._talk.copy()))
        self._leave(program, broke)
        return self._performance(program, broke)

    def _shared(self, program: Program) -> int:
        shared = 0
        for step, own in zip(program, self.environment.oracle, strict=False):
            if step is not own:
                break
            shared += 1
        return shared

    async def _step(self, step: Step) -> str | None:
        """Play a step; says what is wrong when a reference in it leads nowhere."""
        talk = self._talk
        try:
            if step.say is not None:
                self._say(str(resolve(step.say, talk.bindings)))
                return None
            arguments = cast("dict[str, Any]", resolve(step.arguments, talk.bindings))
        except BindingError as error:
            return str(error)
        talk.steps += 1
        self.world.advance(self.environment.budget.think)
        result = await cast("mcp.Client", self._client).call_tool(step.call or "", arguments)
        text = "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))
        if step.bind is not None and not result.is_error:
            talk.bindings[step.bind] = from_json(text)
        talk.traces.append(StepTrace(text, ok=not result.is_error))
        return None

    def _say(self, words: str) -> None:
        talk = self._talk
        talk.steps += 1
        talk.messages.append(Message("assistant", words))
        self.world.advance(self.environment.budget.think)
        self.world.end_turn()
        reply = talk.user.reply(words)
        last = self.world.journal_length
        talk.disclosures += [Disclosure(fact, last) for fact in reply.disclosed]
        talk.traces.append(StepTrace(reply.text, ok=True))
        if reply.stop or talk.user.turn >= self.environment.budget.turns:
            talk.over = True
        else:
            talk.messages.append(Message("user", reply.text))

    def _leave(self, program: Program, broke: str | None) -> None:
        """An agent that has nothing left to say, though the user is still there, ends with an empty message."""
        ended_by_call = bool(program) and program[-1].say is None
        spent = self._talk.steps >= self.environment.budget.steps
        if not (ended_by_call or self._talk.over or spent or broke is not None):
            self.world.advance(self.environment.budget.think)

    def _performance(self, program: Program, broke: str | None) -> Performance:
        talk = self._talk
        outcome = Outcome(self.world, messages=talk.messages, disclosures=talk.disclosures)
        result = grade(self.environment, outcome)
        passed = result.score is not None and result.score.passed
        wrote = self._writes(program, outcome) if passed or program is self.environment.oracle else []
        return Performance(
            grade=result,
            traces=tuple(talk.traces),
            broke=broke,
            said=tuple(message.content for message in talk.messages if message.role == "assistant"),
            writes=tuple((entry.tool, entry.arguments) for _, entry in wrote),
            changes=tuple(_content(change) for change in outcome.agent_changes) if wrote else (),
            writing_steps=tuple(index for index, _ in wrote),
        )

    def _writes(self, program: Program, outcome: Outcome) -> list[tuple[int, JournalEntry]]:
        """The steps that changed records, each with its call."""
        changed = {change.call for change in self.world.row_changes()}
        calls = [index for index in range(len(self._talk.traces)) if program[index].call is not None]
        entries = zip(calls, outcome.agent_calls, strict=False)
        return [(index, entry) for index, entry in entries if entry.seq in changed]


def _content(change: RowChange) -> tuple[object, ...]:
    return change.type, change.key, change.before, change.after
