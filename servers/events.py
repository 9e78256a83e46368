"""Events: what happens in a workplace without the agent.

An event is data: when (at a time, after a call, after a turn of the agent) and what (calls that people make through the
same door as the agent). It is loud when it has a ``notice`` for the agent, silent when it has none. Coworkers who
answer are events too: "when the agent asks Priya by mail, Priya replies four minutes later".

``EventSpec`` is the form in files; ``compile_events`` checks it against a workplace and gives what a world runs.

Not promised: an event whose call is refused (the agent deleted the thread it wanted to answer) is not tried again; the
refusal stands in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema, model_validator

from servers.errors import Problem, SpecError, suggest
from servers.matching import FieldsMatcher, compile_fields
from servers.records import Instant

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: object) -> int:
    """Read a duration (whole seconds, or text such as ``90s``, ``15m``, ``2h``, ``1d``) as seconds.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    text = str(value)
    if text[-1:] in UNITS and text[:-1].isdigit():
        return int(text[:-1]) * UNITS[text[-1]]
    raise ValueError("expected a duration such as 90s, 15m, 2h or 1d")


def _show_duration(seconds: int) -> str:
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS[unit] == 0:
            return f"{seconds // UNITS[unit]}{unit}"
    return f"{seconds}s"


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(_show_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "integer"]}),
]


class Spec(BaseModel):
    """Base of what stands in environment files: unknown keys are an error with a path."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CallPattern(Spec):
    """A call that somebody makes and that succeeds."""

    tool: str | list[str]
    """One tool, or any of several."""
    where: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Matches on arguments, by argument name."""
    result: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Matches on the result, by dotted path."""
    by: Literal["agent", "anyone"] = "agent"

    @property
    def tools(self) -> list[str]:
        """The names of the tools meant."""
        return [self.tool] if isinstance(self.tool, str) else self.tool


class When(Spec):
    """The moment of an event: exactly one of ``at``, ``after``, ``after_call`` and ``after_turn``."""

    at: Instant | None = None
    after: Duration | None = None
    """Time since the episode began."""
    after_call: CallPattern | None = None
    after_turn: int | None = Field(default=None, ge=1)
    """After the agent's turn of this number (a turn ends when the agent speaks to the user)."""
    delay: Duration = 0
    """Time between the trigger and the event."""
    times: int = Field(default=1, ge=1)
    """How often ``after_call`` may trigger."""

    @model_validator(mode="after")
    def _one_moment(self) -> When:
        given = [name for name in ("at", "after", "after_call", "after_turn") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"expected exactly one of at, after, after_call, after_turn; got {', '.join(given) or 'none'}"
            )
        return self


class Action(Spec):
    """A call that a person makes.

    Arguments may refer to the triggering call (``$call.arguments.subject``, ``$call.result.message_id``) and to results
    of earlier actions of the same event by ``bind``.
    """

    by: str
    """Mail address of the person."""
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    bind: str | None = None


class EventSpec(Spec):
    """Something that happens without the agent."""

    id: str
    when: When
    do: list[Action] = Field(default_factory=list[Action])
    notice: str | None = None
    """What the agent is told. None: a silent event, to be found by looking again."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """An event armed on calls, with its patterns compiled."""

    event: EventSpec
    where: FieldsMatcher
    result: FieldsMatcher
    anyone: bool


@dataclass(frozen=True, slots=True)
class Events:
    """All events of an environment, compiled."""

    specs: Mapping[str, EventSpec]
    timed: tuple[tuple[int, str], ...]
    """(due, event id), for events at a time."""
    on_call: Mapping[str, tuple[Trigger, ...]]
    """By tool name."""
    on_turn: Mapping[int, tuple[EventSpec, ...]]


NO_EVENTS = Events({}, (), {}, {})


def compile_events(
    specs: Sequence[EventSpec], *, start: int, tools: Mapping[str, object], people: Mapping[str, object]
) -> Events:
    """Check events against a workplace and prepare them for running.

    Raises:
        SpecError: An id twice, an unknown tool or person, an impossible time or a pattern that is none.
    """
    problems: list[Problem] = []
    by_id: dict[str, EventSpec] = {}
    timed: list[tuple[int, str]] = []
    on_call: dict[str, list[Trigger]] = {}
    on_turn: dict[int, list[EventSpec]] = {}
    for index, spec in enumerate(specs):
        where = f"events[{index}]"
        if spec.id in by_id:
            problems.append(Problem("duplicate_id", f"{where}.id", f"event {spec.id!r} is there twice"))
        by_id[spec.id] = spec
        problems += _unknown_names(spec, where, tools, people)
        when = spec.when
        if when.at is not None:
            if when.at < start:
                problems.append(Problem("impossible_time", f"{where}.when.at", "the event lies before the start"))
            timed.append((when.at + when.delay, spec.id))
        elif when.after is not None:
            timed.append((start + when.after + when.delay, spec.id))
        elif when.after_call is not None:
            pattern = when.after_call
            try:
                trigger = Trigger(
                    spec,
                    compile_fields(pattern.where, f"{where}.when.after_call.where"),
                    compile_fields(pattern.result, f"{where}.when.after_call.result"),
                    pattern.by == "anyone",
                )
            except SpecError as error:
                problems += error.problems
            else:
                for name in pattern.tools:
                    on_call.setdefault(name, []).append(trigger)
        elif when.after_turn is not None:
            on_turn.setdefault(when.after_turn, []).append(spec)
    if problems:
        raise SpecError(problems)
    return Events(
        by_id,
        tuple(sorted(timed)),
        {name: tuple(triggers) for name, triggers in on_call.items()},
        {turn: tuple(events) for turn, events in on_turn.items()},
    )


def _unknown_names(
    spec: EventSpec, where: str, tools: Mapping[str, object], people: Mapping[str, object]
) -> list[Problem]:
    problems: list[Problem] = []
    pattern = spec.when.after_call
    problems += [
        Problem("unknown_tool", f"{where}.when.after_call.tool", f"no tool {name!r}", suggest(name, tools))
        for name in ([] if pattern is None else pattern.tools)
        if name not in tools
    ]
    for number, action in enumerate(spec.do):
        here = f"{where}.do[{number}]"
        if action.tool not in tools:
            problems.append(
                Problem("unknown_tool", f"{here}.tool", f"no tool {action.tool!r}", suggest(action.tool, tools))
            )
        if action.by not in people:
            problems.append(
                Problem(
                    "unknown_person", f"{here}.by", f"nobody has the address {action.by!r}", suggest(action.by, people)
                )
            )
    return problems
