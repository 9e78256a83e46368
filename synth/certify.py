"""The certificate: proof that an environment's grader works.

Played over real MCP (``synth.rehearse``), an environment is accepted only if

1. the oracle passes every check, none of its calls is refused, and every value it uses was obtainable;
2. the no-op, the read-only and the claim-it-is-done agents score 0, and no goal holds at the beginning or through events alone;
3. every mutant of the oracle fails;
4. every harmless variant passes.

What does not hold is a typed defect with its place and a suggestion. ``certify`` changes nothing; ``synth.repair`` acts on defects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.agents.scripted import claim, noop, read_only
from harness.environment import Environment
from harness.grading import Grade, grade
from harness.outcome import Outcome
from servers.errors import SpecError
from servers.world import World
from synth.defects import Defect, from_problems
from synth.obtainable import not_obtainable
from synth.rehearse import Performance, Rehearsal, Stage
from synth.variants import Variant, Variants

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
    did_the_same: bool
    """The same changes by the same calls, and the same words, as the oracle."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proven about one environment."""

    environment: str
    oracle: float
    baselines: dict[str, float]
    mutants: tuple[Trial, ...]
    """Without equivalent ones."""
    equivalent: int
    """Mutants that came to exactly what the oracle came to: an extra call was refused, or it only waited longer."""
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
    except SpecError as error:
        return _rejected(environment, from_problems(error.problems))
    missing = _missing_parts(environment)
    if missing:
        return _rejected(environment, missing)
    async with Rehearsal(environment).connected() as rehearsal:
        model = await rehearsal.play_oracle()
        defects = [*_oracle_defects(environment, model), *_vacuous(environment)]
        if defects:
            return _rejected(environment, defects, model.grade)
        baselines = {
            agent.name: await rehearsal.grade_of(tuple(agent.program(environment)))
            for agent in (noop(), read_only(), claim())
        }
        variants = Variants(environment, model)
        tried = await _tried(rehearsal, variants.wrong(), model)
        mutants = [(variant, trial) for variant, trial in tried if not (trial.passed and trial.did_the_same)]
        harmless = await _tried(rehearsal, variants.harmless(), model)
        model.stage.world.close()
    faults = [Defect("grader_error", "", "tools that work", str(fault), "Report this: it is a fault of ours.") for fault in rehearsal.faults]
    defects = [
        *faults,
        *_baseline_defects(baselines),
        *(_survivor(variant, trial) for variant, trial in mutants if trial.passed),
        *(_refused(variant, trial) for variant, trial in harmless if not trial.passed),
    ]
    return Certificate(
        environment.id,
        _total(model.grade),
        {name: _total(result) for name, result in baselines.items()},
        tuple(trial for _, trial in mutants),
        len(tried) - len(mutants),
        tuple(trial for _, trial in harmless),
        tuple(defects),
    )


async def _tried(
    rehearsal: Rehearsal, variants: Iterable[Variant], model: Performance
) -> list[tuple[Variant, Trial]]:
    tried: list[tuple[Variant, Trial]] = []
    oracle = _footprint(model.stage)
    seen: set[tuple[int | str, ...]] = set()
    for variant in variants:
        key = (variant.operator, *(step.model_dump_json() for step in variant.program))
        if key in seen:
            continue
        seen.add(key)
        performance = await rehearsal.play(variant.program)
        stage, result = performance.stage, performance.grade
        failed = tuple(check.check.id for check in result.checks if check.verdict != "PASS")
        passed = result.score is not None and result.score.passed
        same = passed and _footprint(stage) == oracle
        stage.world.close()
        tried.append((variant, Trial(variant.operator, variant.what, passed, _total(result), failed, same)))
    return tried


def _footprint(stage: Stage) -> tuple[list[tuple[str, object]], list[str]]:
    """What an agent did that left a trace: the calls of its own that changed records, and what it said."""
    changed = {change.call for change in stage.world.row_changes()}
    calls: list[tuple[str, object]] = [
        (entry.tool, entry.arguments)
        for entry in stage.world.journal()
        if entry.actor.kind == "agent" and entry.seq in changed
    ]
    return calls, [message.content for message in stage.messages if message.role == "assistant"]


