"""The score: guards gate and never add, doing nothing is 0, and nothing undecided is a number."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.agents.scripted import noop, oracle
from harness.checks import CompiledChecks
from harness.environment import Environment
from harness.episode import run_episode
from harness.grading import Grade, Score, grade
from harness.outcome import Outcome
from servers.journal import Actor
from servers.world import World
from tests.harness.notebook_case import CHECKS, IMAGE, around
from tests.support import NORA

Pattern = list[tuple[bool, str, float, bool]]
"""For each check: guard, dimension, weight, whether it holds."""

patterns = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["completion", "communication"]), st.floats(0.1, 10), st.booleans()),
    min_size=1,
    max_size=8,
)


def graded(pattern: Pattern, calls: int = 0, refused: int = 0) -> Grade:
    """The grade when the checks hold as the pattern says, after so many calls."""
    checks = CHECKS.validate_python(
        [
            {
                "kind": "record",
                "id": f"c{n}",
                "type": "notes.note",
                "guard": guard,
                "dimension": dimension,
                "weight": weight,
            }
            for n, (guard, dimension, weight, _) in enumerate(pattern)
        ]
    )
    environment = around(IMAGE)
    environment.__dict__["compiled_checks"] = CompiledChecks(
        tuple(
            (check, (lambda _: None) if holds else (lambda _: "it does not hold"))
            for check, (*_, holds) in zip(checks, pattern, strict=True)
        )
    )
    world = World.open(IMAGE)
    for number in range(calls):
        world.call("notes_show", {"note_id": "nowhere" if number < refused else "a"}, Actor("agent", NORA))
    return grade(environment, Outcome(world))


def score(pattern: Pattern, **calls: int) -> Score:
    found = graded(pattern, **calls).score
    assert found is not None
    return found


@given(patterns)
def test_every_number_is_from_0_to_1(pattern: Pattern) -> None:
    numbers = [number for number in astuple(score(pattern, calls=3, refused=1)) if not isinstance(number, bool)]
    assert all(0 <= number <= 1 for number in numbers)


@given(patterns)
def test_guards_gate_and_never_add(pattern: Pattern) -> None:
    goals = [check for check in pattern if not check[0]]
    closed = any(guard and not holds for guard, *_, holds in pattern)
    assume(goals)
    found, without_guards = score(pattern), score(goals)
    assert found.gate == (not closed)
    assert found.total == (0 if closed else without_guards.total)
    assert found.completion == without_guards.completion
    assert found.communication == without_guards.communication
    assert found.passed == (not closed and without_guards.passed)


@given(patterns)
def test_reaching_one_more_goal_never_costs_anything(pattern: Pattern) -> None:
    before = astuple(score(pattern, calls=2))
    for index, (guard, dimension, weight, holds) in enumerate(pattern):
        if not guard and not holds:
            better = [*pattern[:index], (guard, dimension, weight, True), *pattern[index + 1 :]]
            after = astuple(score(better, calls=2))
            assert all(new >= old - 1e-12 for new, old in zip(after, before, strict=True))


@given(patterns)
def test_without_a_goal_reached_every_component_is_0(pattern: Pattern) -> None:
    nothing = [(guard, dimension, weight, holds and guard) for guard, dimension, weight, holds in pattern]
    found = score(nothing, calls=3)
    assert not found.passed
    assert (found.total, found.completion, found.constraint, found.communication) == (0, 0, 0, 0)
    assert (found.robustness, found.efficiency) == (0, 0)


def test_a_total_is_the_weighted_share_of_goals() -> None:
    found = score([(False, "completion", 3, True), (False, "communication", 1, False)])
    assert (found.total, found.completion, found.communication) == (0.75, 1, 0)
    assert not found.passed
    assert score([(False, "completion", 3, True), (False, "communication", 1, True)]).passed


def test_refused_and_surplus_calls_lower_robustness_and_efficiency_only() -> None:
    goal: Pattern = [(False, "completion", 1, True)]
    clean, clumsy = score(goal, calls=1), score(goal, calls=4, refused=1)
    assert (clean.robustness, clean.efficiency) == (1, 1)
    assert (clumsy.robustness, clumsy.efficiency) == (0.75, 0.25)
    assert clumsy.total == clean.total == 1


def test_without_goals_nothing_can_be_passed() -> None:
    found = score([(True, "completion", 1, True)])
    assert not found.passed
    assert found.total == 0


def test_an_undecided_check_voids_the_grade() -> None:
    def broken(outcome: Outcome) -> str | None:
        raise LookupError("cannot tell")

    environment = around(IMAGE)
    checks = CHECKS.validate_python([{"kind": "record", "id": f"c{n}", "type": "notes.note"} for n in range(2)])
    decisions: Any = [(checks[0], lambda _: None), (checks[1], broken)]
    environment.__dict__["compiled_checks"] = CompiledChecks(tuple(decisions))
    found = grade(environment, Outcome(World.open(IMAGE)))
    assert found.score is None
    assert [result.verdict for result in found.checks] == ["PASS", "ERROR"]


@pytest.mark.parametrize("rules", [[], [{"kind": "changes", "id": "guard"}]])
def test_an_agent_that_does_nothing_scores_0_and_the_oracle_1(rules: list[dict[str, Any]]) -> None:
    goal = {"kind": "field", "id": "done", "type": "notes.note", "key": "a", "field": "done", "is": True}
    guards = [{**rule, "allow": [{"type": "notes.note", "fields": ["done"]}]} for rule in rules]
    environment: Environment = around(IMAGE, checks=[goal, *guards])
    idle = anyio.run(run_episode, environment, noop())
    best = anyio.run(run_episode, environment, oracle())
    assert idle.score is not None
    assert best.score is not None
    assert (idle.score.total, idle.score.constraint, idle.score.passed) == (0, 0, False)
    assert (best.score.total, best.score.efficiency, best.score.passed) == (1, 1, True)
