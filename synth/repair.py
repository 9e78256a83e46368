"""Repair: fixers that mend an environment's defects without guessing.

Each fixer takes one kind of defect and makes the environment stricter or more honest, never easier: a goal that holds from the beginning becomes a
guard; a report that can be claimed without work comes to need the work; a grader that overlooks collateral damage gets a closed world around exactly what
the oracle changes. What no fixer mends is rejected; nothing is accepted on exhaustion.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.checks import Allowed, ChangesCheck, CheckBase
from harness.environment import Environment
from harness.outcome import Outcome
from synth.certify import Certificate, certify
from synth.defects import Defect
from synth.rehearse import Rehearsal

ROUNDS = 3


async def certify_and_repair(environment: Environment) -> tuple[Environment, Certificate, int]:
    """Certify; where fixers know what to do, mend and certify again.

    Returns:
        The environment as it is at the end, its certificate (accepted or not), and how often it was mended.
    """
    certificate = await certify(environment)
    for mended in range(ROUNDS):
        if certificate.accepted:
            return environment, certificate, mended
        better = await _mend(environment, certificate)
        if better is None:
            return environment, certificate, mended
        environment, certificate = better, await certify(better)
    return environment, certificate, ROUNDS


async def _mend(environment: Environment, certificate: Certificate) -> Environment | None:
    changed = environment
    for defect in certificate.defects:
        match defect.code:
            case "vacuous_goal":
                changed = _guard_instead(changed, defect)
            case "baseline_scores":
                changed = _needs_work(changed)
            case "mutant_survives" if not any(isinstance(check, ChangesCheck) for check in changed.checks):
                changed = await _closed_world(changed)
            case _:
                pass
    return None if changed is environment else changed


def _guard_instead(environment: Environment, defect: Defect) -> Environment:
    goals = [check for check in environment.checks if not check.guard]
    if len(goals) < 2:
        return environment
    return _each(environment, lambda check: _with(check, guard=True) if check.id == defect.check else check)


def _needs_work(environment: Environment) -> Environment:
    work = [check.id for check in environment.checks if not check.guard and check.dimension == "completion"]

    def tied(check: CheckBase) -> CheckBase:
        words = not check.guard and check.dimension == "communication" and not check.needs
        return _with(check, needs=work) if words and work else check

    return _each(environment, tied)


async def _closed_world(environment: Environment) -> Environment:
    async with Rehearsal(environment).connected() as rehearsal:
        model = await rehearsal.play_oracle()
        changes = Outcome(model.stage.world).agent_changes
        model.stage.world.close()
    allowed: dict[tuple[str, str, tuple[str, ...], str], int] = {}
    for change in changes:
        created = change.operation == "created"
        row = (change.type, change.operation, () if created else change.fields, "" if created else change.key)
        allowed[row] = allowed.get(row, 0) + 1
    types = environment.image.workplace.types
    check = ChangesCheck(
        kind="changes",
        id="nothing-else",
        about="Nothing changes but what the task needs",
        allow=[
            Allowed.model_validate(
                {
                    "type": name,
                    "operations": [operation],
                    "where": {types[name].key: key} if key else {},
                    "fields": list(fields) or None,
                    "at_most": count,
                }
            )
            for (name, operation, fields, key), count in allowed.items()
        ],
    )
    return environment.model_copy(update={"checks": [*environment.checks, check]})


def _each(environment: Environment, change: Callable[[CheckBase], CheckBase]) -> Environment:
    checks = [change(check) for check in environment.checks]
    if all(one is other for one, other in zip(checks, environment.checks, strict=True)):
        return environment
    return environment.model_copy(update={"checks": checks})


def _with(check: CheckBase, **values: object) -> CheckBase:
    return check.model_copy(update=values)
