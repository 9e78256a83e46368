"""Typed defects: what is wrong with an environment, where, and how to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from servers.errors import Problem

Code = Literal[
    "spec",
    "no_goal",
    "no_oracle",
    "oracle_refused",
    "oracle_fails",
    "not_obtainable",
    "vacuous_goal",
    "baseline_scores",
    "mutant_survives",
    "harmless_fails",
    "grader_error",
]


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that keeps an environment from being accepted."""

    code: Code
    where: str
    """JSON path in the environment, such as ``oracle[3].arguments.to``; empty for the whole of it."""
    expected: str
    observed: str
    fix: str
    """What an author would do about it."""
    check: str | None = None
    """Id of the check that is concerned, for fixers."""

    def __str__(self) -> str:
        place = f" {self.where}" if self.where else ""
        return f"[{self.code}]{place}: expected {self.expected}; observed {self.observed}. {self.fix}"


def from_problems(problems: Sequence[Problem]) -> list[Defect]:
    """Findings of the spec itself, as defects."""
    return [
        Defect(
            code="spec",
            where=problem.where,
            expected="a valid environment",
            observed=f"{problem.code}: {problem.message}",
            fix=problem.fix or "Correct it.",
        )
        for problem in problems
    ]
