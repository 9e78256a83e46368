"""Agents without a model: the oracle, scripts, and the agents that must score 0.

``ScriptedAgent`` plays a list of steps (``harness.environment.Step``): calls with references to earlier
results, and words. The oracle is that with the environment's own steps; mutants are that with other steps
(``synth.certify``).

* ``NoopAgent`` says nothing useful and stops.
* ``ReadOnlyAgent`` calls every reading tool that needs no arguments, and stops.
* ``ClaimAgent`` says it is all done, naming everything it could find in the request.
* ``CarelessAgent`` plays the oracle without looking: it skips every step that only reads, sends what should
  be a draft, and says it is done. It is the demo's example of an agent that looks right in a call log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from harness.agents.base import AgentTurn, Briefing, NoRecord, Session
from harness.environment import Environment, Step
from harness.errors import EpisodeFault
from harness.messages import Message, ToolCall
from servers.bindings import BindingError, resolve

Program = Callable[[Environment], Sequence[Step]]


@dataclass(slots=True)
class ScriptSession(NoRecord):
    """Plays steps one by one."""

    steps: Sequence[Step]
    position: int = 0
    bindings: dict[str, Any] = field(default_factory=dict[str, Any])
    waiting: str | None = None
    """Name under which the result of the running call is kept."""

    async def act(self, news: Sequence[Message]) -> AgentTurn:
        """Play the next step; the last words end the episode unless the user goes on."""
        answer = next((message for message in reversed(news) if message.role == "tool"), None)
        if self.waiting is not None and answer is not None and not answer.is_error:
            self.bindings[self.waiting] = from_json(answer.content)
        self.waiting = None
        if self.position >= len(self.steps):
            return AgentTurn(Message("assistant", ""), finished=True)
        step = self.steps[self.position]
        self.position += 1
        finished = self.position == len(self.steps)
        try:
            if step.say is not None:
                return AgentTurn(Message("assistant", str(resolve(step.say, self.bindings))))
            arguments = resolve(step.arguments, self.bindings)
        except BindingError as error:
            raise EpisodeFault("failed", "agent", f"step {self.position} of the script: {error}") from None
        self.waiting = step.bind
        call = ToolCall(f"call_{self.position}", step.call or "", arguments)  # type: ignore[arg-type]
        return AgentTurn(Message("assistant", "", (call,)), finished=finished)


@dataclass(slots=True)
class ScriptedAgent(NoRecord):
    """Plays what ``program`` makes of the environment."""

    name: str
    program: Program

    async def begin(self, briefing: Briefing) -> Session:
        """Start with the steps for this environment."""
        return ScriptSession(steps=list(self.program(briefing.environment)))


def oracle() -> ScriptedAgent:
    """The agent that solves every environment the way its author does."""
    return ScriptedAgent("oracle", lambda environment: environment.oracle)


def noop() -> ScriptedAgent:
    """The agent that does nothing."""
    return ScriptedAgent("noop", lambda _: [Step(say="I looked at it.")])


def claim() -> ScriptedAgent:
    """The agent that only says that it is done."""
    return ScriptedAgent("claim", _claim)


def read_only() -> ScriptedAgent:
    """The agent that looks at everything and changes nothing."""
    return ScriptedAgent("read-only", _read_only)


def careless() -> ScriptedAgent:
    """The agent that acts without looking, and sends what should be a draft."""
    return ScriptedAgent("careless", _careless)


def _claim(environment: Environment) -> list[Step]:
    last = next((step.say for step in reversed(environment.oracle) if step.say is not None), "")
    words = "" if "$" in last else f" {last}"
    return [Step(say=f"All done as you asked: {environment.request}{words}")]


def _read_only(environment: Environment) -> list[Step]:
    steps: list[Step] = []
    for name, tool in environment.exposed.items():
        if tool.effect == "read" and not tool.input_schema.get("required"):
            steps.append(Step(call=name))
    steps += [
        Step(call=step.call, arguments=step.arguments)
        for step in environment.oracle
        if step.call is not None and environment.exposed[step.call].effect == "read" and not _refers(step.arguments)
    ]
    return [*steps, Step(say="I have looked at everything.")]


def _careless(environment: Environment) -> list[Step]:
    steps: list[Step] = []
    for step in environment.oracle:
        if step.call is None:
            steps.append(step)
        elif step.call == "mail_create_draft":
            sent = {key: value for key, value in step.arguments.items() if key in ("to", "cc", "bcc", "subject", "body")}
            steps.append(Step(call="mail_send", arguments=sent, bind=step.bind))
        elif environment.exposed[step.call].effect != "read":
            steps.append(step)
    return steps


def _refers(value: object) -> bool:
    from servers.bindings import references  # noqa: PLC0415

    return any(True for _ in references(value))  # type: ignore[arg-type]
