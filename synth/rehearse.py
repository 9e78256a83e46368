"""Rehearsals: many programs played on one environment, over real MCP, without paying for each from the start.

A certificate plays the oracle once and then dozens of variants that differ from it in a step or two. Every variant begins at a fork of the
oracle's world just before the first step that differs, behind one MCP connection whose desk is moved from world to world. The rules of
time, turns and user are those of ``harness.episode``; a test holds that both give the same grade.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast

import mcp
from pydantic_core import from_json

from harness.environment import Environment, Step
from harness.episode import MCP_VERSION
from harness.grading import Grade, grade
from harness.messages import Message
from harness.outcome import Disclosure, Outcome
from harness.user import ScriptedUser
from servers.bindings import BindingError, resolve
from servers.desk import Desk, agent_desk
from servers.errors import ServiceFault
from servers.mcp_server import make_server
from servers.world import World

Program = Sequence[Step]


@dataclass(slots=True)
class Stage:
    """An episode at one moment; can be forked."""

    world: World
    user: ScriptedUser
    messages: list[Message] = field(default_factory=list[Message])
    """What agent and user said to each other, after the request."""
    disclosures: list[Disclosure] = field(default_factory=list[Disclosure])
    bindings: dict[str, Any] = field(default_factory=dict[str, Any])
    steps: int = 0
    over: bool = False

    def fork(self) -> Stage:
        """An independent copy."""
        user = copy(self.user)
        user.known = set(self.user.known)
        return Stage(
            self.world.fork(),
            user,
            list(self.messages),
            list(self.disclosures),
            dict(self.bindings),
            self.steps,
            self.over,
        )


@dataclass(frozen=True, slots=True)
class StepTrace:
    """What one step of a program did."""

    first_call: int
    """Journal entries up to this number existed before."""
    result: str
    """What the agent read: the result or the refusal; what the user answered."""
    ok: bool


@dataclass(frozen=True, slots=True)
class Performance:
    """A program that was played to its end."""

    grade: Grade
    traces: tuple[StepTrace, ...]
    stage: Stage
    broke: str | None
    """A reference that could not be resolved, so the program stopped there."""


class Rehearsal:
    """Plays programs on one environment."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.faults: list[ServiceFault] = []
        self.model: Performance | None = None
        """The oracle's performance, whose moments other programs begin at."""
        self._moments: list[Stage] = []
        self._desk: Desk | None = None
        self._client: mcp.Client | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Rehearsal]:
        """Connect once for all programs."""
        server = make_server(lambda _: cast("Desk", self._desk), on_fault=self.faults.append)
        async with mcp.Client(server, mode=MCP_VERSION) as client:
            self._client = client
            try:
                yield self
            finally:
                for moment in self._moments:
                    moment.world.close()

    async def play_oracle(self) -> Performance:
        """Play the environment's own program, keeping every moment of it."""
        stage = Stage(World.open(self.environment.image), ScriptedUser(self.environment.user))
        self._moments = [stage.fork()]
        traces: list[StepTrace] = []
        broke: str | None = None
        for step in self.environment.oracle:
            if stage.over or broke is not None:
                break
            broke = await self._step(stage, step, traces)
            self._moments.append(stage.fork())
        self.model = Performance(self._grade(stage), tuple(traces), stage, broke)
        return self.model

    async def play(self, program: Program) -> Performance:
        """Play a program, beginning where it first differs from the oracle; the caller closes the stage's world."""
        shared = 0
        known = self.environment.oracle
        limit = min(len(program), len(known), len(self._moments) - 1)
        while shared < limit and program[shared] is known[shared]:
            shared += 1
        if self._moments:
            stage = self._moments[shared].fork()
            traces = list(self.model.traces[:shared]) if self.model is not None else []
        else:
            stage = Stage(World.open(self.environment.image), ScriptedUser(self.environment.user))
            traces = []
        broke: str | None = None
        for step in program[shared:]:
            if stage.over or stage.steps >= self.environment.budget.steps:
                break
            broke = await self._step(stage, step, traces)
            if broke is not None:
                break
        return Performance(self._grade(stage), tuple(traces), stage, broke)

    async def grade_of(self, program: Program) -> Grade:
        """Play a program and give only its grade."""
        performance = await self.play(program)
        performance.stage.world.close()
        return performance.grade

    async def _step(self, stage: Stage, step: Step, traces: list[StepTrace]) -> str | None:
        before = stage.world.journal_length
        try:
            if step.say is not None:
                words = str(resolve(step.say, stage.bindings))
                traces.append(StepTrace(before, self._say(stage, words), ok=True))
                return None
            arguments = cast("dict[str, Any]", resolve(step.arguments, stage.bindings))
        except BindingError as error:
            return str(error)
        stage.steps += 1
        stage.world.advance(self.environment.budget.think)
        self._desk = agent_desk(stage.world, self.environment.exposed, notices=False)
        result = await cast("mcp.Client", self._client).call_tool(step.call or "", arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if step.bind is not None and not result.is_error:
            stage.bindings[step.bind] = from_json(text)
        traces.append(StepTrace(before, text, ok=not result.is_error))
        return None

    def _say(self, stage: Stage, words: str) -> str:
        stage.steps += 1
        stage.messages.append(Message("assistant", words))
        stage.world.advance(self.environment.budget.think)
        stage.world.end_turn()
        reply = stage.user.reply(words)
        last = stage.world.journal_length
        stage.disclosures += [Disclosure(fact, last) for fact in reply.disclosed]
        if reply.stop or stage.user.turn >= self.environment.budget.turns:
            stage.over = True
        else:
            stage.messages.append(Message("user", reply.text))
        return reply.text

    def _grade(self, stage: Stage) -> Grade:
        return grade(self.environment, Outcome(stage.world, messages=stage.messages, disclosures=stage.disclosures))
