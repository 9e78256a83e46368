"""Everything that can go wrong in a workplace, and who may catch it.

* ``SpecError``: data from outside (records, services, events, files) does not fit. It lists every problem
  with its place. Command lines print it and end with exit code 2.
* ``ToolError``: a tool refuses. It never leaves the door: the agent reads it as an error result, so its text is
  written for the agent (what was wrong, what is valid).
* ``ServiceFault``: a tool broke (a bug of ours). The call is rolled back; whoever drives the world decides,
  and the episode is void, not failed.
* ``StorageFault``: the database under a world failed, such as on a full disk; a ``ServiceFault`` in every way.
* ``InUse``: another process has the files that were named.
* ``WorldClosed``: the world was closed or its token has died.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

_MAPPING = "expected a mapping of keys"
_NO_MAPPING = {"dict_type", "model_type", "model_attributes_type", "mapping_type"}
"""pydantic's codes for something that is none; its words speak of dictionaries and names of our classes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with data from outside."""

    code: str
    """Stable, machine-readable kind, such as ``unknown_key`` or ``dangling_id``."""
    where: str
    """Path in the data, such as ``records.mail.message[3].thread_id``."""
    message: str
    """What was found and what was expected."""
    fix: str | None = None
    """What to do about it, where that is known."""

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}. {self.fix}" if self.fix else text


class CoworkEnvError(Exception):
    """Base of every error that this project raises on purpose."""


class SpecError(CoworkEnvError):
    """Data from outside does not fit; carries every problem that was found."""

    def __init__(self, problems: Sequence[Problem], source: str | None = None) -> None:
        self.problems = tuple(problems)
        self.source = source
        head = f"{source}: " if source else ""
        lines = [str(problem) for problem in self.problems]
        super().__init__(head + lines[0] if len(lines) == 1 else head + "".join(f"\n  {line}" for line in lines))


class ToolError(CoworkEnvError):
    """A tool refuses; the text goes to whoever called it."""


class ServiceFault(CoworkEnvError):
    """A tool of ours broke; never the caller's fault."""


class StorageFault(ServiceFault):
    """The database under a world failed; what was being done is undone."""


class InUse(CoworkEnvError):
    """Another process has the files that were named; it alone may write them."""


class WorldClosed(CoworkEnvError):
    """The world is no longer there."""


def problems_from(error: ValidationError, where: str) -> list[Problem]:
    """Translate pydantic's findings into problems with paths below ``where``."""
    found: list[Problem] = []
    for item in error.errors(include_url=False):
        path = where + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
        code = "unknown_key" if item["type"] == "extra_forbidden" else item["type"]
        message = _MAPPING if code in _NO_MAPPING else item["msg"].removeprefix("Value error, ")
        if code == "unknown_key":
            message = "unknown key"
        elif code != "missing":
            message = f"{message} (got {_short(item['input'])})"
        found.append(Problem(code, path.lstrip("."), message))
    return found


def suggest(name: str, known: Iterable[str], limit: int = 12) -> str:
    """Say which names would have been valid, closest first."""
    from difflib import get_close_matches  # noqa: PLC0415 - only on the failing path

    options = sorted(known)
    close = get_close_matches(name, options, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    shown = ", ".join(options[:limit]) + (", ..." if len(options) > limit else "")
    return f"Valid: {shown}." if options else "There are none."


def _short(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
