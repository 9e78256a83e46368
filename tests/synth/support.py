"""What the tests of synthesis need: the hand-written example, with parts replaced, and its certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import yaml
from hypothesis import settings

from harness.agents.scripted import ScriptedAgent
from harness.environment import Environment, Step
from harness.episode import run_episode
from harness.trajectory import Trajectory
from synth.certify import Certificate, certify
from synth.defects import Defect
from synth.families import FAMILIES
from synth.families.base import Family
from synth.mutants import mutants
from synth.program import Model
from synth.rehearse import Rehearsal

HANDWRITTEN = Path(__file__).parents[1] / "data" / "handwritten.yaml"
FEW = settings(max_examples=12, deadline=None, derandomize=True)
LEVEL_NAMES = [f"{family.name}-{level}" for family in FAMILIES for level in range(1, family.levels + 1)]
CASES = [(family, level) for family in FAMILIES for level in range(1, family.levels + 1)]
BY_NAME: Mapping[str, Family] = {family.name: family for family in FAMILIES}
KLARA = "klara.voss@alpenrad.example"
OMAR = "omar.haddad@northwind.example"


@cache
def _data() -> dict[str, Any]:
    return yaml.safe_load(HANDWRITTEN.read_text(encoding="utf-8"))


def handwritten(**changes: Any) -> dict[str, Any]:
    """The hand-written example as plain data, with parts replaced."""
    return deepcopy(_data()) | changes


def check(name: str, **changes: Any) -> dict[str, Any]:
    """One of the example's checks, changed."""
    return next(one for one in handwritten()["checks"] if one["id"] == name) | changes


def with_check(name: str, **changes: Any) -> list[dict[str, Any]]:
    """The example's checks, one of them changed."""
    return [one | changes if one["id"] == name else one for one in handwritten()["checks"]]


def with_step(number: int, **changes: Any) -> list[dict[str, Any]]:
    """The example's oracle, one step changed."""
    steps = handwritten()["oracle"]
    steps[number] = steps[number] | changes
    return steps


def proven(data: Mapping[str, Any] | Environment) -> Certificate:
    """The certificate of an environment."""
    environment = data if isinstance(data, Environment) else Environment.parse(data)
    return anyio.run(certify, environment)


def only_defect(**changes: Any) -> Defect:
    """The one defect that a changed example has."""
    defects = proven(handwritten(**changes)).defects
    assert len(defects) == 1, [str(defect) for defect in defects]
    return defects[0]


def model_of(environment: Environment) -> Model:
    """The oracle of an environment after its performance."""

    async def perform() -> Model:
        async with Rehearsal(environment).connected() as rehearsal:
            return Model(environment, await rehearsal.play(environment.oracle))

    return anyio.run(perform)


def mutants_of(environment: Environment) -> list[tuple[str, tuple[Step, ...]]]:
    """Every mutant of an environment: its operator and its program."""
    return [(variant.operator, variant.program) for variant in mutants(model_of(environment))]


def episode(environment: Environment, program: Sequence[Step]) -> Trajectory:
    """A real episode of an agent that plays a program."""
    return anyio.run(run_episode, environment, ScriptedAgent("script", lambda _: program))


def failed(trajectory: Trajectory) -> list[str]:
    """Which checks did not hold, and why."""
    return [f"{check.id}: {check.detail}" for check in trajectory.checks if check.verdict != "PASS"]
