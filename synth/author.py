"""Authors write environments; the synthesizer certifies what they write and keeps what holds.

``Author`` is the seam: the template author needs no model and is the default; an author that asks a model
writes the same plain data and faces the same gates. ``synthesize`` goes round families and levels until it has
as many accepted environments as were asked for.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.environment import Environment
from synth.certify import Certificate
from synth.defects import Defect
from synth.families import FAMILIES
from synth.families.base import Family
from synth.repair import certify_and_repair

MOST_TRIES = 3
"""Drafts per environment that was asked for, before the synthesizer gives up."""


class Author(Protocol):
    """Something that writes environments."""

    def write(self, family: Family, level: int, seed: str) -> Environment:
        """Write one environment; the same arguments give the same environment."""
        ...


class TemplateAuthor:
    """Writes from a family's own description and wording; no model."""

    def write(self, family: Family, level: int, seed: str) -> Environment:
        """Write one environment."""
        return family.make(seed, level)


@dataclass(slots=True)
class Synthesis:
    """What came of it."""

    accepted: list[Environment] = field(default_factory=list[Environment])
    certificates: list[Certificate] = field(default_factory=list[Certificate])
    """Of the accepted environments, in their order."""
    rejected: list[tuple[Environment, tuple[Defect, ...]]] = field(
        default_factory=list[tuple[Environment, tuple[Defect, ...]]]
    )
    repaired: int = 0
    duplicates: int = 0
    seconds: float = 0.0

    def summary(self) -> dict[str, Any]:
        """The numbers of a pack, as ``coworkenv synth --json`` prints them."""
        return {"accepted": len(self.accepted), "rejected": len(self.rejected)} | totals(
            self.certificates, self.seconds
        )


def totals(certificates: Sequence[Certificate], seconds: float) -> dict[str, Any]:
    """What a set of certificates proves, in numbers."""
    mutants = [trial for certificate in certificates for trial in certificate.mutants]
    harmless = [trial for certificate in certificates for trial in certificate.harmless]
    count = max(len(certificates), 1)
    return {
        "oracle_mean": sum(c.oracle for c in certificates) / count,
        "noop_mean": sum(max(c.baselines.values(), default=0.0) for c in certificates) / count,
        "mutants_total": len(mutants),
        "mutants_killed": sum(not trial.passed for trial in mutants),
        "harmless_total": len(harmless),
        "harmless_kept": sum(trial.passed for trial in harmless),
        "seconds": round(seconds, 3),
    }


def by_operator(certificates: Sequence[Certificate]) -> dict[str, tuple[int, int]]:
    """Per mutation operator: killed, total."""
    total: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    for certificate in certificates:
        for trial in certificate.mutants:
            total[trial.operator] += 1
            killed[trial.operator] += not trial.passed
    return {name: (killed[name], total[name]) for name in sorted(total)}


async def synthesize(
    count: int,
    seed: str,
    *,
    families: Sequence[Family] = FAMILIES,
    levels: Sequence[int] = (),
    author: Author | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Synthesis:
    """Write and certify environments until ``count`` are accepted.

    Args:
        count: How many.
        seed: Root of all randomness: the same seed gives the same environments.
        families: The families to go round.
        levels: The levels to go round; all of each family by default.
        author: Who writes; the template author by default.
        progress: Told (accepted so far, wanted).
    """
    author = author or TemplateAuthor()
    result = Synthesis()
    began = time.perf_counter()
    seen: set[str] = set()
    turn = 0
    while len(result.accepted) < count and turn < count * MOST_TRIES:
        family = families[turn % len(families)]
        choice = [level for level in levels if level <= family.levels] or list(range(1, family.levels + 1))
        level = choice[turn // len(families) % len(choice)]
        draft = author.write(family, level, f"{seed}/{turn}")
        turn += 1
        signature = _signature(draft)
        if signature in seen:
            result.duplicates += 1
            continue
        environment, certificate, mended = await certify_and_repair(draft)
        if not certificate.accepted:
            result.rejected.append((environment, certificate.defects))
            continue
        seen.add(signature)
        result.repaired += mended > 0
        meta = {**environment.meta, "certificate": certificate.summary()}
        result.accepted.append(environment.model_copy(update={"meta": meta}))
        result.certificates.append(certificate)
        progress(len(result.accepted), count)
    result.seconds = time.perf_counter() - began
    return result


def _signature(environment: Environment) -> str:
    """What makes two environments the same task: the request and what solves it, whatever the ids are."""
    steps = [(step.call, step.say) for step in environment.oracle]
    return hashlib.sha256(repr((environment.family, environment.request, steps)).encode()).hexdigest()
