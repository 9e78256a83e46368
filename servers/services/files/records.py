"""Records of files, and what their types and ids cannot show."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field, field_validator, model_validator

from servers.errors import Problem, suggest
from servers.people import Person
from servers.records import Index, Instant, Record, Ref

PersonRef = Annotated[str, Ref("directory.person")]
Share = Literal["reader", "editor"]
R = TypeVar("R", bound=Record)

MAX_TEXT = 200_000
"""Longest text of a file, in characters."""
MAX_BINARY = 255 * 1024
"""Largest binary file, in bytes; a multiple of three, so that base64 has an exact limit too."""
MAX_BASE64 = MAX_BINARY // 3 * 4
"""Length of the largest binary file in base64."""
MAX_NAME = 120
_NAME = re.compile(r"[^/\\\x00-\x1f]+")


def name_problem(name: str) -> str | None:
    """Say what is wrong with the name of a file or folder, None if it is good."""
    if not _NAME.fullmatch(name) or name != name.strip() or name in {".", ".."} or len(name) > MAX_NAME:
        return f"a name has 1 to {MAX_NAME} characters, no slash, no line break and no space at either end"
    return None


def decoded(text: str) -> bytes:
    """The bytes of strict base64.

    Raises:
        ValueError: It is none, or not in the canonical form.
    """
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("expected base64 in canonical form, padded with =")
    return data


class _Named(Record):
    """What folders and files share."""

    id: str
    name: str
    owner: PersonRef
    shares: dict[str, Share] = Field(default_factory=dict[str, Share])
    """Role by mail address of the person; reaches everything in a folder."""

    @field_validator("name")
    @classmethod
    def _good_name(cls, value: str) -> str:
        problem = name_problem(value)
        if problem is not None:
            raise ValueError(problem)
        return value


class Folder(_Named):
    """A folder."""

    type_name: ClassVar[str] = "files.folder"

    parent: Annotated[str, Ref("files.folder")] | None = None
    """None at the top."""


class File(_Named):
    """A file; its content is in its versions."""

    type_name: ClassVar[str] = "files.file"

    folder_id: Annotated[str, Ref("files.folder")]
    media_type: str = Field(default="text/plain", pattern=r"^[\w.+-]+/[\w.+-]+$")


class Version(Record):
    """The content of a file from one moment on: a text or bytes in base64."""

    type_name: ClassVar[str] = "files.version"

    id: str
    file_id: Annotated[str, Ref("files.file"), Index()]
    number: int = Field(ge=1)
    author: PersonRef
    created_at: Instant
    text: str | None = Field(default=None, max_length=MAX_TEXT)
    base64: str | None = Field(default=None, max_length=MAX_BASE64)

    @model_validator(mode="after")
    def _one_content(self) -> Version:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("expected exactly one of text and base64")
        return self

    @field_validator("base64")
    @classmethod
    def _strict_base64(cls, value: str | None) -> str | None:
        if value is not None:
            decoded(value)
        return value

    @property
    def content(self) -> bytes:
        """The bytes of the file at this version."""
        return decoded(self.base64 or "") if self.text is None else self.text.encode()


def check(records: Mapping[str, Mapping[str, Record]], start: int) -> list[Problem]:
    """Find what cannot be: circles of folders, equal names side by side, histories with gaps.

    Dangling ids are left to ``servers.records.dangling``.
    """
    people = records[Person.type_name]
    folders = _of(Folder, records)
    files = _of(File, records)
    return [
        *_circles(folders),
        *_names(folders, files),
        *_shares(folders, people),
        *_shares(files, people),
        *_histories(files, _of(Version, records), start),
    ]


def _of(model: type[R], records: Mapping[str, Mapping[str, Record]]) -> dict[str, R]:
    return {key: record for key, record in records[model.type_name].items() if isinstance(record, model)}


def _circles(folders: Mapping[str, Folder]) -> list[Problem]:
    problems: list[Problem] = []
    for index, folder in enumerate(folders.values()):
        above, steps = folder.parent, 0
        while above is not None and above != folder.id and steps < len(folders):
            above, steps = folders[above].parent if above in folders else None, steps + 1
        if above == folder.id:
            where = f"records.{Folder.type_name}[{index}].parent"
            problems.append(Problem("circle", where, "the folder is inside itself"))
    return problems


def _names(folders: Mapping[str, Folder], files: Mapping[str, File]) -> list[Problem]:
    problems: list[Problem] = []
    seen: dict[tuple[str | None, str], str] = {}
    entries: list[tuple[str, str | None, Folder | File]] = [
        (f"records.{Folder.type_name}[{index}].name", folder.parent, folder)
        for index, folder in enumerate(folders.values())
        if folder.parent is not None  # people have their own tops
    ]
    entries += [
        (f"records.{File.type_name}[{index}].name", file.folder_id, file) for index, file in enumerate(files.values())
    ]
    for where, place, entry in entries:
        other = seen.setdefault((place, entry.name), entry.id)
        if other != entry.id:
            text = f"{other!r} in the same folder is called {entry.name!r} too"
            problems.append(Problem("duplicate_name", where, text))
    return problems


def _shares(entries: Mapping[str, Folder | File], people: Mapping[str, Record]) -> list[Problem]:
    return [
        Problem(
            "unknown_person",
            f"records.{entry.type_name}[{index}].shares",
            f"nobody has the address {email!r}",
            suggest(email, people),
        )
        for index, entry in enumerate(entries.values())
        for email in entry.shares
        if email not in people
    ]


def _histories(files: Mapping[str, File], versions: Mapping[str, Version], start: int) -> list[Problem]:
    problems: list[Problem] = []
    histories: dict[str, list[tuple[int, Version]]] = {key: [] for key in files}
    for index, version in enumerate(versions.values()):
        histories.setdefault(version.file_id, []).append((index, version))
        if version.created_at > start:
            where = f"records.{Version.type_name}[{index}].created_at"
            problems.append(Problem("impossible_time", where, "the version lies after the start"))
    for index, file in enumerate(files.values()):
        if not histories[file.id]:
            where = f"records.{File.type_name}[{index}].id"
            problems.append(Problem("no_content", where, f"file {file.id!r} has no files.version"))
    for history in histories.values():
        history.sort(key=lambda entry: entry[1].number)
        for count, (index, version) in enumerate(history):
            where = f"records.{Version.type_name}[{index}]"
            if version.number != count + 1:
                text = f"the versions of file {version.file_id!r} must be numbered 1, 2, 3 without gaps"
                problems.append(Problem("wrong_number", f"{where}.number", text))
            before = history[count - 1][1] if count else version
            if before.created_at > version.created_at:
                text = "the version is older than the one before it"
                problems.append(Problem("impossible_time", f"{where}.created_at", text))
            if (before.text is None) != (version.text is None):
                text = "a file is text in all its versions, or binary in all"
                problems.append(Problem("mixed_content", f"{where}.text", text))
    return problems
