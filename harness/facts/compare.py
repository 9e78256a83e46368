"""Facts that a message had to state, and those it did state: what is missing, what is too much."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.facts.model import Amount, ClockTime, Fact, FactKind


@dataclass(frozen=True, slots=True)
class FactReport:
    """How a message compares with what it had to state; each fact is listed once."""

    found: tuple[Fact, ...]
    """Required and stated."""
    missing: tuple[Fact, ...]
    """Required and not stated."""
    unexpected: tuple[Fact, ...]
    """Stated, of a watched kind, and neither required nor allowed."""

    @property
    def contradicted(self) -> tuple[Fact, ...]:
        """Missing facts in whose place another one of the same kind was stated, such as a wrong amount."""
        wrong_kinds = {fact.kind for fact in self.unexpected}
        return tuple(fact for fact in self.missing if fact.kind in wrong_kinds)

    @property
    def recall(self) -> float:
        """Found / required; 1 if nothing was required."""
        required = len(self.found) + len(self.missing)
        return len(self.found) / required if required else 1.0

    @property
    def precision(self) -> float:
        """Found / (found + unexpected); 1 if nothing unexpected was stated. Allowed facts do not count."""
        return len(self.found) / (len(self.found) + len(self.unexpected)) if self.unexpected else 1.0

    @property
    def exact(self) -> bool:
        """Everything required was stated and nothing of the kind beyond it."""
        return not self.missing and not self.unexpected


def compare(
    required: Sequence[Fact],
    allowed: Sequence[Fact],
    stated: Sequence[Fact],
    *,
    watched: Collection[FactKind] | None = None,
) -> FactReport:
    """Compare what a message states with what it must and may state.

    A bare number states a required amount of the same value ("the total is 1240.50"). A message that does so
    writes its money without currencies, so where amounts are watched its other bare numbers are held to be
    amounts too: a list of candidates does not slip through by leaving out the currency.

    Args:
        required: Must each be stated.
        allowed: May be stated.
        stated: The facts of the message, from ``extract``.
        watched: Kinds in which nothing else may be stated. By default those of ``required``.
    """
    required, stated = _distinct(required), _distinct(stated)
    found = tuple(fact for fact in required if any(states(fact, other) for other in stated))
    missing = tuple(fact for fact in required if fact not in found)
    kinds: set[FactKind] = {fact.kind for fact in required} if watched is None else set(watched)
    if "amount" in kinds and any(_stated_only_bare(fact, stated) for fact in found):
        kinds.add("number")
    expected = (*required, *allowed)
    unexpected = tuple(
        fact
        for fact in stated
        if fact.kind in kinds and not fact.relative and not any(states(other, fact) for other in expected)
    )
    return FactReport(found, missing, unexpected)


def states(required: Fact, stated: Fact) -> bool:
    """Whether a stated fact says what a required one demands.

    Values must be equal, and these count as equal: ids and mail addresses in any case; a bare number and an
    amount of that value; times at one instant of the day in two zones, or with equal clocks where one zone is
    not given or has no fixed offset.
    """
    one, other = required.value, stated.value
    if isinstance(one, Amount) and stated.kind == "number":
        return one.value == other
    if required.kind != stated.kind:
        return False
    if isinstance(one, ClockTime) and isinstance(other, ClockTime):
        return _same_time(one, other)
    if isinstance(one, str) and isinstance(other, str) and required.kind != "name":
        return one.casefold() == other.casefold()
    return one == other


def _same_time(one: ClockTime, other: ClockTime) -> bool:
    if one.utc_minutes and other.utc_minutes:
        return bool(one.utc_minutes & other.utc_minutes)
    if (one.hour, one.minute) != (other.hour, other.minute):
        return False
    both_unknown = one.zone is not None and other.zone is not None and not (one.utc_minutes or other.utc_minutes)
    return one.zone == other.zone if both_unknown else True


def _stated_only_bare(required: Fact, stated: Sequence[Fact]) -> bool:
    ways = {fact.kind for fact in stated if states(required, fact)}
    return required.kind == "amount" and ways == {"number"}


def _distinct(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Without repetitions, in order; a fact is relative only if it was never stated outright."""
    kept: dict[Fact, Fact] = {}
    for fact in facts:
        if fact not in kept or not fact.relative:
            kept[fact] = fact
    return tuple(kept.values())
