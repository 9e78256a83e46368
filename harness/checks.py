"""The check vocabulary: what must hold at the end of an episode, as data.

===========  ==============================================================================================
kind         holds when
===========  ==============================================================================================
``record``   the number of records that fit a pattern is right (at least one, by default)
``field``    one record's field fits a pattern
``changes``  everything the agent changed is on a list; a closed world, so collateral damage needs no check
             of its own
``calls``    the number of calls that fit a pattern is right; ``max: 0`` is "never"
``order``    every call of one kind comes after a call of another kind
``states``   a text states the required facts and no wrong ones: ids, amounts, dates, names, compared as
             values, not as substrings
``asked``    the user had told a fact before the agent did something
===========  ==============================================================================================

What a text states is read without grammar: "it will not come on 5 May" states 5 May. Which fact is said of
which is read only where a check asks for it (``together``).

A check is a *goal* (its weight counts towards the score) or a *guard* (``guard: true``: it never adds, it
only gates). Its verdict is PASS, FAIL or ERROR; a check that cannot decide is an ERROR and voids the episode.

``harness.check_compiler`` finds every wrong name before an episode does; ``run_checks`` decides on an
``Outcome`` in well under a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from harness.errors import EpisodeFault, blame
from harness.facts import FactKind
from harness.outcome import Outcome
from servers.events import CallPattern, Spec

Verdict = Literal["PASS", "FAIL", "ERROR"]
Decide = Callable[[Outcome], str | None]
"""Gives None when the check holds, otherwise what is wrong in words."""


class Count(Spec):
    """How many: exactly, or between ``min`` and ``max``."""

    exactly: int | None = Field(default=None, ge=0)
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _some_bound(self) -> Count:
        if self.exactly is None and self.min is None and self.max is None:
            raise ValueError("expected exactly, min or max")
        if self.exactly is not None and (self.min is not None or self.max is not None):
            raise ValueError("exactly excludes min and max")
        return self

    def wrong(self, number: int) -> str | None:
        """Say what was expected when ``number`` does not fit."""
        if self.exactly is not None:
            return None if number == self.exactly else f"{number} found, exactly {self.exactly} expected"
        if self.min is not None and number < self.min:
            return f"{number} found, at least {self.min} expected"
        if self.max is not None and number > self.max:
            return f"{number} found, at most {self.max} expected"
        return None


class CheckBase(Spec):
    """What all checks have."""

    id: str = Field(min_length=1)
    about: str = ""
    """What must hold, for people."""
    guard: bool = False
    """Gates the score instead of adding to it."""
    dimension: Literal["completion", "communication"] = "completion"
    """The part of the score vector that a goal counts towards."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    needs: list[str] = Field(default_factory=list[str])
    """Ids of checks without which this one counts for nothing: a report of work that was not done is worth
    nothing."""


class RecordCheck(CheckBase):
    """The number of records that fit a pattern is right."""

    kind: Literal["record"]
    type: str
    where: dict[str, Any] = Field(default_factory=dict[str, Any])
    count: Count = Count(min=1)


class FieldCheck(CheckBase):
    """One record's field fits a pattern."""

    kind: Literal["field"]
    type: str
    key: str
    field: str
    is_: Any = Field(alias="is")


class Allowed(Spec):
    """Changes that the agent may make."""

    type: str
    operations: list[Literal["created", "updated", "deleted"]] = Field(
        default_factory=lambda: ["created", "updated", "deleted"]
    )
    where: dict[str, Any] = Field(default_factory=dict[str, Any])
    fields: list[str] | None = None
    """For updates: the only fields that may differ."""
    at_most: int | None = Field(default=None, ge=0)
    """How many such changes."""


class ChangesCheck(CheckBase):
    """Everything the agent changed is on the list."""

    kind: Literal["changes"]
    guard: bool = True
    allow: list[Allowed] = Field(default_factory=list[Allowed])


class CallsCheck(CheckBase):
    """The number of calls that fit a pattern is right."""

    kind: Literal["calls"]
    call: CallPattern
    ok: bool | None = True
    """Only calls that succeeded (true), were refused (false), or all (null)."""
    count: Count


class OrderCheck(CheckBase):
    """Every ``then`` call comes after some ``first`` call; both are calls that succeeded."""

    kind: Literal["order"]
    first: CallPattern
    then: CallPattern


class StatesCheck(CheckBase):
    """A text states facts.

    The text is what the agent said to the user (``source: final`` for the last message, ``user`` for all of
    them), or a field of every record that fits (``source: record``). All required facts must be in it; of the
    kinds in ``watch``, no other facts than the required and the allowed may be.
    """

    kind: Literal["states"]
    dimension: Literal["completion", "communication"] = "communication"
    source: Literal["final", "user", "record"] = "final"
    type: str | None = None
    where: dict[str, Any] = Field(default_factory=dict[str, Any])
    field: str | list[str] = "body"
    """The field that holds the text; several are read one after the other."""
    facts: list[str] = Field(default_factory=list[str])
    """Each in words that state exactly one fact: ``ORD-2041``, ``12 March 2026``, ``EUR 1,240.50``, ``Dana
    Fox``."""
    allowed: list[str] = Field(default_factory=list[str])
    watch: list[FactKind] = Field(default_factory=list[FactKind])
    """Kinds of facts of which none may be wrong or surplus."""
    together: list[list[str]] = Field(default_factory=list[list[str]])
    """Facts that must be said of each other, the first of each list being what the others are said of:
    ``[ORD-1, 5 May 2026]``. Read by where they stand, see ``harness.facts.together``."""

    @model_validator(mode="after")
    def _fits_together(self) -> StatesCheck:
        if (self.source == "record") != (self.type is not None):
            raise ValueError("type goes with source: record")
        if any(len(group) < 2 for group in self.together):
            raise ValueError("expected two facts or more in each list of together")
        if not self.facts and not self.watch and not self.together:
            raise ValueError("expected facts, watch or together; without them, any text would do")
        return self


class AskedCheck(CheckBase):
    """The user had told ``fact`` before the first call that fits ``before``."""

    kind: Literal["asked"]
    fact: str
    before: CallPattern


Check = Annotated[
    RecordCheck | FieldCheck | ChangesCheck | CallsCheck | OrderCheck | StatesCheck | AskedCheck,
    Field(discriminator="kind"),
]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check decided."""

    check: Check
    verdict: Verdict
    detail: str
    """Empty for PASS; otherwise what is wrong."""


@dataclass(frozen=True, slots=True)
class CompiledChecks:
    """Checks with their patterns compiled."""

    checks: tuple[tuple[Check, Decide], ...]


def run_checks(compiled: CompiledChecks, outcome: Outcome) -> list[CheckResult]:
    """Decide every check; what breaks while deciding is an ERROR of that check."""
    results: dict[str, CheckResult] = {}
    for check, decide in compiled.checks:
        try:
            with blame("invalid", "grader"):
                wrong = decide(outcome)
        except EpisodeFault as fault:
            results[check.id] = CheckResult(check, "ERROR", fault.message)
        else:
            results[check.id] = CheckResult(check, "PASS" if wrong is None else "FAIL", wrong or "")
    _apply_needs(results)
    return list(results.values())


def _apply_needs(results: dict[str, CheckResult]) -> None:
    """Let what a check needs count, however many steps away it is."""
    settled = False
    while not settled:
        settled = True
        for name, result in results.items():
            without = [need for need in result.check.needs if results[need].verdict != "PASS"]
            if without and result.verdict == "PASS":
                detail = f"counts only together with {', '.join(without)}"
                results[name] = CheckResult(result.check, "FAIL", detail)
                settled = False