def _missing_parts(environment: Environment) -> list[Defect]:
    defects: list[Defect] = []
    if not any(not check.guard for check in environment.checks):
        defects.append(
            Defect("no_goal", "checks", "at least one check that is a goal", "none", "Say what must be true at the end.")
        )
    if not environment.oracle:
        defects.append(
            Defect("no_oracle", "oracle", "steps that solve the environment", "none", "Write the calls that solve it.")
        )
    return defects


def _oracle_defects(environment: Environment, model: Performance) -> list[Defect]:
    defects: list[Defect] = []
    if model.broke is not None:
        where = f"oracle[{len(model.traces)}]"
        defects.append(Defect("oracle_refused", where, "a reference that resolves", model.broke, "Bind the result it needs."))
    for index, trace in enumerate(model.traces):
        if not trace.ok:
            fix = "Correct the call, or the records it works on."
            defects.append(Defect("oracle_refused", f"oracle[{index}]", "a call that succeeds", trace.result, fix))
    if len(model.traces) < len(environment.oracle) and model.broke is None:
        where = f"oracle[{len(model.traces)}]"
        fix = "Let the user say more, or end the oracle there."
        defects.append(Defect("oracle_fails", where, "an oracle that is played to its end", "the user had left", fix))
    for index, result in enumerate(model.grade.checks):
        if result.verdict != "PASS":
            code = "grader_error" if result.verdict == "ERROR" else "oracle_fails"
            fix = "Make the oracle do what the check demands, or the check demand what the request says."
            where = f"checks[{index}]"
            defects.append(Defect(code, where, f"check {result.check.id!r} to hold", result.detail, fix, result.check.id))
    return defects or not_obtainable(environment, model)


def _vacuous(environment: Environment) -> list[Defect]:
    world = World.open(environment.image)
    defects: list[Defect] = []
    for moment, seconds in (("at the beginning", 0), ("through events alone", QUIET_TIME)):
        world.advance(seconds)
        results = grade(environment, Outcome(world)).checks
        for index, result in enumerate(results):
            if not result.check.guard and result.verdict == "PASS":
                fix = "Demand what only the agent can bring about, or make it a guard."
                where = f"checks[{index}]"
                observed = f"{result.check.id!r} holds {moment}"
                defects.append(Defect("vacuous_goal", where, "a goal that does not hold yet", observed, fix, result.check.id))
        if defects:
            break
    world.close()
    return defects


def _baseline_defects(baselines: dict[str, Grade]) -> list[Defect]:
    defects: list[Defect] = []
    for name, result in baselines.items():
        if _total(result) > 0:
            held = [check.check.id for check in result.checks if not check.check.guard and check.verdict == "PASS"]
            fix = "Tie these goals to something that has to be done."
            defects.append(Defect("baseline_scores", "checks", f"{name} scores 0", f"{_total(result):g} for {held}", fix))
    return defects


def _survivor(variant: Variant, trial: Trial) -> Defect:
    fix = "Add or sharpen a check that this breaks."
    return Defect("mutant_survives", "checks", f"a failing grade for {trial.operator} ({variant.what})", "it passed", fix)


def _refused(variant: Variant, trial: Trial) -> Defect:
    fix = "Loosen these checks to what the request says."
    observed = f"failed {', '.join(trial.killed_by)}"
    check = trial.killed_by[0] if trial.killed_by else None
    return Defect("harmless_fails", "checks", f"a passing grade for {trial.operator} ({variant.what})", observed, fix, check)


def _rejected(environment: Environment, defects: list[Defect], result: Grade | None = None) -> Certificate:
    return Certificate(environment.id, 0.0 if result is None else _total(result), {}, (), 0, (), tuple(defects))


def _total(result: Grade) -> float:
    return 0.0 if result.score is None else result.score.total
