"""The search language: syntax only, no meaning.

Words side by side must all fit; ``OR`` between two terms binds tighter than that, as in Gmail; ``-`` in
front of a term denies it; ``"..."`` is a phrase; ``( )`` groups and ``{ }`` groups alternatives;
``operator:value`` takes a word, a phrase or a group.

``parse`` gives a tree whose leaves are ``Term``. ``servers.services.mail.search`` says what they mean, and
uses the same tree with other leaves as the shape of a compiled query. The flat language of the other
services is ``servers.search``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeAlias, TypeVar

L = TypeVar("L")

OPERATORS = (
    "from", "to", "cc", "subject", "label", "in", "is", "has", "filename",
    "after", "before", "newer_than", "older_than",
)  # fmt: skip
HELP = (
    "Operators: from: to: cc: subject: label: in:inbox|sent|archive|trash|anywhere "
    "is:unread|read|starred|important has:attachment filename: after:2026/03/01 before:2026/03/09 "
    'newer_than:7d older_than:1m "exact phrase" -not OR ( )'
)
MOST_TERMS = 30
DEEPEST = 8

_OPERATOR = re.compile(r"([A-Za-z_]+):(?!//)")  # a web address is a word
_PHRASE = re.compile(r'"([^"]*)"')
_WORD = re.compile(r'[^\s"(){}]+')
_CLOSING = {"(": ")", "{": "}"}


class QueryError(ValueError):
    """The text is no query; the message says why and what is valid."""


@dataclass(frozen=True, slots=True)
class Term:
    """A leaf of a parsed query; ``operator`` is ``text`` for a plain word or phrase."""

    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Negated(Generic[L]):
    """``part`` must not fit."""

    part: Node[L]


@dataclass(frozen=True, slots=True)
class Every(Generic[L]):
    """All parts must fit; with no parts everything does."""

    parts: tuple[Node[L], ...]


@dataclass(frozen=True, slots=True)
class Some(Generic[L]):
    """At least one part must fit."""

    parts: tuple[Node[L], ...]


Node: TypeAlias = L | Negated[L] | Every[L] | Some[L]


@lru_cache(maxsize=1024)
def parse(text: str) -> Node[Term]:
    """Parse a query.

    Raises:
        QueryError: Unknown operator, missing value, unbalanced quote or parenthesis, too long or too deep.
    """
    return _Parser(text).whole()


class _Parser:
    """Recursive descent. ``at`` is the place in the text; ``operator`` is that of the enclosing group."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.terms = 0
        self.depth = 0

    def whole(self) -> Node[Term]:
        parts = self.sequence("text")
        if self.ahead():
            raise QueryError(f"{self.ahead()} closes nothing. {HELP}")
        return _all_of(parts)

    def sequence(self, operator: str) -> list[Node[Term]]:
        parts: list[Node[Term]] = []
        while self.ahead() not in ("", ")", "}"):
            if not self.keyword("AND"):
                parts.append(self.alternatives(operator))
        return parts

    def alternatives(self, operator: str) -> Node[Term]:
        options = [self.term(operator)]
        while self.keyword("OR"):
            options.append(self.term(operator))
        return options[0] if len(options) == 1 else Some(tuple(options))

    def term(self, operator: str) -> Node[Term]:
        ahead = self.ahead()
        if ahead in ("", ")", "}") or self.keyword("OR"):
            raise QueryError(f"OR needs a term on both sides. {HELP}")
        if self.keyword("NOT"):
            raise QueryError(f"NOT is not an operator; write -term. {HELP}")
        if ahead == "-" and self.text[self.at + 1 : self.at + 2].strip(" -"):
            self.at += 1
            return Negated(self.term(operator))
        named = _OPERATOR.match(self.text, self.at)
        if named is None:
            return self.value(operator)
        self.at = named.end()
        if named[1].lower() not in OPERATORS:
            raise QueryError(f"{named[0]} is not an operator; put text that holds a colon in quotes. {HELP}")
        if self.ahead() in ("", ")", "}"):
            raise QueryError(f"{named[0]} has no value. {HELP}")
        return self.value(named[1].lower())

    def value(self, operator: str) -> Node[Term]:
        ahead = self.ahead()
        if ahead in _CLOSING:
            return self.group(operator, ahead)
        self.terms += 1
        if self.terms > MOST_TERMS:
            raise QueryError(f"the query has more than {MOST_TERMS} terms; make several searches")
        found = (_PHRASE if ahead == '"' else _WORD).match(self.text, self.at)
        if found is None:
            raise QueryError(f"a quote is not closed. {HELP}")
        self.at = found.end()
        value = found[found.re.groups].strip()
        if not value:
            raise QueryError(f"a phrase is empty. {HELP}")
        return Term(operator, value)

    def group(self, operator: str, opening: str) -> Node[Term]:
        self.depth += 1
        if self.depth > DEEPEST:
            raise QueryError(f"groups are nested more than {DEEPEST} deep")
        self.at += 1
        parts = self.sequence(operator)
        if self.ahead() != _CLOSING[opening]:
            raise QueryError(f"a group is not closed: {_CLOSING[opening]} is missing. {HELP}")
        self.at += 1
        self.depth -= 1
        if not parts:
            raise QueryError(f"a group is empty. {HELP}")
        return _all_of(parts) if opening == "(" else Some(tuple(parts))

    def ahead(self) -> str:
        """The next character that is no space; empty at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def keyword(self, word: str) -> bool:
        """Step over ``word`` if it stands here by itself."""
        self.ahead()
        end = self.at + len(word)
        if not self.text.startswith(word, self.at) or self.text[end : end + 1].strip('(){}"').strip():
            return False
        self.at = end
        return True


def _all_of(parts: list[Node[Term]]) -> Node[Term]:
    return parts[0] if len(parts) == 1 else Every(tuple(parts))
