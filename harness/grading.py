"""Grading: from an outcome to a score vector, a gate and one number.

* ``completion`` and ``communication`` are the weighted shares of the goals of that dimension that hold; a
  dimension without goals takes the share of all goals.
* ``constraint`` is the share of guards that hold, and 0 as long as no goal does: keeping still is not keeping
  rules.
* ``gate`` is whether all guards hold.
* ``total`` is 0 when the gate is closed, otherwise the weighted share of all goals that hold. Guards gate,
  they never add: doing nothing scores 0, because no goal holds at the beginning.
* ``robustness`` and ``efficiency`` describe *how* a goal was reached and are scaled by ``total``, so they too
  are 0 for doing nothing: the share of calls that were not refused, and the oracle's number of calls over the
  agent's, at most 1.

``passed`` means that every check holds. A check that could not decide voids the grade (``score`` is None); it
is never 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks import CheckResult, run_checks
from harness.environment import Environment
from harness.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Score:
    """The score vector; every number is from 0 to 1."""

    total: float
    completion: float
    constraint: float
    communication: float
    robustness: float
    efficiency: float
    gate: bool
    passed: bool


@dataclass(frozen=True, slots=True)
class Grade:
    """What grading found."""

    score: Score | None
    """None when a check could not decide."""
    checks: tuple[CheckResult, ...]


def grade(environment: Environment, outcome: Outcome) -> Grade:
    """Grade an outcome.

    Raises:
        SpecError: The environment's checks do not fit its workplace.
    """
    results = run_checks(environment.compiled_checks, outcome)
    if any(result.verdict == "ERROR" for result in results):
        return Grade(None, tuple(results))
    goals = [result for result in results if not result.check.guard]
    guards = [result for result in results if result.check.guard]
    gate = all(result.verdict == "PASS" for result in guards)
    progress = _share(goals, 0.0)
    total = progress if gate else 0.0
    calls = outcome.agent_calls
    refused = sum(1 for entry in calls if entry.error is not None)
    planned = sum(1 for step in environment.oracle if step.call is not None)
    return Grade(
        Score(
            total=total,
            completion=_share([r for r in goals if r.check.dimension == "completion"], progress),
            constraint=_share(guards, 1.0) if progress else 0.0,
            communication=_share([r for r in goals if r.check.dimension == "communication"], progress),
            robustness=total * (1 - refused / len(calls)) if calls else 0.0,
            efficiency=total * min(1.0, planned / len(calls)) if calls and planned else 0.0,
            gate=gate,
            passed=gate and bool(goals) and all(result.verdict == "PASS" for result in goals),
        ),
        tuple(results),
    )


def _share(results: Sequence[CheckResult], without: float) -> float:
    weight = sum(result.check.weight for result in results)
    if weight == 0:
        return without
    return sum(result.check.weight for result in results if result.verdict == "PASS") / weight
