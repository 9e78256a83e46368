"""Agents without a model: the oracle, scripts, and the agents that must score 0.

``ScriptedAgent`` plays a list of steps (``harness.environment.Step``): calls with references to earlier
results, and words. The oracle is that with the environment's own steps; mutants are that with other steps
(``synth.certify``).

* ``noop`` says nothing useful and stops.
* ``read_only`` calls every reading tool that needs no arguments, and stops.
* ``claim`` says it is all done, naming everything it could find in the request.
* ``careless`` does the oracle's work in a hurry: it goes by what it saw first, never looks again, waits for
  nobody, sends what should be a draft, and says it is done. It is the demo's example of an agent that looks
  right in a call log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from harness.agents.base import AgentTurn, Briefing, NoRecord, Session
from harness.environment import Environment, Step
from harness.errors import EpisodeFault
from harness.messages import Message, ToolCall
from servers.bindings import BindingError, references, resolve

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
            # Notices may stand behind the result.
            self.bindings[self.waiting], _ = json.JSONDecoder().raw_decode(answer.content)
        self.waiting = None
        if self.position >= len(self.steps):
            return AgentTurn(Message("assistant", ""), finished=True)
        step = self.steps[self.position]
        self.position += 1
        finished = self.position == len(self.steps)
        try:
            if step.say is not None:
                return AgentTurn(Message("assistant", str(resolve(step.say, self.bindings))))
            arguments = cast("dict[str, Any]", resolve(step.arguments, self.bindings))
        except BindingError as error:
            raise EpisodeFault("failed", "agent", f"step {self.position} of the script: {error}") from None
        self.waiting = step.bind
        call = ToolCall(f"call_{self.position}", step.call or "", arguments)
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
    reading = [name for name, tool in environment.exposed.items() if tool.effect == "read"]
    free = [name for name in reading if not environment.exposed[name].input_schema.get("required")]
    known = [
        Step(call=step.call, arguments=step.arguments)
        for step in environment.oracle
        if step.call in reading and not references(step.arguments)
    ]
    return [*(Step(call=name) for name in free), *known, Step(say="I have looked at everything.")]


def _careless(environment: Environment) -> list[Step]:
    steps: list[Step] = []
    looked: set[str] = set()
    for step in _first_impression(environment):
        if step.call is None:
            steps.append(step)
            continue
        tool = environment.exposed[step.call]
        seen_before = tool.effect == "read" and step.call in looked
        looked.add(step.call)
        if seen_before or tool.waits is not None:
            continue
        if step.call == "mail_create_draft":
            fields = ("to", "cc", "bcc", "subject", "body")
            sent = {key: value for key, value in step.arguments.items() if key in fields}
            steps.append(Step(call="mail_send", arguments=sent, bind=step.bind))
        else:
            steps.append(step)
    return steps


def _first_impression(environment: Environment) -> list[Step]:
    """What the author says an agent would do that misses what changes meanwhile; the oracle where nothing does."""
    hints = environment.meta.get("hints", {})
    stale = cast("dict[str, Any]", hints).get("stale") if isinstance(hints, dict) else None
    return [Step.model_validate(step) for step in stale] if stale else list(environment.oracle)
