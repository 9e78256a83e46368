"""An environment: one task in one workplace, as plain data.

One pydantic model, stored as a YAML file by hand or as rows of JSON lines by the thousand (``harness.pack``).
It holds the cast, the records of every service, the request, what happens meanwhile, the checks and the
oracle; it holds no code. Unknown keys are an error with a path. ``Environment.image`` validates everything
that the types alone cannot show and freezes the world.

The parts that describe other people's business live with it: checks in ``harness.checks``, the simulated user
in ``harness.user``, events in ``servers.events``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self, cast

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_json

from harness.check_compiler import compile_checks
from harness.checks import Check, CompiledChecks
from harness.user import UserSpec
from servers import catalogue
from servers.declared import ServiceSpec, declared_service
from servers.desk import expose
from servers.errors import Problem, SpecError, problems_from, suggest
from servers.events import Duration, EventSpec, Spec
from servers.image import Image, build_image
from servers.people import Person
from servers.records import Instant
from servers.tools import Tool

SCHEMA = "coworkenv/environment/1"
_KIND_OF_CHECK = re.compile(r"^(checks\[\d+\])\.(?:record|field|changes|calls|order|states|asked)(?=\.|$)")

_Part = Literal["records", "events"]
_LEFT_OUT: tuple[tuple[_Part, ...], ...] = ((), ("records",), ("events",), ("records", "events"))


class Step(Spec):
    """One step of an oracle: a call or words to the user."""

    call: str | None = None
    """A tool."""
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Values may refer to results of earlier steps: ``$draft.draft_id``."""
    bind: str | None = None
    """Name under which later steps refer to the result."""
    say: str | None = None
    """Words to the user; ends the agent's turn."""
    after: list[str] = Field(default_factory=list[str])
    """Names of steps whose results this one needs without referring to them (a lookup that shows an id)."""

    @model_validator(mode="after")
    def _one_thing(self) -> Step:
        if (self.call is None) == (self.say is None):
            raise ValueError("expected exactly one of call and say")
        return self


class Budget(Spec):
    """What an episode may take. Time that a model queues is not the agent's; see ``harness.episode``."""

    steps: int = Field(default=60, ge=1)
    """Messages of the agent."""
    turns: int = Field(default=8, ge=1)
    """Times the agent speaks to the user."""
    think: Duration = 20
    """Simulated time that one message of the agent takes."""


