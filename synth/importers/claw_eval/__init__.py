"""Claw-Eval tasks as environments.

``import_task`` reads a task folder and gives an ``ImportedTask``: services as data over the task's own
fixtures, with exactly the tools that the task declares; ``to_environment`` makes an environment of it.
``import_all`` does both for many folders and leaves out those that do not fit.

* What a task declares works, also where the benchmark's own servers never answered; what was sent or
  created is there afterwards.
* Fixtures stay as they are, unknown keys included, and no date is moved: the simulated clock is set
  instead (``clock``).
* Tools for which nothing is here (the live web, a shell, media) are listed and refuse with a reason.
* What was odd or missing is a warning (``ImportedTask.warnings``).

``files`` reads, ``entities`` and ``tools`` decide, ``people`` and ``clock`` derive the cast and the start.
Not promised: the benchmark's graders. They are Python code of others and stay where they are; an imported
environment has no checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.environment import Budget, Environment
from servers.declared.spec import ServiceSpec
from servers.errors import Problem, SpecError, problems_from
from servers.people import Person
from servers.records import iso_utc
from synth.importers.claw_eval.clock import start_of, timezone_of
from synth.importers.claw_eval.files import ToolEntry, read_task
from synth.importers.claw_eval.people import cast_of, principal_of
from synth.importers.claw_eval.services import Imported, import_services
from synth.importers.claw_eval.vocabulary import vocabulary

__all__ = ["Import", "ImportedTask", "import_all", "import_task", "to_environment"]


@dataclass(frozen=True, slots=True)
class ImportedTask:
    """A task, read."""

    id: str
    services: tuple[ServiceSpec, ...]
    records: Mapping[str, list[dict[str, Any]]]
    """By full type name."""
    cast: tuple[Person, ...]
    principal: str
    timezone: str
    start: int
    """Simulated time at the beginning, seconds since 1970 UTC; see ``clock``."""
    tools: tuple[str, ...]
    """Names in the order of the task."""
    request: str
    language: str
    rules: tuple[str, ...]
    max_turns: int
    timeout_seconds: int
    persona: str
    """Who the simulated user is; empty when there is none."""
    max_rounds: int
    attachments: tuple[str, ...]
    metadata: Mapping[str, Any]
    """Every other key of the task file, as it stands there."""
    warnings: tuple[Problem, ...]


@dataclass(slots=True)
class Import:
    """What came of a collection of tasks."""

    environments: list[Environment] = field(default_factory=list[Environment])
    warnings: list[str] = field(default_factory=list[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Why a task was left out, by the name of its folder."""


def import_all(folders: Sequence[Path], progress: Callable[[int], None] = lambda done: None) -> Import:
    """Make environments of task folders; one that does not fit is left out with the reason.

    Args:
        folders: Each holds a ``task.yaml``.
        progress: Told how many folders are done.
    """
    result = Import()
    homes: dict[str, str] = {}
    for done, folder in enumerate(folders, start=1):
        try:
            task, environment = _checked(folder)
            if task.id in homes:
                raise SpecError([Problem("duplicate_id", "task_id", f"{task.id!r} is the id of {homes[task.id]} too")])
        except SpecError as error:
            result.skipped[folder.name] = "; ".join(map(str, error.problems))
        else:
            homes[task.id] = folder.name
            result.environments.append(environment)
            result.warnings += [f"{task.id}: {warning}" for warning in task.warnings]
        progress(done)
    return result


def _checked(folder: Path) -> tuple[ImportedTask, Environment]:
    try:
        task = import_task(folder)
        environment = to_environment(task)
    except ValidationError as error:
        raise SpecError(problems_from(error, "")) from None
    except OSError as error:
        raise SpecError([Problem("unreadable", "", f"cannot be read ({error})")]) from None
    environment.validate_all()
    return task, environment


def import_task(path: Path) -> ImportedTask:
    """Read a task folder, the one that holds ``task.yaml``.

    Raises:
        SpecError: ``task.yaml`` is missing or is none.
        ValidationError: What the task declares cannot be a service.
    """
    folder = path.resolve()
    task = read_task(folder)
    words = vocabulary()
    warnings: list[Problem] = []
    imported = import_services(folder, task, warnings)
    everything = [record for records in imported.records.values() for record in records]
    timezone = timezone_of(everything, words)
    mails, contacts = _rows(imported, "gmail.message"), _rows(imported, "contacts.contact")
    principal = principal_of(mails, contacts, words)
    user = task.user_agent
    return ImportedTask(
        id=task.task_id,
        services=imported.services,
        records=imported.records,
        cast=cast_of(principal, timezone, mails, contacts, words),
        principal=principal,
        timezone=timezone,
        start=start_of(everything, task.prompt.text, timezone, words),
        tools=tuple(entry.name for entry in _once(task.tools, warnings)),
        request=task.prompt.text,
        language=task.prompt.language,
        rules=(user.system_prompt_suffix.strip(),) if user.enabled and user.system_prompt_suffix.strip() else (),
        max_turns=task.environment.max_turns,
        timeout_seconds=task.environment.timeout_seconds,
        persona=user.persona if user.enabled else "",
        max_rounds=user.max_rounds if user.enabled else 0,
        attachments=tuple(task.prompt.attachments),
        metadata=task.model_dump(mode="json", exclude={"tools", "prompt", "task_id"}),
        warnings=tuple(warnings),
    )


def _rows(imported: Imported, name: str) -> list[dict[str, Any]]:
    return imported.records.get(name, [])


def _once(entries: list[ToolEntry], warnings: list[Problem]) -> list[ToolEntry]:
    kept: dict[str, ToolEntry] = {}
    for entry in entries:
        if entry.name in kept:
            warnings.append(
                Problem("duplicate_name", f"tools.{entry.name}", "the tool is declared twice, the first counts")
            )
        kept.setdefault(entry.name, entry)
    return list(kept.values())


def to_environment(task: ImportedTask) -> Environment:
    """An environment of an imported task; without checks, which the benchmark's own graders stand for.

    Persona, attachments, time limit and everything else that the task file says are in ``meta``.

    Raises:
        ValidationError: A part cannot be one of an environment, such as an id with blanks.
    """
    return Environment(
        id=task.id,
        family="claw-eval",
        start=task.start,
        principal=task.principal,
        cast=list(task.cast),
        declared=list(task.services),
        tools=list(task.tools),
        records=dict(task.records),
        request=task.request,
        rules=list(task.rules),
        budget=Budget(steps=task.max_turns, turns=max(1, task.max_rounds)),
        meta={
            "source": "claw-eval",
            "language": task.language,
            "timezone": task.timezone,
            "start": iso_utc(task.start),
            "timeout_seconds": task.timeout_seconds,
            "persona": task.persona,
            "attachments": list(task.attachments),
            "warnings": [str(warning) for warning in task.warnings],
            "task": dict(task.metadata),
        },
    )
