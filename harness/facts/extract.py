"""The reader: from a text to its facts, each part of the text read at most once.

Readers run in a fixed order, the most specific first; each claims the spans it is sure about or knows to be
ambiguous, and what is claimed is closed to the readers after it: links, mail addresses, dates, times,
quantities, ids, names, and last the numbers that are left.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from harness.facts.model import Claims, Fact, FactError, FactKind, Name, Vocabulary
from harness.facts.moments import read_dates, read_times
from harness.facts.quantities import read_plain_numbers, read_quantities

_LINK = re.compile(r"https?://[^\s<>\"')\]]+")
_PHONE = re.compile(r"(?<![\w+])\+[0-9](?:[ ()/-]{0,2}[0-9]){6,14}(?!\w)")
_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}(?![\w@])")
_TOKEN = re.compile(r"[\w#-]+")
_WORD = re.compile(r"\w+")
_LONGEST_ID = 64


def extract(text: str, vocabulary: Vocabulary) -> list[Fact]:
    """Read all facts that a text states, in its order; repeated ones are repeated.

    Spans index ``text`` and never overlap. Time is linear in the length of the text.

    Args:
        text: What somebody wrote; plain text or Markdown.
        vocabulary: What the reader knows beforehand.
    """
    claims = Claims(text)
    _block_links(claims)
    _read_emails(claims)
    read_dates(claims, vocabulary)
    read_times(claims)
    numbers = read_quantities(claims, vocabulary)
    _read_ids(claims, vocabulary)
    _read_names(claims, vocabulary)
    read_plain_numbers(claims, vocabulary, numbers)
    return claims.facts()


def parse_fact(kind: FactKind, text: str, vocabulary: Vocabulary) -> Fact:
    """Read the one fact of a kind that a short text states, such as a value in a check.

    Raises:
        FactError: If it states none of this kind, or several.
    """
    facts = extract(text, vocabulary)
    found = [fact for fact in facts if fact.kind == kind]
    if len(found) != 1:
        stated = ", ".join(f"{fact.kind} {text[slice(*fact.span)]!r}" for fact in facts) or "nothing certain"
        raise FactError(f"expected exactly one {kind} in {text!r}; it states {stated}")
    return found[0]


def _block_links(claims: Claims) -> None:
    for pattern in (_LINK, _PHONE):
        for found in pattern.finditer(claims.text):
            claims.block(*found.span())


def _read_emails(claims: Claims) -> None:
    for found in _EMAIL.finditer(claims.text):
        claims.add("email", found[0].lower(), *found.span())


def _read_ids(claims: Claims, vocabulary: Vocabulary) -> None:
    for token in _TOKEN.finditer(claims.text):
        # Underscores and hyphens around an id are emphasis or dashes.
        written = token[0].strip("_-")
        if len(written) > _LONGEST_ID:
            continue
        # "#TCK-104" is TCK-104, unless ids are written with the sign here.
        for candidate in dict.fromkeys((written, written.lstrip("#"))):
            if candidate and vocabulary.id_pattern.fullmatch(candidate):
                start = token.start() + token[0].index(candidate)
                claims.add("id", candidate, start, start + len(candidate))
                break


@dataclass(frozen=True, slots=True)
class _Alias:
    """One way to write a name, split into words so that it is found whatever the space between them."""

    words: tuple[str, ...]
    gaps: tuple[str, ...]
    exact: str
    """The word as it must be written, for aliases of one word: "Mark" but not "mark"."""
    canonical: str | None
    """None if it stands for several names."""
    given: bool


@lru_cache(maxsize=64)
def _aliases(names: tuple[Name, ...]) -> Mapping[str, Sequence[_Alias]]:
    """All aliases by first word, longest first."""
    owners: dict[str, set[str]] = {}
    given: set[str] = set()
    for name in names:
        for alias in (name.canonical, *name.aliases, *([name.given] if name.given else [])):
            owners.setdefault(alias, set()).add(name.canonical)
        if name.given and name.given not in name.aliases:
            given.add(name.given)
    found: dict[str, list[_Alias]] = {}
    for alias, canonical in owners.items():
        words = list(_WORD.finditer(alias))
        if words:
            gaps = tuple(alias[a.end() : b.start()].strip() for a, b in pairwise(words))
            entry = _Alias(
                words=tuple(_fold(word[0]) for word in words),
                gaps=gaps,
                exact=alias if len(words) == 1 else "",
                canonical=next(iter(canonical)) if len(canonical) == 1 else None,
                given=alias in given,
            )
            found.setdefault(entry.words[0], []).append(entry)
    return {word: sorted(entries, key=lambda entry: -len(entry.words)) for word, entries in found.items()}


def _read_names(claims: Claims, vocabulary: Vocabulary) -> None:
    aliases = _aliases(vocabulary.names)
    if not aliases:
        return
    words = list(_WORD.finditer(claims.text))
    folded = [_fold(word[0]) for word in words]
    for index, word in enumerate(words):
        for alias in aliases.get(folded[index], ()):
            end = _alias_end(claims.text, words, folded, index, alias)
            if end is not None and claims.free(word.start(), end):
                if alias.canonical is None or (alias.given and _surname_follows(claims.text, words, index)):
                    claims.block(word.start(), end)
                else:
                    claims.add("name", alias.canonical, word.start(), end)
                break


def _alias_end(
    text: str, words: Sequence[re.Match[str]], folded: Sequence[str], index: int, alias: _Alias
) -> int | None:
    """Where the alias ends if it stands at this word."""
    count = len(alias.words)
    if alias.exact and words[index][0] not in (alias.exact, alias.exact.upper()):
        return None
    if tuple(folded[index : index + count]) != alias.words:
        return None
    for offset, gap in enumerate(alias.gaps):
        between = text[words[index + offset].end() : words[index + offset + 1].start()]
        if len(between) > 4 or between.strip() != gap:
            return None
    return words[index + count - 1].end()


def _surname_follows(text: str, words: Sequence[re.Match[str]], index: int) -> bool:
    """Whether another capitalised word follows at once: the "Ana" of "Ana Torres" is somebody else."""
    if index + 1 >= len(words):
        return False
    following = words[index + 1]
    return text[words[index].end() : following.start()] == " " and following[0].istitle() and len(following[0]) > 1


def _fold(word: str) -> str:
    """Without case and accents: "Zoe" and "Zoë" are one name."""
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))
