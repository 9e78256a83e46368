"""Statements: composed with SQLAlchemy, compiled once per process, executed on a world's own connection.

SQLAlchemy's execution costs 100 microseconds a statement; the compiled text on a bare SQLite connection costs five.
So a service composes its queries with SQLAlchemy Core, as a value at module level, and the compiled form is kept
for the life of the process:

* ``Query(Message, build)`` selects whole rows of one record type and gives records.
* ``Statement(build)`` is any other statement and gives plain rows.

``build`` runs at first use, not at import.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from servers.records import Record, record_type

R = TypeVar("R", bound=Record)


class Statement:
    """A statement of SQLAlchemy Core, compiled at first use."""

    __slots__ = ("_build", "_defaults", "_names", "_sql")

    def __init__(self, build: Callable[[], sa.sql.expression.Executable]) -> None:
        self._build = build
        self._sql: str | None = None
        self._names: tuple[str, ...] = ()
        self._defaults: dict[str, Any] = {}

    def compile(self, params: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """Give the SQL text and its positional values.

        Raises:
            KeyError: A parameter of the statement has no value.
        """
        if self._sql is None:
            # The compiler's own classes are not typed; what comes out is.
            compiled = cast("Any", self._build()).compile(
                dialect=sqlite.dialect(paramstyle="qmark"),
                # Writes out ``column.in_(("a", "b"))``, which otherwise stays open until SQLAlchemy executes it.
                compile_kwargs={"render_postcompile": True},
            )
            self._names = tuple(compiled.positiontup or ())
            self._defaults = {name: value for name, value in compiled.params.items() if value is not None}
            self._sql = str(compiled)
        if self._defaults:
            params = {**self._defaults, **params}
        return self._sql, tuple([params[name] for name in self._names])


class Query(Statement, Generic[R]):
    """A select of whole rows of one record type: ``Query(Message, lambda m: sa.select(m).where(...))``."""

    __slots__ = ("model",)

    def __init__(self, model: type[R], build: Callable[[sa.Table], sa.Select[Any]]) -> None:
        self.model = model
        super().__init__(lambda: build(table(model)))


def table(model: type[Record]) -> sa.Table:
    """The table of a record type, for composing statements."""
    return record_type(model).table


def param(name: str) -> sa.BindParameter[Any]:
    """A value that is given when the statement runs."""
    return sa.bindparam(name, required=False)  # ``Statement.compile`` finds out what is missing


def among(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """``column`` is one of a JSON list given as parameter ``name``: a list of any length, one compiled statement."""
    listed = sa.func.json_each(param(name)).table_valued("value")
    return column.in_(sa.select(listed.c.value))


def has_item(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    """The JSON list in ``column`` holds the value given as parameter ``name``."""
    items = sa.func.json_each(column).table_valued("value")
    return sa.exists(sa.select(sa.literal(1)).select_from(items).where(items.c.value == param(name)))


@lru_cache(maxsize=4096)
def shaped(model: type[R], build: Callable[[sa.Table, Any], sa.Select[Any]], shape: Hashable) -> Query[R]:
    """A query whose form depends on what was asked (a search), compiled once per form.

    ``build(table, shape)`` must put every value into a parameter, so that one shape serves all values.
    """
    return Query(model, lambda columns: build(columns, shape))
