"""Tools that change files."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from servers.people import find_person
from servers.services.files.access import (
    FOLDER_NAMED,
    HISTORY,
    NAMED,
    OWN_TOP_NAMED,
    RANK,
    Place,
    everyone_with_access,
    find_file,
    find_folder,
)
from servers.services.files.reading import version_of
from servers.services.files.records import (
    MAX_BASE64,
    MAX_TEXT,
    File,
    Folder,
    Version,
    decoded,
    name_problem,
)
from servers.tools import Arguments, Call, JsonObject, Tool, tool

TEXT = Field(default=None, max_length=MAX_TEXT, description="Content of a text file")
BASE64 = Field(default=None, max_length=MAX_BASE64, description="Content of a binary file, in base64")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


class CreateFile(Arguments):
    """Create a file in a folder. Give text or base64. The name must be free in that folder."""

    folder_id: str
    name: str
    text: str | None = TEXT
    base64: str | None = BASE64
    media_type: str | None = Field(default=None, max_length=100, description="Such as text/markdown or application/pdf")


class CreateFolder(Arguments):
    """Make a folder: in a folder that you may edit, or at the top of your own files.

    Who can open the folder above can open it too.
    """

    name: str
    parent_id: str | None = Field(default=None, description="folder_id of the folder above; none for the top")


class UpdateFile(Arguments):
    """Replace the content of a file; earlier versions stay. Give the whole new content as text or base64.

    expected_version is the version that your change is based on; if somebody has changed the file since, the
    update is refused.
    """

    file_id: str
    expected_version: int = Field(ge=1, le=1_000_000, description="Version that you have read")
    text: str | None = TEXT
    base64: str | None = BASE64


class ShareFile(Arguments):
    """Give somebody access to a file, or another role on it. Only the owner may."""

    file_id: str
    person: str = Field(description="Mail address or name")
    role: Literal["reader", "editor"]


class UnshareFile(Arguments):
    """Take back somebody's access to a file. Only the owner may."""

    file_id: str
    person: str = Field(description="Mail address or name")


class MoveFile(Arguments):
    """Move a file to another folder, rename it, or both.

    This takes an editor of the folder that the file lies in (or, to move it, the owner of the file), and an
    editor of the folder that it goes to. Who can open a file may change with its folder.
    """

    file_id: str
    folder_id: str | None = Field(default=None, description="The new folder")
    name: str | None = Field(default=None, description="The new name")


class DeleteFile(Arguments):
    """Delete a file with all its versions. Only the owner may; it cannot be taken back."""

    file_id: str


def create_file(call: Call, args: CreateFile) -> JsonObject:
    """Make a file with its first version."""
    place = _writable(call, args.folder_id)
    _good_content(call, args.text, args.base64)
    _free_name(call, place.folder, args.name)
    default = "text/plain" if args.base64 is None else "application/octet-stream"
    media_type = args.media_type or default
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise call.refuse(f"media_type {media_type!r} is none. Write it like text/markdown or application/pdf.")
    file = File(
        id=call.new_id(File.type_name),
        folder_id=place.folder.id,
        name=args.name,
        media_type=media_type,
        owner=call.person.email,
    )
    call.world.insert(file)
    return _add_version(call, file, 1, args.text, args.base64)


def create_folder(call: Call, args: CreateFolder) -> JsonObject:
    """Make an empty folder."""
    if args.parent_id is None:
        _good_name(call, args.name, "folder")
        if call.world.first(OWN_TOP_NAMED, owner=call.person.email, name=args.name) is not None:
            raise call.refuse(f"you have a folder {args.name!r} at the top already. Take another name.")
    else:
        _free_name(call, _writable(call, args.parent_id).folder, args.name, "folder")
    folder = Folder(id=call.new_id(Folder.type_name), name=args.name, owner=call.person.email, parent=args.parent_id)
    call.world.insert(folder)
    place = find_folder(call, folder.id)
    return {"folder_id": folder.id, "name": folder.name, "parent_id": folder.parent, "path": place.path}


def update_file(call: Call, args: UpdateFile) -> JsonObject:
    """Add a version to a file, unless it has moved on."""
    file = find_file(call, args.file_id, "editor").file
    _good_content(call, args.text, args.base64)
    current = version_of(call, file)
    if current.number != args.expected_version:
        raise call.refuse(
            f"{file.name!r} is at version {current.number} (by {current.author}, "
            f"{call.local(current.created_at)}), not {args.expected_version}. Read it again and base your "
            f"change on version {current.number}."
        )
    if (current.text is None) != (args.text is None):
        kind, argument = ("binary", "base64") if current.text is None else ("text", "text")
        raise call.refuse(f"{file.name!r} is a {kind} file. Give its content as {argument}.")
    return _add_version(call, file, current.number + 1, args.text, args.base64)


