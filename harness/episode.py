"""One episode: an agent at a desk, a user, a changing workplace, and a grade at the end.

In order: open the world; connect over MCP; then, until somebody stops or a budget is spent, ask the agent for
a message, run the calls it asks for, or let the user answer its words; freeze the world; grade the frozen
copy.

Budgets: ``Environment.budget`` counts messages and turns in the simulated world. ``Limits`` are real seconds,
each for one thing, so that a slow provider is never taken for a slow agent: connecting, one tool call, one
message of the agent, the whole episode, grading. At the deadline of an episode it is cut, graded as it stands
and marked truncated; time that a message waited in a queue (``AgentTurn.queued``) is not counted. What ends
an episode early is an ``EpisodeFault`` (``harness.errors``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import anyio
import anyio.to_thread
import mcp
import mcp_types

from harness.agents.base import Agent, AgentTurn, Briefing, Session, Usage
from harness.checks import CheckResult
from harness.environment import Environment
from harness.errors import EpisodeFault, Status, blame
from harness.grading import Grade, grade
from harness.messages import Message, ToolCall, ToolSpec
from harness.outcome import Disclosure, Outcome
from harness.prompt import system_prompt
from harness.trajectory import (
    CallRecord,
    ChangeRecord,
    CheckRecord,
    JournalRecord,
    MessageRecord,
    ScoreRecord,
    Trajectory,
)
from harness.user import ScriptedUser
from servers.desk import Desk, agent_desk
from servers.errors import ServiceFault
from servers.journal import RowChange
from servers.mcp_server import desk_server
from servers.records import RecordType, iso_utc
from servers.world import World

MCP_VERSION = "2026-07-28"


@dataclass(frozen=True, slots=True)
class Limits:
    """Real seconds that each thing may take."""

    connect: float = 30
    call: float = 30
    message: float = 600
    episode: float = 3600
    grade: float = 30


@dataclass(slots=True)
class Conversation:
    """What was said so far, and what the agent has not heard yet."""

    world: World
    messages: list[Message] = field(default_factory=list[Message])
    records: list[MessageRecord] = field(default_factory=list[MessageRecord])
    unheard: list[Message] = field(default_factory=list[Message])
    usage: list[Usage] = field(default_factory=list[Usage])
    steps: int = 0

    def hear(self, message: Message) -> None:
        """Add a message that the agent has to hear."""
        self.unheard.append(message)
        self._add(message)

    def speak(self, turn: AgentTurn) -> None:
        """Add a message of the agent."""
        self.steps += 1
        self.unheard = []
        self.usage.append(turn.usage)
        self._add(turn.message, self.world.state_hash())

    def _add(self, message: Message, state: str | None = None) -> None:
        self.messages.append(message)
        self.records.append(
            MessageRecord(
                role=message.role,
                content=message.content,
                at=iso_utc(self.world.now),
                calls=[
                    CallRecord(id=call.id, name=call.name, arguments=call.arguments, problem=call.problem)
                    for call in message.tool_calls
                ],
                call_id=message.tool_call_id,
                is_error=message.is_error,
                state=state,
            )
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """How an episode ended."""

    status: Status
    reason: str
    truncated: bool = False


async def run_episode(
    environment: Environment, agent: Agent, *, trial: int = 0, seed: int = 0, limits: Limits | None = None
) -> Trajectory:
    """Run one episode from opening to grading.

    Raises:
        SpecError: The environment itself does not fit together.
    """
    limits = limits or Limits()
    environment.validate_all()
    world = World.open(environment.image)
    try:
        episode = Episode(environment, agent, world, trial=trial, seed=seed, limits=limits)
        ending = await episode.run()
        return await episode.finish(ending)
    finally:
        world.close()


class Episode:
    """The moving parts of one episode."""

    def __init__(
        self, environment: Environment, agent: Agent, world: World, *, trial: int, seed: int, limits: Limits
    ) -> None:
        self.environment = environment
        self.agent = agent
        self.world = world
        self.trial = trial
        self.seed = seed
        self.limits = limits
        self.deadline = anyio.move_on_after(limits.episode)
        self.talk = Conversation(world)
        self.user = ScriptedUser(environment.user)
        self.disclosures: list[Disclosure] = []
        self.faults: list[ServiceFault] = []
        self.tools: tuple[ToolSpec, ...] = ()
        self.session: Session | None = None

    async def run(self) -> Ending:
        """Let the episode happen; whatever goes wrong becomes its ending."""
        desk = agent_desk(self.world, self.environment.exposed, notices=self.environment.notices)
        with self.deadline:
            return await self._connected(desk)
        return Ending("done", "deadline", truncated=True)

    async def _connected(self, desk: Desk) -> Ending:
        async with mcp.Client(desk_server(desk, on_fault=self.faults.append), mode=MCP_VERSION) as client:
            # Caught in here: the client's task group would wrap what leaves it in an exception group.
            try:
                return await self._from_briefing(client)
            except EpisodeFault as fault:
                return Ending(fault.status, str(fault))

    async def _from_briefing(self, client: mcp.Client) -> Ending:
        try:
            with anyio.fail_after(self.limits.connect), blame("infra", "mcp"):
                listed = await client.list_tools()
        except TimeoutError:
            raise EpisodeFault("infra", "mcp", f"no tools within {self.limits.connect:g} s") from None
        self.tools = tuple(ToolSpec(t.name, t.description or "", t.input_schema) for t in listed.tools)
        briefing = Briefing(self.environment, system_prompt(self.environment), self.tools, self.seed)
        with blame("failed", "agent"):
            self.session = await self.agent.begin(briefing)
        self.talk.hear(Message("system", briefing.system))
        self.talk.hear(Message("user", self.environment.request))
        return await self._converse(client, self.session)

    async def _converse(self, client: mcp.Client, session: Session) -> Ending:
        budget = self.environment.budget
        while self.talk.steps < budget.steps:
            turn = await self._ask(session)
            self.deadline.deadline += turn.queued
            self.talk.speak(turn)
            with blame("invalid", "environment"):
                self.world.advance(budget.think)
            for call in turn.message.tool_calls:
                self.talk.hear(await self._call(client, call))
            if turn.finished:
                return Ending("done", "agent_stop")
            if not turn.message.tool_calls:
                ending = self._hand_over(turn.message)
                if ending is not None:
                    return ending
        return Ending("done", "max_steps", truncated=True)

    async def _ask(self, session: Session) -> AgentTurn:
        try:
            with anyio.fail_after(self.limits.message), blame("failed", "agent"):
                return await session.act(tuple(self.talk.unheard))
        except TimeoutError:
            raise EpisodeFault("infra", "agent", f"no message within {self.limits.message:g} s") from None

    async def _call(self, client: mcp.Client, call: ToolCall) -> Message:
        if call.problem is not None:
            return Message("tool", call.problem, tool_call_id=call.id, is_error=True)
        try:
            with anyio.fail_after(self.limits.call), blame("infra", "mcp"):
                result = await client.call_tool(call.name, call.arguments)
        except TimeoutError:
            late = f"{call.name} gave no answer within {self.limits.call:g} s"
            raise EpisodeFault("invalid", "environment", late) from None
        if self.faults:
            raise EpisodeFault("invalid", "environment", str(self.faults[0])) from self.faults[0]
        text = "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))
        return Message("tool", text, tool_call_id=call.id, is_error=bool(result.is_error))

    def _hand_over(self, message: Message) -> Ending | None:
        with blame("invalid", "environment"):
            self.world.end_turn()
        with blame("invalid", "user"):
            reply = self.user.reply(message.content)
        last = self.world.journal_length
        self.disclosures += [Disclosure(fact, last) for fact in reply.disclosed]
        if reply.stop:
            return Ending("done", "user_stop")
        if self.user.turn >= self.environment.budget.turns:
            return Ending("done", "max_turns", truncated=True)
        notices = [f"[notice] {text}" for text in self.world.take_notices()]
        self.talk.hear(Message("user", "\n".join([reply.text, *notices])))
        return None

    async def finish(self, ending: Ending) -> Trajectory:
        """Grade a frozen copy and write everything down."""
        result = Grade(None, ())
        if ending.status in ("done", "failed"):
            try:
                result = await self._grade()
            except EpisodeFault as fault:
                ending = Ending(fault.status, str(fault))
            else:
                if result.score is None:
                    wrong = [f"{r.check.id}: {r.detail}" for r in result.checks if r.verdict == "ERROR"]
                    ending = Ending("invalid", f"grader: {'; '.join(wrong)}")
        return self._trajectory(ending, result)

    async def _grade(self) -> Grade:
        frozen = self.world.fork()
        outcome = Outcome(frozen, messages=self.talk.messages, disclosures=self.disclosures)

        def work() -> Grade:
            try:
                return grade(self.environment, outcome)
            finally:
                frozen.close()

        try:
            with anyio.fail_after(self.limits.grade), blame("invalid", "grader"):
                # In a thread, because nothing else can leave a check behind that does not come to an end.
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except TimeoutError:
            raise EpisodeFault("invalid", "grader", f"no grade within {self.limits.grade:g} s") from None

    def _trajectory(self, ending: Ending, result: Grade) -> Trajectory:
        usage = self.talk.usage
        return Trajectory(
            environment=self.environment.id,
            digest=self.environment.digest,
            family=self.environment.family,
            agent=self.agent.name,
            trial=self.trial,
            seed=self.seed,
            status=ending.status,
            reason=ending.reason,
            truncated=ending.truncated,
            messages=self.talk.records,
            tools=[
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                for tool in self.tools
            ],
            journal=journal_records(self.world),
            checks=[_check_record(found) for found in result.checks],
            score=None if result.score is None else ScoreRecord(**asdict(result.score)),
            usage={
                "prompt_tokens": sum(u.prompt_tokens for u in usage),
                "completion_tokens": sum(u.completion_tokens for u in usage),
                "cost": sum(u.cost for u in usage),
            },
            state=self.world.state_hash(),
            extra={} if self.session is None else self.session.record(),
        )


def journal_records(world: World) -> list[JournalRecord]:
    """The journal of a world with the rows that each call changed, in the form of result files."""
    changes: dict[int, list[RowChange]] = {}
    for change in world.row_changes():
        changes.setdefault(change.call, []).append(change)
    types = world.image.workplace.types
    return [
        JournalRecord(
            seq=entry.seq,
            at=iso_utc(entry.at),
            actor=entry.actor.kind,
            person=entry.actor.person,
            tool=entry.tool,
            arguments=entry.arguments,
            error=entry.error,
            event=entry.event,
            changes=[_change_record(change, types[change.type]) for change in changes.get(entry.seq, ())],
        )
        for entry in world.journal()
    ]


def _check_record(found: CheckResult) -> CheckRecord:
    return CheckRecord(
        id=found.check.id,
        kind=found.check.kind,
        about=found.check.about,
        guard=found.check.guard,
        verdict=found.verdict,
        detail=found.detail,
    )


def _change_record(change: RowChange, derived: RecordType) -> ChangeRecord:
    before, after = change.before, change.after
    if before is not None and after is not None:
        names = change.fields
        before = {name: before.get(name) for name in names}
        after = {name: after.get(name) for name in names}
    return ChangeRecord(
        type=change.type,
        key=change.key,
        operation=change.operation,
        before=None if before is None else derived.shown(before),
        after=None if after is None else derived.shown(after),
    )


def messages_of(trajectory: Trajectory) -> Sequence[Message]:
    """The conversation of a trajectory as messages."""
    return [
        Message(
            record.role,
            record.content,
            tuple(ToolCall(c.id, c.name, c.arguments, c.problem) for c in record.calls),
            record.call_id,
            record.is_error,
        )
        for record in trajectory.messages
    ]
