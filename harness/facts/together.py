"""Which facts of a text are said of which: that ORD-1 comes on the 5th and ORD-2 on the 6th, not the other way.

A *subject* (the first fact of a group, such as an order's id) and what is said of it are found by where they
stand. A text is cut into statements at line ends and at the ends of sentences; within a statement,

- each subject is followed by what is said of it ("ORD-1 on 5 May, ORD-2 on 6 May");
- or preceded, if the statement does not begin with a subject ("on 5 May ORD-1, on 6 May ORD-2");
- or all subjects come first and then one fact for each, in that order ("ORD-1 and ORD-2 on 5 and 6 May").

What stands in a statement without a subject is said of the last subject before it, as below a heading.

Not promised: grammar. "ORD-1 does not come on 5 May" says 5 May of ORD-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.facts.compare import states
from harness.facts.model import Fact

_END = re.compile(r"\n|[.!?;](?=\s)")


def apart(groups: Sequence[Sequence[Fact]], stated: Sequence[Fact], text: str) -> list[tuple[Fact, Fact]]:
    """Each fact that is not said of the subject of its group, with that subject before it.

    Args:
        groups: Subject and facts that have to be said of it.
        stated: What ``text`` states, in its order (``extract``).
        text: The text that the spans of ``stated`` index.
    """
    subjects = [group[0] for group in groups]
    wanted = [fact for group in groups for fact in group]
    # Others ("today", a date that no longer holds) are said besides and pair with nothing.
    relevant = [fact for fact in stated if any(states(one, fact) for one in wanted)]
    said: set[tuple[int, Fact]] = set()
    last: int | None = None
    for statement in _statements(relevant, text):
        marked = [(_subject(subjects, fact), fact) for fact in statement]
        named = [number for number, _ in marked if number is not None]
        said.update(_paired(marked, named, last))
        last = named[-1] if named else last
    return [
        (group[0], fact)
        for number, group in enumerate(groups)
        for fact in group[1:]
        if not any(one == number and states(fact, other) for one, other in said)
    ]


def _statements(facts: Sequence[Fact], text: str) -> Iterator[list[Fact]]:
    statement: list[Fact] = []
    for fact in facts:
        if statement and _END.search(text, statement[-1].span[1], fact.span[0]):
            yield statement
            statement = []
        statement.append(fact)
    if statement:
        yield statement


def _subject(subjects: Sequence[Fact], fact: Fact) -> int | None:
    return next((number for number, subject in enumerate(subjects) if states(subject, fact)), None)


def _paired(
    marked: Sequence[tuple[int | None, Fact]], named: Sequence[int], last: int | None
) -> Iterator[tuple[int, Fact]]:
    """What one statement says of which subject; ``last`` is the subject before it."""
    kinds = {fact.kind for number, fact in marked if number is None}
    for kind in sorted(kinds):
        told = [(number, fact) for number, fact in marked if number is not None or fact.kind == kind]
        facts = [fact for number, fact in told if number is None]
        if not named:
            yield from ((last, fact) for fact in facts if last is not None)
        elif len(named) == len(facts) and all(number is not None for number, _ in told[: len(named)]):
            yield from zip(named, facts, strict=True)
        else:
            yield from _beside(told)


def _beside(told: Sequence[tuple[int | None, Fact]]) -> Iterator[tuple[int, Fact]]:
    """Each fact with the subject before it, or after it if the statement does not begin with a subject."""
    ordered = told if told[0][0] is not None else list(reversed(told))
    current: int | None = None
    for number, fact in ordered:
        if number is not None:
            current = number
        elif current is not None:
            yield current, fact