def share_file(call: Call, args: ShareFile) -> JsonObject:
    """Give somebody a role on a file."""
    file = find_file(call, args.file_id, "owner").file
    person = find_person(call, args.person)
    if person.email == file.owner:
        raise call.refuse(f"{person.email} owns {file.name!r} already.")
    file = call.world.update(file, shares={**file.shares, person.email: args.role})
    shown = {"file_id": file.id, "name": file.name, "access": everyone_with_access(call, file)}
    return {**shown, "external": True} if person.external else shown


def unshare_file(call: Call, args: UnshareFile) -> JsonObject:
    """Take a role on a file away."""
    file = find_file(call, args.file_id, "owner").file
    email = find_person(call, args.person).email
    if email not in file.shares:
        how = everyone_with_access(call, file).get(email)
        if how is None:
            raise call.refuse(f"{file.name!r} is not shared with {email}.")
        reason = "owns the file" if how == "owner" else "has access through the folder; move the file to end that"
        raise call.refuse(f"{file.name!r} is not shared with {email} itself: {email} {reason}.")
    left = {person: role for person, role in file.shares.items() if person != email}
    file = call.world.update(file, shares=left)
    return {"file_id": file.id, "name": file.name, "access": everyone_with_access(call, file)}


def move_file(call: Call, args: MoveFile) -> JsonObject:
    """Put a file elsewhere or call it otherwise."""
    access = find_file(call, args.file_id, "editor")
    file = access.file
    if args.folder_id is None and args.name is None:
        raise call.refuse("give folder_id to move the file, name to rename it, or both.")
    folder_id, name = args.folder_id or file.folder_id, args.name or file.name
    if folder_id == file.folder_id or access.role != "owner":
        _writable(call, file.folder_id)
    folder = _writable(call, folder_id).folder
    if (folder_id, name) != (file.folder_id, file.name):
        _free_name(call, folder, name)
        file = call.world.update(file, folder_id=folder_id, name=name)
    return {
        "file_id": file.id,
        "name": file.name,
        "folder_id": file.folder_id,
        "access": everyone_with_access(call, file),
    }


def delete_file(call: Call, args: DeleteFile) -> JsonObject:
    """Remove a file and its versions."""
    file = find_file(call, args.file_id, "owner").file
    history = call.world.select(HISTORY, file=file.id)
    for version in history:
        call.world.delete(version)
    call.world.delete(file)
    return {"file_id": file.id, "name": file.name, "deleted_versions": len(history)}


def _writable(call: Call, folder_id: str) -> Place:
    place = find_folder(call, folder_id)
    if RANK[place.role] < RANK["editor"]:
        raise call.refuse(
            f"you are {place.role} of folder {place.path!r}, and this takes an editor. "
            f"Ask the owner, {place.folder.owner}."
        )
    return place


def _good_content(call: Call, text: str | None, base64: str | None) -> None:
    if (text is None) == (base64 is None):
        raise call.refuse("give the content as text (a text file) or as base64 (a binary file), one of the two.")
    if base64 is None:
        return
    try:
        decoded(base64)
    except ValueError:
        raise call.refuse("base64 is not valid. Encode the bytes with the standard alphabet and padding.") from None


def _good_name(call: Call, name: str, kind: str) -> None:
    problem = name_problem(name)
    if problem is not None:
        raise call.refuse(f"{name!r:.60} is no name for a {kind}: {problem}.")


def _free_name(call: Call, folder: Folder, name: str, kind: str = "file") -> None:
    _good_name(call, name, kind)
    file = call.world.first(NAMED, folder=folder.id, name=name)
    if file is not None:
        raise call.refuse(
            f"folder {folder.name!r} has a file {name!r} already (file_id {file.id}). "
            "Take another name, or change that file with files_update."
        )
    if call.world.first(FOLDER_NAMED, folder=folder.id, name=name) is not None:
        raise call.refuse(f"folder {folder.name!r} has a folder {name!r} already. Take another name.")


def _add_version(call: Call, file: File, number: int, text: str | None, base64: str | None) -> JsonObject:
    version = Version(
        id=call.new_id(Version.type_name),
        file_id=file.id,
        number=number,
        author=call.person.email,
        created_at=call.now,
        text=text,
        base64=base64,
    )
    call.world.insert(version)
    return {
        "file_id": file.id,
        "name": file.name,
        "folder_id": file.folder_id,
        "version": number,
        "size": len(version.content),
        "modified_at": call.local(version.created_at),
    }


WRITING: tuple[Tool, ...] = (
    tool("files_create", CreateFile, create_file, effect="write"),
    tool("files_create_folder", CreateFolder, create_folder, effect="write"),
    tool("files_update", UpdateFile, update_file, effect="write"),
    tool("files_share", ShareFile, share_file, effect="write", idempotent=True),
    tool("files_unshare", UnshareFile, unshare_file, effect="write"),
    tool("files_move", MoveFile, move_file, effect="write", idempotent=True),
    tool("files_delete", DeleteFile, delete_file, effect="destroy"),
)