class Environment(Spec):
    """One task in one workplace."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["coworkenv/environment/1"] = Field(default=SCHEMA, alias="schema")
    id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._-]+$")
    family: str = "custom"
    """Workflow family; packs are split by it."""
    capabilities: list[str] = Field(default_factory=list[str])
    difficulty: dict[str, int | float] = Field(default_factory=dict[str, int | float])
    """Measured, not labelled: oracle calls, decoys, events ..."""
    seed: str = "0"
    start: Instant
    principal: str
    """Mail address of the person for whom the agent works."""
    cast: list[Person]
    services: list[str] = Field(default_factory=list[str])
    """Names of built-in services."""
    declared: list[ServiceSpec] = Field(default_factory=list[ServiceSpec])
    """Services given as data."""
    tools: list[str] | None = None
    """The tools that the agent has; None is all of them. A short list keeps a student's prompt short."""
    records: dict[str, list[dict[str, Any]]] = Field(default_factory=dict[str, list[dict[str, Any]]])
    """By full type name, such as ``mail.message``."""
    request: str
    """What the user asks for, the first message to the agent."""
    rules: list[str] = Field(default_factory=list[str])
    """Standing rules of the workplace; the agent reads them before it begins."""
    user: UserSpec = UserSpec()
    events: list[EventSpec] = Field(default_factory=list[EventSpec])
    checks: list[Check] = Field(default_factory=list[Check])
    oracle: list[Step] = Field(default_factory=list[Step])
    budget: Budget = Budget()
    notices: bool = True
    """Loud events are also told behind the next tool result, for agents that never ask."""
    meta: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Provenance: author, version, decoys, certificate, source. Nothing here changes an episode."""

    @classmethod
    def parse(cls, data: object, source: str | None = None) -> Environment:
        """Read an environment from plain data.

        Raises:
            SpecError: With every problem and its path.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise SpecError([_plain_path(problem) for problem in problems_from(error, "")], source) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy that compiles itself anew: what was derived from the old parts does not belong to it."""
        copied = super().model_copy(update=update, deep=deep)
        values = cast("dict[str, Any]", copied.__dict__)
        for name in values.keys() - type(self).model_fields.keys():
            del values[name]
        return copied

    def dump(self) -> dict[str, Any]:
        """Plain data that ``parse`` reads back; defaults left out."""
        return {"schema": SCHEMA} | self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything that makes the episode what it is (not ``meta``), 64 hex digits."""
        data = self.dump()
        data.pop("meta", None)
        return hashlib.sha256(to_json(_sorted(data))).hexdigest()

    @cached_property
    def image(self) -> Image:
        """The frozen world; built once.

        Raises:
            SpecError: With every problem: dangling ids, impossible times, unknown tools and people.
        """
        image = self._freeze()
        problems = _unknown_steps(self, image)
        if problems:
            raise SpecError(problems)
        return image

    def _freeze(self, without: Sequence[_Part] = ()) -> Image:
        services = (*catalogue.services(self.services), *(declared_service(spec) for spec in self.declared))
        return build_image(
            services,
            people=self.cast,
            records={} if "records" in without else self.records,
            principal=self.principal,
            start=self.start,
            seed=self.seed,
            events=() if "events" in without else self.events,
        )

    @cached_property
    def exposed(self) -> Mapping[str, Tool]:
        """The agent's tools by name.

        Raises:
            SpecError: ``tools`` names one that is not there.
        """
        return expose(self.image.workplace, self.tools)

    @cached_property
    def compiled_checks(self) -> CompiledChecks:
        """The checks, ready to run.

        Raises:
            SpecError: A check that names unknown types, fields or tools, or a pattern that is none.
        """
        return compile_checks(self.checks, self.image, self.user)

    def validate_all(self) -> None:
        """Find everything that is wrong before an episode does.

        Raises:
            SpecError: With every problem found.
        """
        try:
            _ = self.image, self.exposed, self.compiled_checks
        except SpecError as error:
            raise SpecError(list(dict.fromkeys([*error.problems, *self._all_problems()])), self.id) from None

    def _all_problems(self) -> list[Problem]:
        """Look at every part, also behind those that are broken: without them there still is an image to ask."""
        problems: list[Problem] = []
        for left_out in _LEFT_OUT:
            with _collecting(problems):
                image = self._freeze(without=left_out)
                problems += _unknown_steps(self, image)
                with _collecting(problems):
                    expose(image.workplace, self.tools)
                with _collecting(problems):
                    compile_checks(self.checks, image, self.user)
                break
        return problems


@contextmanager
def _collecting(problems: list[Problem]) -> Generator[None]:
    try:
        yield
    except SpecError as error:
        problems += error.problems


def _unknown_steps(environment: Environment, image: Image) -> list[Problem]:
    exposed = set(image.workplace.tools if environment.tools is None else environment.tools)
    return [
        Problem(
            "unknown_tool",
            f"oracle[{index}].call",
            f"the agent has no tool {step.call!r}",
            suggest(step.call, exposed),
        )
        for index, step in enumerate(environment.oracle)
        if step.call is not None and step.call not in exposed
    ]


def _plain_path(problem: Problem) -> Problem:
    """Without the kind of check that pydantic puts into a path: a file has no ``checks[0].record.typ``."""
    return replace(problem, where=_KIND_OF_CHECK.sub(r"\1", problem.where, count=1))


def _sorted(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    if isinstance(value, list):
        return [_sorted(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
