"""A notebook in which something happened, to be checked; and whole environments around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from harness.check_compiler import compile_checks
from harness.checks import Check, CheckResult, run_checks
from harness.environment import Environment
from harness.messages import Message
from harness.outcome import Disclosure, Outcome
from harness.user import UserSpec
from servers.image import Image
from servers.journal import Actor
from servers.world import CallResult, World
from tests.servers.notebook import notebook
from tests.support import NORA, OMAR, PEOPLE, START

CHECKS: TypeAdapter[list[Check]] = TypeAdapter(list[Check])
IMAGE = notebook()
USER = UserSpec.model_validate({"facts": [{"id": "colour", "text": "Blue.", "topics": ["colour"]}]})


class Case:
    """A world, what was said in it, and what checks make of it."""

    def __init__(self) -> None:
        self.world = World.open(IMAGE)
        self.messages = [Message("user", "Please.")]
        self.disclosures: list[Disclosure] = []

    def call(self, tool: str, /, **arguments: Any) -> CallResult:
        """The agent calls a tool."""
        return self.world.call(tool, arguments, Actor("agent", NORA))

    def coworker(self, tool: str, /, **arguments: Any) -> CallResult:
        """Omar calls a tool."""
        return self.world.call(tool, arguments, Actor("coworker", OMAR))

    def say(self, text: str) -> None:
        """The agent speaks to the user."""
        self.messages.append(Message("assistant", text))

    def hear(self, text: str, *facts: str) -> None:
        """The user speaks, and tells facts."""
        self.messages.append(Message("user", text))
        self.disclosures += [Disclosure(fact, self.world.journal_length) for fact in facts]

    def results(self, *checks: Mapping[str, Any]) -> dict[str, CheckResult]:
        """What the checks decide, by id."""
        compiled = compile_checks(CHECKS.validate_python(checks), IMAGE, USER)
        outcome = Outcome(self.world, messages=self.messages, disclosures=self.disclosures)
        return {result.check.id: result for result in run_checks(compiled, outcome)}

    def result(self, check: Mapping[str, Any]) -> CheckResult:
        """What one check decides."""
        return self.results({"id": "it", **check})["it"]

    def holds(self, check: Mapping[str, Any]) -> bool:
        """Whether one check holds."""
        return self.result(check).verdict == "PASS"

    def wrong(self, check: Mapping[str, Any]) -> str:
        """The words of a check that has to fail."""
        result = self.result(check)
        assert result.verdict == "FAIL", result
        return result.detail


def around(image: Image, **fields: Any) -> Environment:
    """An environment in the workplace of ``image``, which no file could describe."""
    goal = {"kind": "field", "id": "done", "type": "notes.note", "key": "a", "field": "done", "is": True}
    base: dict[str, Any] = {
        "id": "notebook",
        "start": START,
        "principal": NORA,
        "cast": PEOPLE,
        "request": "Tick off note a.",
        "checks": [goal],
        "oracle": [{"call": "notes_edit", "arguments": {"note_id": "a", "done": True}}, {"say": "Done."}],
    }
    environment = Environment.parse({**base, **fields})
    environment.__dict__["image"] = image
    return environment


def steps(*given: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Steps of a script, for fields of an environment."""
    return list(given)
