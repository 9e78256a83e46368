"""What tests of agents need: the oracle of an environment with parts replaced, played in a real episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from harness.environment import Environment, Step
from harness.trajectory import Trajectory
from tests.synth.support import BY_NAME, episode, failed

SEEDS = ("fair-1", "fair-2", "fair-3")
every_seed = pytest.mark.parametrize("seed", SEEDS)
Change = Callable[[Step], Sequence[Step]]


def made(family: str, level: int, seed: str) -> Environment:
    return BY_NAME[family].make(seed, level)


def played(environment: Environment, change: Change, before: Sequence[Step] = ()) -> Trajectory:
    """An episode in which each step of the oracle is replaced by what ``change`` makes of it."""
    return episode(environment, [*before, *(new for step in environment.oracle for new in change(step))])


def passes(trajectory: Trajectory) -> bool:
    assert trajectory.status == "done", trajectory.reason
    assert trajectory.score is not None
    return trajectory.score.passed


def assert_passes(trajectory: Trajectory) -> None:
    assert passes(trajectory), failed(trajectory)


def but(step: Step, **arguments: Any) -> Step:
    """The same call with other arguments; None leaves one out."""
    kept = {name: value for name, value in {**step.arguments, **arguments}.items() if value is not None}
    return step.model_copy(update={"arguments": kept})


def on(tool: str, change: Callable[[Step], Sequence[Step]]) -> Change:
    return lambda step: change(step) if step.call == tool else [step]


def last_words(environment: Environment, text: Callable[[str], str]) -> Change:
    last = environment.oracle[-1]
    return lambda step: [Step(say=text(step.say or ""))] if step is last else [step]


def today(environment: Environment) -> str:
    zone = next(person.timezone for person in environment.cast if person.email == environment.principal)
    now = datetime.fromtimestamp(environment.start, ZoneInfo(zone))
    return f"{now.day} {now:%B} {now.year}"
