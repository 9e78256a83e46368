"""The same words with wrong facts, and the same facts in other words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

from harness.facts import Amount, ClockTime, Fact, FactKind, FactValue, render, styles
from synth.program import Model

REWRITABLE: frozenset[FactKind] = frozenset({"date", "time", "amount", "duration", "percent"})
"""Facts that people write in many ways; ids and names are copied."""


def slips(model: Model, text: str) -> Iterator[tuple[str, str]]:
    """A text with one of its facts wrong, for each fact that can be; with what was done to it."""
    seen: set[Fact] = set()
    for fact in model.facts(text):
        wrong = near(fact)
        if wrong is None or fact in seen or fact.relative:
            continue
        seen.add(fact)
        written = written_plainly(model, wrong)
        spoilt = "".join(written if part == fact else as_is for part, as_is in model.parts(text))
        yield spoilt, f"{written} instead of {text[slice(*fact.span)]}"


def reworded(model: Model, text: str, way: int) -> str:
    """The same facts, dates, times and amounts written in another way; ``way`` chooses which."""

    def other(fact: Fact, as_is: str) -> str:
        if fact.kind not in REWRITABLE or fact.relative:
            return as_is
        ways = styles(fact, model.vocabulary.reference)
        return render(fact, ways[way % len(ways)], model.vocabulary.reference) if ways else as_is

    return "".join(as_is if fact is None else other(fact, as_is) for fact, as_is in model.parts(text))


def written_plainly(model: Model, fact: Fact) -> str:
    """A fact in the first of its styles; empty when it has none."""
    ways = styles(fact, model.vocabulary.reference)
    return render(fact, ways[0], model.vocabulary.reference) if ways else ""


def near(fact: Fact) -> Fact | None:
    """Another fact of the same kind, close enough to be a slip; None when there is no such thing."""
    wrong = _near(fact.value, fact.kind)
    return None if wrong is None else replace(fact, value=wrong)


def _near(value: FactValue, kind: FactKind) -> FactValue | None:
    wrong: FactValue | None = None
    match value:
        case Amount():
            wrong = Amount(value.value + Decimal(10), value.currency)
        case ClockTime():
            wrong = ClockTime((value.hour + 1) % 24, value.minute, value.zone)
        case date():
            wrong = value + timedelta(days=1)
        case timedelta():
            wrong = value * 2
        case Decimal() if kind == "percent":
            wrong = value + 1
        case str() if kind == "id" and value[-1:].isdigit():
            wrong = value[:-1] + str((int(value[-1]) + 1) % 10)
        case _:
            pass
    return wrong
