"""The certificate: proof that an environment's grader works.

Played over real MCP (``synth.rehearse``), an environment is accepted only if

1. the oracle passes every check, none of its calls is refused, and every value it uses was obtainable;
2. the no-op, the read-only and the claim-it-is-done agents score 0, and no goal holds at the beginning or
   through events alone;
3. every mutant of the oracle fails (``synth.mutants``);
4. every harmless variant passes (``synth.harmless``).

What does not hold is a typed defect with its place and a suggestion. ``certify`` changes nothing;
``synth.repair`` acts on defects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.agents.scripted import claim, noop, read_only
from harness.environment import Environment
from harness.grading import grade
from harness.outcome import Outcome
from servers.errors import ServiceFault, SpecError
from servers.world import World
from synth.defects import Defect, from_problems
from synth.harmless import harmless
from synth.hints import hints_of
from synth.mutants import mutants
from synth.obtainable import not_obtainable
from synth.program import EXTRA_OPTION, Model, Variant
from synth.rehearse import Performance, Rehearsal

QUIET_TIME = 2 * 24 * 3600
"""Simulated seconds for which events run alone, to see that they satisfy nothing."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A variant and what became of it."""

    operator: str
    what: str
    passed: bool
    total: float
    killed_by: tuple[str, ...]
    """Ids of the checks that failed."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proven about one environment."""

    environment: str
    oracle: float
    """The oracle's score."""
    baselines: dict[str, float]
    """Scores of the agents that do no work, by name."""
    mutants: tuple[Trial, ...]
    """Without equivalent ones."""
    equivalent: int
    """Mutants that came to exactly what the oracle came to: an extra call was refused, or it only waited
    longer."""
    harmless: tuple[Trial, ...]
    defects: tuple[Defect, ...]

    @property
    def accepted(self) -> bool:
        """Whether everything held."""
        return not self.defects

    def summary(self) -> dict[str, Any]:
        """What is stored with an environment (``meta.certificate``)."""
        return {
            "oracle": self.oracle,
            "baselines": self.baselines,
            "mutants": dict(sorted(Counter(trial.operator for trial in self.mutants).items())),
            "mutants_killed": sum(not trial.passed for trial in self.mutants),
            "mutants_total": len(self.mutants),
            "mutants_equivalent": self.equivalent,
            "harmless": dict(sorted(Counter(trial.operator for trial in self.harmless).items())),
            "harmless_kept": sum(trial.passed for trial in self.harmless),
            "harmless_total": len(self.harmless),
        }


async def certify(environment: Environment) -> Certificate:
    """Prove an environment's grader, or find out why it cannot be proven."""
    try:
        environment.validate_all()
        hints_of(environment)
    except SpecError as error:
        return _rejected(environment, from_problems(error.problems))
    defects = list(_missing_parts(environment))
    if defects:
        return _rejected(environment, defects)
    async with Rehearsal(environment).connected() as rehearsal:
        oracle = await rehearsal.play(environment.oracle)
        defects = [*_oracle_defects(environment, oracle), *_vacuous(environment)]
        if defects:
            return _rejected(environment, defects, oracle.total)
        return await _tried(rehearsal, Model(environment, oracle))


async def _tried(rehearsal: Rehearsal, model: Model) -> Certificate:
    """Play everything that has to fail and everything that has to pass."""
    environment, oracle = model.environment, model.performance
    idle = {agent.name: tuple(agent.program(environment)) for agent in (noop(), read_only(), claim())}
    wrong, fine = mutants(model), harmless(model)
    played = await rehearsal.play_all([*idle.values(), *(variant.program for variant in (*wrong, *fine))])
    baselines = dict(zip(idle, played, strict=False))
    tried = list(zip((*wrong, *fine), played[len(idle) :], strict=True))
    unequal = [(variant, result) for variant, result in tried[: len(wrong)] if not _same(variant, result, oracle)]
    kept = tried[len(wrong) :]
    defects = [
        *map(_broken_tool, rehearsal.faults),
        *(defect for name, result in baselines.items() for defect in _baseline_defects(name, result)),
        *(_survivor(variant) for variant, result in unequal if result.passed),
        *(_refused(variant, result) for variant, result in kept if not result.passed),
    ]
    return Certificate(
        environment=environment.id,
        oracle=oracle.total,
        baselines={name: result.total for name, result in baselines.items()},
        mutants=tuple(_trial(*one) for one in unequal),
        equivalent=len(wrong) - len(unequal),
        harmless=tuple(_trial(*one) for one in kept),
        defects=tuple(defects),
    )


