"""The files of a task: ``task.yaml`` and the fixtures it points to.

Fixtures are looked for where ``task.yaml`` says (relative to the folder that holds ``tasks/``), then in the
task's own folder by file name, then by service name, then in the folder of another task beside it. What is
missing or odd is a warning, never a crash: schemas of this benchmark are loose. Files outside the collection
are never read, whatever a path says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from harness.yaml_files import read_yaml
from servers.errors import Problem, SpecError, problems_from

JsonObject = dict[str, Any]
LARGEST_TEXT = 2_000_000
"""Bytes of a text fixture that are read."""


class _Loose(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class ToolEntry(_Loose):
    """A tool as the task declares it."""

    name: str
    description: str = ""
    input_schema: JsonObject = Field(default_factory=lambda: {"type": "object", "properties": {}})


class EndpointEntry(_Loose):
    """Where the original server answers a tool."""

    tool_name: str
    url: str = ""


class ServiceEntry(_Loose):
    """A service of the task."""

    name: str
    port: int | None = None
    env: dict[str, Any] = Field(default_factory=dict[str, Any])


class PromptEntry(_Loose):
    """What the user asks for."""

    text: str
    language: str = "en"
    attachments: list[str] = Field(default_factory=list[str])


class LimitsEntry(_Loose):
    """What an episode may take."""

    timeout_seconds: int = 600
    max_turns: int = 30


class UserEntry(_Loose):
    """The simulated user."""

    enabled: bool = False
    persona: str = ""
    max_rounds: int = 8
    system_prompt_suffix: str = ""


class TaskFile(_Loose):
    """A ``task.yaml``; unknown keys are kept."""

    task_id: str
    task_name: str = ""
    prompt: PromptEntry
    tools: list[ToolEntry] = Field(default_factory=list[ToolEntry])
    tool_endpoints: list[EndpointEntry] = Field(default_factory=list[EndpointEntry])
    services: list[ServiceEntry] = Field(default_factory=list[ServiceEntry])
    environment: LimitsEntry = LimitsEntry()
    user_agent: UserEntry = UserEntry()


def read_task(folder: Path) -> TaskFile:
    """Read a task's ``task.yaml``.

    Raises:
        SpecError: There is none, or it cannot be read as one.
    """
    path = folder / "task.yaml"
    try:
        data = read_yaml(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise SpecError(
            [Problem("missing_file", "task.yaml", f"cannot be read: {error.strerror}")], str(path)
        ) from None
    except UnicodeDecodeError as error:
        raise SpecError([Problem("unreadable", "", f"this is no text in UTF-8 ({error})")], str(path)) from None
    if isinstance(data, dict):
        # An empty section of a hand-written file reads as null.
        data = {key: value for key, value in cast("JsonObject", data).items() if value is not None}
    try:
        return TaskFile.model_validate(data)
    except ValidationError as error:
        raise SpecError(problems_from(error, ""), str(path)) from None


def find_fixtures(
    folder: Path, service: str, named: Sequence[str], usual: Sequence[str], endings: Sequence[str]
) -> list[Path]:
    """Find the fixture files of a service, or of one of its entities.

    Args:
        folder: The task's folder.
        service: Name of the service; its fixtures usually lie in a folder of that name.
        named: Paths that ``task.yaml`` gives.
        usual: Names that such files usually have; when given, only these are taken by service name.
        endings: File name endings, such as ``.json``.

    Returns:
        The files of the first place that has any.
    """
    own = sorted(path for path in (folder / "fixtures").rglob("*") if path.is_file())
    for place in _places(folder, service, named, usual, own):
        found = [path for path in place if path.suffix.lower() in endings and _inside(path, folder.parent.parent)]
        if found:
            return found
    return []


def _places(
    folder: Path, service: str, named: Sequence[str], usual: Sequence[str], own: Sequence[Path]
) -> Iterator[list[Path]]:
    root = folder.parent.parent
    yield [root / name for name in named if (root / name).is_file()]
    names = {Path(name).name for name in named}
    yield [path for path in own if path.name in names and path.parent.name == service]
    yield [path for path in own if path.name in names]
    ours = [path for path in own if service in {path.parent.name, path.stem}]
    yield [path for path in ours if not usual or path.name in usual]
    yield [path for name in named if (path := folder.parent.joinpath(*Path(name).parts[1:])).is_file()]


def _inside(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def load_records(paths: Sequence[Path], where: str, warnings: list[Problem]) -> list[JsonObject]:
    """Read records from fixture files: a list of objects, or an object that holds one."""
    records: list[JsonObject] = []
    for path in paths:
        try:
            data: JsonValue = json.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            warnings.append(Problem("unreadable_fixture", where, f"{path.name} cannot be read: {error}"))
            continue
        items = _items(data)
        if items is None:
            warnings.append(Problem("odd_fixture", where, f"{path.name} holds no list of objects"))
            continue
        kept = [item for item in items if isinstance(item, dict)]
        if len(kept) < len(items):
            warnings.append(
                Problem("odd_fixture", where, f"{path.name}: {len(items) - len(kept)} items are no objects")
            )
        records += kept
    return records


def _items(data: JsonValue) -> list[JsonValue] | None:
    if isinstance(data, list):
        return data
    if isinstance(data, dict):
        for value in data.values():
            if isinstance(value, list) and (not value or isinstance(value[0], dict)):
                return value
        if data and all(isinstance(value, dict) for value in data.values()):
            return list(data.values())
    return None


def load_texts(paths: Sequence[Path], folder: Path, where: str, warnings: list[Problem]) -> list[JsonObject]:
    """Read text fixtures as records with ``path`` and ``text``."""
    records: list[JsonObject] = []
    for path in paths:
        try:
            text = path.read_bytes()[:LARGEST_TEXT].decode("utf-8", errors="replace")
        except OSError as error:
            warnings.append(Problem("unreadable_fixture", where, f"{path.name} cannot be read: {error.strerror}"))
            continue
        name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
        records.append({"path": name, "text": text})
    return records
