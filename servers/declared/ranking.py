"""Ranking for search boxes: which texts fit some words, and how well.

A query's words are looked for whatever their case, at the beginning of a word (``connect`` finds
``connection``, and the other way round from four letters on). Chinese, Japanese and Korean runs are looked
for by pairs of characters. Records are kept that fit at least half as well as the best one, so a second-best
hit is shown and a stray word is not.

Not promised: relevance as a search engine has it. Same query and records, same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TypeVar, cast

_RUN = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PIECE = re.compile(rf"(?P<run>[{_RUN}]+)|(?P<word>[^\W_{_RUN}]+)")
KEEP = 0.5
"""Share of the best score that a record needs."""
STEM = 4
"""Shortest word of a text that a longer word of the query may begin with."""
SINGLE = 0.2
"""Weight of a single Chinese, Japanese or Korean character beside its pairs."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Words:
    """A query, split."""

    words: tuple[str, ...]
    """Words of letters and digits."""
    pairs: tuple[str, ...]
    """Pairs of characters, or a single one that stands alone."""
    singles: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Nothing to look for."""
        return not (self.words or self.pairs)


def split(query: str) -> Words:
    """Split a query; filler words are left out unless there is nothing else."""
    words, runs = pieces(query)
    useful = [word for word in words if word not in _filler()] or (words if not runs else [])
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    singles = [character for run in runs if len(run) > 1 for character in run]
    return Words(tuple(dict.fromkeys(useful)), tuple(dict.fromkeys(pairs)), tuple(dict.fromkeys(singles)))


@lru_cache(maxsize=1)
def _filler() -> frozenset[str]:
    text = resources.files("servers").joinpath("data/filler_words.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


def pieces(text: str) -> tuple[list[str], list[str]]:
    """Words and Chinese, Japanese or Korean runs of a text, in lower case."""
    words: list[str] = []
    runs: list[str] = []
    for found in _PIECE.finditer(text.casefold()):
        (runs if found["word"] is None else words).append(found[0])
    return words, runs


def found_in(wanted: Words, text: str) -> frozenset[str]:
    """The words and pairs of a query that a text has, and the single characters when it has any of these."""
    read = _read(text)
    found = {word for word in wanted.words if f" {word}" in read.begins or not _stems(word).isdisjoint(read.words)}
    found.update(pair for pair in wanted.pairs if pair in read.folded)
    if found:
        found.update(single for single in wanted.singles if single in read.folded)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Text:
    folded: str
    words: frozenset[str]
    begins: str
    """All words, each behind a space."""


@lru_cache(maxsize=4096)
def _read(text: str) -> _Text:
    # Kept, because every search reads the same texts again.
    words = pieces(text)[0]
    return _Text(text.casefold(), frozenset(words), " " + " ".join(words))


@lru_cache(maxsize=4096)
def _stems(word: str) -> frozenset[str]:
    return frozenset(word[:length] for length in range(STEM, len(word)))


def _value(wanted: Words, found: frozenset[str]) -> float:
    return sum(SINGLE if part in wanted.singles else 1.0 for part in sorted(found))


def best(
    query: str, items: Sequence[T], texts: Callable[[T], Mapping[str, str]], weights: Mapping[str, float]
) -> list[T]:
    """The items that fit, best first, equals in their order; all of them for an empty query."""
    wanted = split(query)
    if wanted.empty:
        return [] if query.strip() else list(items)
    scored: list[tuple[float, float, int, T]] = []
    for index, item in enumerate(items):
        fields = {name: found_in(wanted, text) for name, text in texts(item).items()}
        # How much of the query a record has counts first; in which fields, only between equals.
        covered = _value(wanted, frozenset[str]().union(*fields.values()))
        if covered:
            weight = sum(weights[name] * _value(wanted, found) for name, found in fields.items())
            scored.append((-covered, -weight, index, item))
    top = max((-entry[0] for entry in scored), default=0.0)
    kept = [entry for entry in scored if -entry[0] >= KEEP * top]
    return [entry[3] for entry in sorted(kept, key=lambda entry: entry[:3])]


def flat(value: object) -> str:
    """The text of any JSON value, for searching: keys of objects are left out."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, dict):
        return "\n".join(flat(item) for item in cast("dict[str, object]", value).values())
    if isinstance(value, list):
        return "\n".join(flat(item) for item in cast("list[object]", value))
    return str(value)
