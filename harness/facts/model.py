"""What a fact is and what its reader must know: kinds, values, vocabulary, and the claims on a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Literal, TypeAlias

FactKind: TypeAlias = Literal["id", "amount", "number", "percent", "date", "time", "duration", "email", "name"]

DEFAULT_ID = re.compile(r"[A-Z][A-Z0-9]{0,11}(?:-[A-Z0-9]{1,12}){0,3}-\d{1,12}")
"""``TCK-104``, ``INV-2031``, ``PO-2026-0012``: capitals, then digits at the end."""


SEASONAL_ZONES: Mapping[str, tuple[int, int]] = {
    "CET": (60, 120), "EET": (120, 180), "ET": (-300, -240), "EST": (-300, -240), "CT": (-360, -300),
    "CST": (-360, -300), "MT": (-420, -360), "MST": (-420, -360), "PT": (-480, -420), "PST": (-480, -420),
    "AEST": (600, 660),
}  # fmt: skip
"""Minutes before UTC in winter and in summer. People write the winter name all year, so it may mean
either."""


class FactError(ValueError):
    """Text that was to state exactly one fact does not."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Money: a value in a currency."""

    value: Decimal
    currency: str
    """ISO 4217 code."""

    def __str__(self) -> str:
        return f"{self.value} {self.currency}"


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day, to the minute."""

    hour: int
    minute: int
    zone: str | None = None
    """An offset (``+01:00``) where the zone has just one, otherwise its name (``CET``, ``Europe/Berlin``);
    None if the text gives none."""

    def __str__(self) -> str:
        clock = f"{self.hour:02d}:{self.minute:02d}"
        return f"{clock} {self.zone}" if self.zone else clock

    @property
    def utc_minutes(self) -> frozenset[int]:
        """Which minutes of the day in UTC this may be; empty if that is not known."""
        if self.zone is None:
            return frozenset()
        offsets = SEASONAL_ZONES.get(self.zone, ())
        if self.zone[0] in "+-":
            size = int(self.zone[1:3]) * 60 + int(self.zone[4:6])
            offsets = (size if self.zone[0] == "+" else -size,)
        return frozenset((self.hour * 60 + self.minute - offset) % 1440 for offset in offsets)


FactValue: TypeAlias = str | Amount | Decimal | date | ClockTime | timedelta
"""By kind: ``str`` for id, email (lower case) and name (canonical); ``Amount`` for amount; ``Decimal`` for
number and percent (12.5 for 12.5%); ``date``; ``ClockTime`` for time; ``timedelta`` for duration."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact. Two facts are equal if kind and value are; where they stood does not matter."""

    kind: FactKind
    value: FactValue
    span: tuple[int, int] = field(default=(0, 0), compare=False)
    """Start and end in the text."""
    relative: bool = field(default=False, compare=False)
    """Said in relation to the reference date ("today", "this Thursday"). Such words are also small talk, so a
    relative date can state what is required but is never held against a message."""


@dataclass(frozen=True, slots=True)
class Name:
    """A person or organisation and how it may be called."""

    canonical: str
    """The full name; the value of the fact."""
    aliases: tuple[str, ...] = ()
    """Other names that stand for it alone; an alias of two names stands for neither."""
    given: str | None = None
    """First name of a person. It counts unless another capitalised word follows: "Ana" but not "Ana
    Torres"."""

    @classmethod
    def person(cls, full_name: str, *aliases: str) -> Name:
        """A person who may also be called by the first word of the full name."""
        given, _, rest = full_name.partition(" ")
        return cls(full_name, aliases, given if rest else None)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the reader of a text knows beforehand."""

    names: tuple[Name, ...] = ()
    reference: date | None = None
    """The day on which the text was written. Completes dates without a year (to the nearest such day) and
    gives meaning to relative ones; without it these yield no fact."""
    date_order: Literal["DMY", "MDY"] | None = None
    """How 12/03/2026 is to be read. None: only where both readings agree or just one is possible."""
    decimal_mark: Literal[".", ","] = "."
    """Settles 1,240: one thousand two hundred and forty, or one and a bit."""
    dollar: str = "USD"
    """The currency of a plain $."""
    id_pattern: re.Pattern[str] = DEFAULT_ID
    """Covers a whole id. Tried on words (letters, digits, ``_``, ``-``, ``#``) of at most 64 characters.
    Patterns that a model or a stranger wrote must be checked before they are compiled."""


class Claims:
    """A text and which parts of it have been read; readers claim spans, and the first claim holds."""

    def __init__(self, text: str) -> None:
        self.text = text.translate(_SAME_LENGTH)
        self._taken = bytearray(len(text))
        self._facts: list[Fact] = []

    def free(self, start: int, end: int) -> bool:
        """Whether nobody has claimed any of this."""
        return not any(self._taken[start:end])

    def add(self, kind: FactKind, value: FactValue, start: int, end: int, *, relative: bool = False) -> None:
        """Claim a span for a fact, unless a part of it is taken."""
        if self.free(start, end):
            self.block(start, end)
            self._facts.append(Fact(kind, value, (start, end), relative))

    def block(self, start: int, end: int) -> None:
        """Claim a span that states nothing certain, so that nobody reads a piece of it as something else."""
        self._taken[start:end] = b"\x01" * (end - start)

    def facts(self) -> list[Fact]:
        """All facts in the order of the text."""
        return sorted(self._facts, key=lambda fact: fact.span)


# Models like to write typographic hyphens and apostrophes. Each stands for one plain character, so spans keep
# their place.
_SAME_LENGTH = {
    0x2010: "-",
    0x2011: "-",
    0x2212: "-",
    0x2018: "'",
    0x2019: "'",
    0x02BC: "'",
}
