"""Search boxes: the query language that agents type, and how it becomes one SQL condition.

A query is words and operators: ``invoice "march figures" -draft from:@nora after:2026-03-02``. All terms
must fit; ``-`` turns one round. ``parse_query`` splits it, the service turns each term into a ``Condition``,
and ``where`` composes the clauses for ``servers.sql.shaped``: the *shape* of a search (which conditions,
negated or not) is compiled once, the values are parameters.

Words match anywhere in a text, whatever their case. SQLite folds the case of ASCII only, so a word beyond it
is looked for in three spellings: ``übung``, ``ÜBUNG``, ``Übung``. Not promised: stemming, ranking, OR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from servers.sql import param
from servers.tools import Call

MAX_QUERY = 400
"""Longest query, in characters."""
MAX_TERMS = 16
"""Most terms of a query; keeps statements small."""
_TERM = re.compile(r'(-)?(?:([A-Za-z_]+):)?(?:"([^"]*)"|([^\s"]\S*))')

Shape = tuple[tuple[str, bool, int], ...]
Clause = Callable[[str, Sequence[sa.BindParameter[Any]]], sa.ColumnElement[bool]]
"""Gives the SQL of the condition of a name, with its values as parameters."""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a query."""

    operator: str
    """Such as ``from``; empty for a word or a quoted phrase."""
    value: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A term that the service has understood."""

    name: str
    negated: bool
    values: tuple[str | int, ...]


def parse_query(call: Call, text: str, operators: Mapping[str, str]) -> list[Term]:
    """Split a query into terms.

    Args:
        call: The running call.
        text: What the caller typed.
        operators: The operators of this search, each with an example of its value for the words of a refusal.

    Raises:
        ToolError: An operator is unknown or has no value, or there are too many terms.
    """
    terms: list[Term] = []
    for minus, operator, quoted, bare in _TERM.findall(text):
        name, value = operator.casefold(), quoted or bare.rstrip('"')
        if operator and name not in operators:
            if not quoted and bare.startswith("//"):  # a web address is a word
                name, value = "", f"{operator}:{value}"
            else:
                raise call.refuse(f"{operator}: is no operator of this search. {_valid(operators)}")
        if not operator and not quoted and value.endswith(":") and value[:-1].casefold() in operators:
            raise call.refuse(f"{value} has no value; put it right behind the colon. {_valid(operators)}")
        if value:
            terms.append(Term(name, value, bool(minus)))
    if len(terms) > MAX_TERMS:
        raise call.refuse(f"the query has {len(terms)} terms; at most {MAX_TERMS} are possible.")
    return terms


def _valid(operators: Mapping[str, str]) -> str:
    examples = ", ".join(f"{name}:{example}" for name, example in operators.items())
    return f'Operators: {examples}. Put words that hold a colon in quotes, such as "re: offer".'


def words(term: Term) -> Condition:
    """The condition that a text holds the word or phrase of a term, for ``holds``."""
    word = term.value
    spellings = [word] if word.isascii() else sorted({word.lower(), word.upper(), word.capitalize()})
    return Condition("words", term.negated, tuple(like_pattern(spelling) for spelling in spellings))


def like_pattern(text: str) -> str:
    """The LIKE pattern of texts that hold ``text`` literally; the escape sign is a backslash."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def holds(
    columns: Sequence[sa.ColumnElement[Any]], patterns: Sequence[sa.BindParameter[Any]]
) -> sa.ColumnElement[bool]:
    """One of ``columns`` fits one of the LIKE patterns."""
    return sa.or_(*(column.like(pattern, escape="\\") for column in columns for pattern in patterns))


def arrange(conditions: Sequence[Condition]) -> tuple[Shape, dict[str, str | int]]:
    """The shape of a search and the values of its parameters; the order of the terms makes no new shape."""
    ordered = sorted(set(conditions), key=lambda item: (item.name, item.negated, len(item.values), str(item.values)))
    shape = tuple((item.name, item.negated, len(item.values)) for item in ordered)
    values = {f"t{i}_{j}": value for i, item in enumerate(ordered) for j, value in enumerate(item.values)}
    return shape, values


def where(shape: Shape, clause: Clause) -> list[sa.ColumnElement[bool]]:
    """The clauses of a shape, all of which must hold."""
    clauses: list[sa.ColumnElement[bool]] = []
    for i, (name, negated, count) in enumerate(shape):
        found = clause(name, [param(f"t{i}_{j}") for j in range(count)])
        clauses.append(sa.not_(found) if negated else found)
    return clauses


def snippet(text: str, terms: Sequence[Term], width: int) -> str:
    """About ``width`` characters of ``text`` around the first word looked for; an ellipsis marks a cut."""
    folded = text.casefold()
    places = [folded.find(term.value.casefold()) for term in terms if not term.operator and not term.negated]
    first = min((place for place in places if place >= 0), default=0)
    begin = max(0, min(first - width // 4, len(text) - width))
    end = begin + width
    return ("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else "")