def _same(variant: Variant, result: Performance, oracle: Performance) -> bool:
    """Whether a mutant did what the oracle does: the same changes by the same calls, and the same words.

    The calls with an option that nobody asked for are others; there the changes alone are compared.
    """
    if variant.operator == EXTRA_OPTION:
        return result.passed and (result.changes, result.said) == (oracle.changes, oracle.said)
    return result.passed and (result.writes, result.said) == (oracle.writes, oracle.said)


def _trial(variant: Variant, result: Performance) -> Trial:
    return Trial(variant.operator, variant.what, result.passed, result.total, _failed(result))


def _failed(result: Performance) -> tuple[str, ...]:
    return tuple(check.check.id for check in result.grade.checks if check.verdict != "PASS")


def _missing_parts(environment: Environment) -> Iterator[Defect]:
    if all(check.guard for check in environment.checks):
        fix = "Say what must be true at the end."
        yield Defect("no_goal", "checks", "at least one check that is a goal", "none", fix)
    if not environment.oracle:
        fix = "Write the calls that solve it."
        yield Defect("no_oracle", "oracle", "steps that solve the environment", "none", fix)


def _oracle_defects(environment: Environment, oracle: Performance) -> list[Defect]:
    defects: list[Defect] = []
    for index, trace in enumerate(oracle.traces):
        if not trace.ok:
            fix = "Correct the call, or the records it works on."
            observed = f"a refusal: {trace.result}"
            defects.append(Defect("oracle_refused", f"oracle[{index}]", "a call that succeeds", observed, fix))
    end = f"oracle[{len(oracle.traces)}]"
    if oracle.broke is not None:
        fix = "Bind the result it needs (`bind`), and refer to a field that is in it."
        defects.append(Defect("oracle_refused", end, "a reference that resolves", oracle.broke, fix))
    elif len(oracle.traces) < len(environment.oracle):
        fix = "Let the user say more, raise the budget, or end the oracle there."
        observed = "the user had left, or the budget was spent"
        defects.append(Defect("oracle_fails", end, "an oracle that is played to its end", observed, fix))
    for index, result in enumerate(oracle.grade.checks):
        if result.verdict != "PASS":
            code = "grader_error" if result.verdict == "ERROR" else "oracle_fails"
            fix = "Make the oracle do what the check demands, or the check demand what the request says."
            expected = f"check {result.check.id!r} to hold for the oracle"
            defects.append(Defect(code, f"checks[{index}]", expected, result.detail, fix, result.check.id))
    return defects or not_obtainable(environment, oracle)


def _vacuous(environment: Environment) -> list[Defect]:
    """Goals that hold although nobody has done anything."""
    world = World.open(environment.image)
    defects: list[Defect] = []
    for moment, seconds in (("at the beginning", 0), ("through events alone", QUIET_TIME)):
        if seconds and not environment.events:
            break
        world.advance(seconds)
        for index, result in enumerate(grade(environment, Outcome(world)).checks):
            if not result.check.guard and result.verdict == "PASS":
                where, name = f"checks[{index}]", result.check.id
                fix = "Demand what only the agent can bring about, or make it a guard."
                observed = f"{name!r} holds {moment}"
                defects.append(Defect("vacuous_goal", where, "a goal that does not hold yet", observed, fix, name))
        if defects:
            break
    world.close()
    return defects


def _baseline_defects(name: str, result: Performance) -> Iterator[Defect]:
    if result.total > 0:
        held = [check.check.id for check in result.grade.checks if not check.check.guard and check.verdict == "PASS"]
        fix = "Tie these goals to something that has to be done (`needs`)."
        observed = f"{result.total:g}, for {', '.join(held)}"
        yield Defect("baseline_scores", "checks", f"the {name} agent scores 0", observed, fix)


def _survivor(variant: Variant) -> Defect:
    fix = "Add or sharpen a check that this breaks."
    expected = f"a failing grade for {variant.operator} ({variant.what})"
    return Defect("mutant_survives", "checks", expected, "it passed", fix)


def _refused(variant: Variant, result: Performance) -> Defect:
    failed = [check for check in result.grade.checks if check.verdict != "PASS"]
    fix = "Loosen these checks to what the request says."
    expected = f"a passing grade for {variant.operator} ({variant.what})"
    observed = "; ".join(f"{check.check.id}: {check.detail}" for check in failed)
    check = failed[0].check.id if failed else None
    return Defect("harmless_fails", "checks", expected, observed or "no grade", fix, check)


def _broken_tool(fault: ServiceFault) -> Defect:
    return Defect("grader_error", "", "tools that work", str(fault), "Report this: it is a fault of ours.")


def _rejected(environment: Environment, defects: Sequence[Defect], oracle: float = 0.0) -> Certificate:
    return Certificate(environment.id, oracle, {}, (), 0, (), tuple(defects))
