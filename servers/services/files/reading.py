"""Tools that look at files."""

from __future__ import annotations

import base64
from typing import Any

from pydantic import Field
from pydantic_core import from_json, to_json

from servers.paging import page
from servers.people import find_person
from servers.search import (
    MAX_QUERY,
    Condition,
    Term,
    arrange,
    like_pattern,
    parse_query,
    snippet,
    words,
)
from servers.services.files.access import (
    AT,
    CURRENT,
    FILES_IN,
    FOLDERS_IN,
    HISTORY,
    LOOSE_FILES,
    TEXTS,
    TOP_FOLDERS,
    Access,
    Role,
    best,
    everyone_with_access,
    find_file,
    find_files,
    find_folder,
)
from servers.services.files.records import File, Folder, Version
from servers.sql import shaped
from servers.tools import Arguments, Call, JsonObject, Tool, tool

PAGE_SIZE = Field(default=25, ge=1, le=50, description="Entries per page, at most 50")
CURSOR = Field(default=None, description="next_cursor of the previous page")
VERSION = Field(default=None, ge=1, le=1_000_000, description="Version number; the current one by default")
READ_LIMIT = 8_000
MAX_READ = 20_000
SNIPPET = 160
"""Length of the text around a hit, in characters."""
OPERATORS = {"name": "report", "type": "pdf", "owner": "me", "modified_after": "2026-03-02"}


class ListFiles(Arguments):
    """List a folder: its folders, then its files. Without folder_id: where your folders and files begin."""

    folder_id: str | None = Field(default=None, description="folder_id from an earlier listing")
    page_size: int = PAGE_SIZE
    cursor: str | None = CURSOR


class SearchFiles(Arguments):
    """Search the files that you can open by name and text, last changed first.

    All terms must fit: words, "quoted phrases", -not, name:report, type:pdf (part of the media type, or the
    ending of the name), owner:me (or a name), modified_after:2026-03-02 (that day included).
    """

    query: str = Field(min_length=1, max_length=MAX_QUERY, description="Words and operators")
    page_size: int = PAGE_SIZE
    cursor: str | None = CURSOR


class ReadFile(Arguments):
    """Read a text file, or a part of it. Where the text is cut, the answer says so and how to go on."""

    file_id: str
    version: int | None = VERSION
    offset: int = Field(default=0, ge=0, le=1_000_000, description="Character to begin at")
    limit: int = Field(default=READ_LIMIT, ge=1, le=MAX_READ, description=f"Most characters, at most {MAX_READ}")


class DownloadFile(Arguments):
    """Get the whole content of any file as base64. Read text files with files_read."""

    file_id: str
    version: int | None = VERSION


class ListVersions(Arguments):
    """Show the versions of a file, newest first, and who can open it."""

    file_id: str
    page_size: int = PAGE_SIZE
    cursor: str | None = CURSOR


