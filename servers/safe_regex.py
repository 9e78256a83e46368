"""Regular expressions from files, compiled only if they cannot run away.

Environments are data, often written by a model, and their patterns run inside the world on every call.
Python's matcher backtracks, so ``(a+)+b`` on forty letters takes hours. ``compile_safe`` bounds the number of
ways in which a pattern can split one subject before it accepts the pattern, and ``SafePattern`` refuses
subjects longer than that bound assumed.

The bound is a product: a character counts 1, ``?`` counts 2, ``{m,n}`` counts n-m+1 for a fixed piece, ``*``
and ``+`` count ``MAX_SUBJECT``, alternatives add, and a repeated group counts its own number to the power of
its repetitions. It is pessimistic: it ignores that literal text between two repeats prunes most of those
ways.

Not supported, and said so: look-around, back-references, conditionals, possessive and atomic pieces, and
flags other than a leading ``(?i)``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from servers.errors import CoworkEnvError

MAX_PATTERN = 200
"""Characters in a pattern."""
MAX_SUBJECT = 2_000
"""Characters in a text; a longer text does not match."""
MAX_WAYS = 20_000_000
"""Two unbounded repeats, with some optional pieces, stay below it; three do not."""

_REPEAT = re.compile(r"[*+?]|\{(?!\})(?P<low>\d*)(?P<comma>,?)(?P<high>\d*)\}")
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[dDsSwWbBAZnrtfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w])", re.DOTALL)


class PatternError(CoworkEnvError):
    """A regular expression that is malformed, unsupported or could run away."""


@dataclass(frozen=True, slots=True)
class SafePattern:
    """A regular expression whose worst case is bounded."""

    pattern: re.Pattern[str]

    def matches(self, text: str) -> bool:
        """Whether the whole text matches; a text longer than ``MAX_SUBJECT`` never does."""
        return len(text) <= MAX_SUBJECT and self.pattern.fullmatch(text) is not None


def compile_safe(source: str) -> SafePattern:
    """Compile ``source`` if its worst case is bounded.

    Raises:
        PatternError: Saying what is wrong and what to write instead.
    """
    if len(source) > MAX_PATTERN:
        raise PatternError(f"the pattern has {len(source)} characters; at most {MAX_PATTERN} are allowed")
    try:
        pattern = re.compile(source)
    except (re.error, OverflowError) as error:
        raise PatternError(f"{source!r} is not a regular expression: {error}") from None
    ways = _Scan(source.removeprefix("(?i)")).alternatives()
    if ways > MAX_WAYS:
        raise PatternError(
            f"{source!r} can be matched in too many ways and could run for hours; use at most two of * and "
            "+, none of them inside a repeated group, or several 'contains' instead"
        )
    return SafePattern(pattern)


class _Scan:
    """One pass over a pattern that ``re`` has already accepted, counting ways to match."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0

    def alternatives(self) -> int:
        """Read up to the end or an unmatched closing bracket."""
        ways = self._sequence()
        while self.source.startswith("|", self.at):
            self.at += 1
            ways += self._sequence()
        return ways

    def _sequence(self) -> int:
        ways = 1
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            # Capped, so that a hostile pattern cannot make the count itself a huge number.
            ways = min(ways * self._repeated(self._piece()), MAX_WAYS + 1)
        return ways

    def _piece(self) -> int:
        char = self.source[self.at]
        if char == "(":
            self._skip(_GROUP, "look-around, conditionals, back-references and inner flags are not supported")
            ways = self.alternatives()
            self.at += 1
            return ways
        if char == "[":
            self._skip(_CLASS, "this character class cannot be read")
        elif char == "\\":
            self._skip(_ESCAPE, "back-references and unusual escapes are not supported")
        else:
            self.at += 1
        return 1

    def _repeated(self, ways: int) -> int:
        found = _REPEAT.match(self.source, self.at)
        if found is None:
            return ways
        self.at = found.end()
        if self.source.startswith("?", self.at):
            self.at += 1
        elif self.source.startswith("+", self.at):
            raise PatternError(f"{self.source!r}: possessive repeats are not supported; leave out the second +")
        low, high = _bounds(found)
        inner = MAX_WAYS + 1 if ways > 1 and high > 64 else min(ways**high, MAX_WAYS + 1)
        return inner * (high - low + 1)

    def _skip(self, pattern: re.Pattern[str], problem: str) -> None:
        found = pattern.match(self.source, self.at)
        if found is None:
            raise PatternError(f"{self.source!r}, character {self.at + 1}: {problem}")
        self.at = found.end()


def _bounds(found: re.Match[str]) -> tuple[int, int]:
    if found[0] in "*+?":
        return {"*": (0, MAX_SUBJECT), "+": (1, MAX_SUBJECT), "?": (0, 1)}[found[0]]
    low = int(found["low"] or 0)
    if not found["comma"]:
        return low, low
    return low, int(found["high"] or MAX_SUBJECT)
