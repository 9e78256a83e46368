"""Repair: fixers that mend an environment's defects without guessing.

Each fixer takes one kind of defect and makes the environment stricter or more honest, never easier:

* a goal that holds from the beginning becomes a guard;
* a report that can be claimed without work comes to need the work;
* a grader that overlooks collateral damage gets a closed world around exactly what the oracle changes.

What no fixer mends is rejected; nothing is accepted on exhaustion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from harness.checks import Allowed, ChangesCheck, Check
from harness.environment import Environment
from harness.outcome import Outcome
from servers.journal import RowChange
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
    checks = list(environment.checks)
    codes = {defect.code for defect in certificate.defects}
    for defect in certificate.defects:
        if defect.code == "vacuous_goal":
            checks = _guard_instead(checks, defect)
    if "baseline_scores" in codes:
        checks = _needs_work(checks)
    if "mutant_survives" in codes and not any(isinstance(check, ChangesCheck) for check in checks):
        checks.append(await _closed_world(environment))
    return None if checks == environment.checks else environment.model_copy(update={"checks": checks})


def _guard_instead(checks: list[Check], defect: Defect) -> list[Check]:
    if sum(not check.guard for check in checks) < 2:
        return checks
    return _each(checks, lambda check: {"guard": True} if check.id == defect.check else {})


def _needs_work(checks: list[Check]) -> list[Check]:
    work = [check.id for check in checks if not check.guard and check.dimension == "completion"]

    def tied(check: Check) -> dict[str, object]:
        only_words = not check.guard and check.dimension == "communication" and not check.needs
        return {"needs": work} if only_words and work else {}

    return _each(checks, tied)


async def _closed_world(environment: Environment) -> ChangesCheck:
    async with Rehearsal(environment).connected() as rehearsal:
        await rehearsal.play(environment.oracle)
        changes = Outcome(rehearsal.world).agent_changes
    types = environment.image.workplace.types
    return ChangesCheck(
        kind="changes",
        id=_free_name("nothing-else", environment),
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
            for (name, operation, key, fields), count in Counter(map(_kind_of, changes)).items()
        ],
    )


def _kind_of(change: RowChange) -> tuple[str, str, str, tuple[str, ...]]:
    """What a closed world says about a change: new records have ids nobody can know, old ones are named."""
    if change.operation == "created":
        return change.type, change.operation, "", ()
    fields = change.fields if change.operation == "updated" else ()
    return change.type, change.operation, change.key, fields


def _free_name(wanted: str, environment: Environment) -> str:
    taken = {check.id for check in environment.checks}
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (wanted, *numbered) if name not in taken)


def _each(checks: list[Check], change: Callable[[Check], dict[str, object]]) -> list[Check]:
    return [check.model_copy(update=changes) if (changes := change(check)) else check for check in checks]