def list_files(call: Call, args: ListFiles) -> JsonObject:
    """List what lies in a folder, or where the caller's folders and files begin."""
    me = call.person.email
    shown: JsonObject = {}
    role: Role | None = None
    if args.folder_id is None:
        folders = call.world.select(TOP_FOLDERS, me=me)
        files = call.world.rows(LOOSE_FILES, me=me)
    else:
        place = find_folder(call, args.folder_id)
        role = place.role
        shown = {"folder_id": place.folder.id, "path": place.path, "role": role}
        folders = call.world.select(FOLDERS_IN, folder=place.folder.id)
        files = call.world.rows(FILES_IN, folder=place.folder.id)
    entries: list[Folder | tuple[Any, ...]] = [*folders, *files]
    result = page(call, args.folder_id or "", entries, key=_entry_id, size=args.page_size, cursor=args.cursor)
    return {
        **shown,
        "folders": [
            {"folder_id": entry.id, "name": entry.name, "owner": entry.owner}
            for entry in result.items
            if isinstance(entry, Folder)
        ],
        "files": [
            {**_summary(call, entry), "role": _listed_role(call, entry, role)}
            for entry in result.items
            if not isinstance(entry, Folder)
        ],
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def search_files(call: Call, args: SearchFiles) -> JsonObject:
    """Find files by name and text."""
    terms = parse_query(call, args.query, OPERATORS)
    shape, values = arrange([_condition(call, term) for term in terms])
    rows = call.world.rows(shaped(File, find_files, shape), me=call.person.email, **values)
    result = page(call, args.query, rows, key=lambda row: row[0], size=args.page_size, cursor=args.cursor)
    texts: dict[str, str | None] = {}
    if result.items and any(not term.operator and not term.negated for term in terms):
        ids = to_json([row[6] for row in result.items]).decode()
        texts = {row[0]: row[1] for row in call.world.rows(TEXTS, ids=ids)}
    found: list[JsonObject] = []
    for row in result.items:
        entry = {**_summary(call, row), "folder_id": row[5]}
        text = texts.get(row[6])
        if text:
            entry["snippet"] = snippet(text, terms, SNIPPET)
        found.append(entry)
    return {"files": found, "total": result.total, "next_cursor": result.next_cursor}


def read_file(call: Call, args: ReadFile) -> JsonObject:
    """Show the text of a file, or a part of it."""
    access = find_file(call, args.file_id)
    version = version_of(call, access.file, args.version)
    if version.text is None:
        raise call.refuse(
            f"{access.file.name!r} is a binary file ({access.file.media_type}). Get it with files_download."
        )
    length = len(version.text)
    if args.offset and args.offset >= length:
        raise call.refuse(f"offset {args.offset} lies behind the end; the text has {length} characters.")
    end = min(args.offset + args.limit, length)
    shown = {
        **_facts(call, access, version),
        "characters": length,
        "offset": args.offset,
        "text": version.text[args.offset : end],
    }
    if end < length:
        shown["cut"] = f"Cut after character {end} of {length}. Go on with offset={end}."
        shown["next_offset"] = end
    return shown


def download_file(call: Call, args: DownloadFile) -> JsonObject:
    """Give the content of a file as base64."""
    access = find_file(call, args.file_id)
    version = version_of(call, access.file, args.version)
    content = version.content
    return {
        **_facts(call, access, version),
        "size": len(content),
        "base64": version.base64 if version.text is None else base64.b64encode(content).decode(),
    }


def list_versions(call: Call, args: ListVersions) -> JsonObject:
    """Show the history of a file and who can open it."""
    access = find_file(call, args.file_id)
    history = call.world.select(HISTORY, file=access.file.id)
    result = page(call, access.file.id, history, key=lambda one: one.id, size=args.page_size, cursor=args.cursor)
    return {
        "file_id": access.file.id,
        "name": access.file.name,
        "role": access.role,
        "access": everyone_with_access(call, access.file),
        "versions": [
            {
                "version": version.number,
                "author": version.author,
                "created_at": call.local(version.created_at),
                "size": len(version.content),
            }
            for version in result.items
        ],
        "total": result.total,
        "next_cursor": result.next_cursor,
    }


def version_of(call: Call, file: File, number: int | None = None) -> Version:
    """A version of a file, the current one by default.

    Raises:
        ToolError: The file has no such version.
    """
    current = call.world.first(CURRENT, file=file.id)
    if current is not None and number in (None, current.number):
        return current
    version = call.world.first(AT, file=file.id, number=number)
    if version is None:
        last = 0 if current is None else current.number
        raise call.refuse(f"{file.name!r} has no version {number}; it has versions 1 to {last}.")
    return version


def _facts(call: Call, access: Access, version: Version) -> JsonObject:
    return {
        "file_id": access.file.id,
        "name": access.file.name,
        "media_type": access.file.media_type,
        "role": access.role,
        "version": version.number,
        "author": version.author,
        "modified_at": call.local(version.created_at),
    }


def _entry_id(entry: Folder | tuple[Any, ...]) -> str:
    return entry.id if isinstance(entry, Folder) else entry[0]


def _summary(call: Call, row: tuple[Any, ...]) -> JsonObject:
    file_id, name, media_type, owner, _, _, _, number, author, created_at, size = row
    return {
        "file_id": file_id,
        "name": name,
        "media_type": media_type,
        "owner": owner,
        "size": size,
        "version": number,
        "modified_by": author,
        "modified_at": call.local(created_at),
    }


def _listed_role(call: Call, row: tuple[Any, ...], of_folder: Role | None) -> Role | None:
    """The role on a listed file, from its row and the role on the folder that it lies in."""
    me = call.person.email
    if row[3] == me:
        return "owner"
    shared: Role | None = from_json(row[4]).get(me)
    return best(shared, "editor" if of_folder == "owner" else of_folder)


def _condition(call: Call, term: Term) -> Condition:
    match term.operator:
        case "":
            return words(term)
        case "name":
            return Condition("name", term.negated, words(term).values)
        case "type":
            ending = like_pattern("." + term.value.removeprefix(".")).removesuffix("%")
            return Condition("type", term.negated, (like_pattern(term.value), ending))
        case "owner":
            me = term.value.casefold() == "me"
            owner = call.person if me else find_person(call, term.value.removeprefix("@"))
            return Condition("owner", term.negated, (owner.email,))
        case _:
            return Condition(term.operator, term.negated, (call.instant(term.value, f"{term.operator}:"),))


READING: tuple[Tool, ...] = (
    tool("files_list", ListFiles, list_files),
    tool("files_search", SearchFiles, search_files),
    tool("files_read", ReadFile, read_file),
    tool("files_download", DownloadFile, download_file),
    tool("files_versions", ListVersions, list_versions),
)
