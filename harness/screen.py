"""What people see while something runs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

NARROWEST = 100
"""Columns that tables need; a terminal with fewer wraps their lines, which is better than losing a column."""


def wide_console() -> Console:
    """Standard output, wide enough for every table."""
    found = Console()
    return found if found.width >= NARROWEST else Console(width=NARROWEST)


@contextmanager
def progress_bar(what: str, total: int, *, quiet: bool = False) -> Generator[Callable[[int], None]]:
    """A progress bar on standard error; gives a function that is told how much is done.

    Args:
        what: One or two words.
        total: How much there is to do.
        quiet: Show nothing, for output that a program reads.
    """
    columns = (
        TextColumn("{task.description:>12}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
