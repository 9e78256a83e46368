"""Who may do what with folders and files, and finding them under that rule.

* The **owner** of a file may do everything, and alone may share, unshare and delete it.
* An **editor** may change and rename it; a **reader** may read it.
* A role on a folder reaches everything below it; the owner of a folder is an editor of what others put there.
  The best role counts.

For somebody without a role there is no such file: the words are those for an unknown id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from servers.search import Shape, holds, where
from servers.services.files.records import File, Folder, Version
from servers.sql import Query, Statement, among, param, table
from servers.tools import Call

Role = Literal["reader", "editor", "owner"]
Select = sa.Select[*tuple[Any, ...]]
RANK: Mapping[Role | None, int] = {None: 0, "reader": 1, "editor": 2, "owner": 3}
MAX_LISTED = 15
"""Most folders that a refusal names."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder as somebody sees it."""

    folder: Folder
    role: Role
    path: str
    """Names from the highest folder that this person sees."""


@dataclass(frozen=True, slots=True)
class Access:
    """A file as somebody sees it."""

    file: File
    role: Role


def find_folder(call: Call, folder_id: str) -> Place:
    """The folder, if the caller may see it.

    Raises:
        ToolError: There is none that the caller can see; those there are get listed.
    """
    chain = _chain(call, folder_id)
    role = inherited(chain, call.person.email)
    if role is None:
        seen = call.world.select(VISIBLE_FOLDERS, me=call.person.email)
        listed = ", ".join(f"{folder.id} ({folder.name})" for folder in seen[:MAX_LISTED])
        more = ", ..." if len(seen) > MAX_LISTED else ""
        options = f"You can see {listed}{more}." if seen else "You can see none."
        raise call.refuse(f"there is no folder {folder_id!r} that you can see. {options}")
    visible = [folder for depth, folder in enumerate(chain) if inherited(chain[depth:], call.person.email)]
    own: Role = "owner" if chain[0].owner == call.person.email else role
    return Place(chain[0], own, "/".join(folder.name for folder in reversed(visible)))


def find_file(call: Call, file_id: str, needed: Role = "reader") -> Access:
    """The file, if the caller has the needed role.

    Raises:
        ToolError: There is none that the caller can see, or the role is not enough.
    """
    file = call.world.get(File, file_id)
    role = None if file is None else role_of(call, file)
    if file is None or role is None:
        raise call.refuse(f"there is no file {file_id!r} that you can see. Look with files_list or files_search.")
    if RANK[role] < RANK[needed]:
        takes = "only its owner may do this" if needed == "owner" else "this takes an editor"
        raise call.refuse(f"you are {role} of {file.name!r}, and {takes}. Ask the owner, {file.owner}.")
    return Access(file, role)


def role_of(call: Call, file: File) -> Role | None:
    """The caller's role on a file."""
    me = call.person.email
    if file.owner == me:
        return "owner"
    return best(file.shares.get(me), inherited(_chain(call, file.folder_id), me))


def inherited(chain: list[Folder], person: str) -> Role | None:
    """The role that somebody has on what lies in a folder, given the folder and all above it."""
    role: Role | None = None
    for folder in chain:
        role = best(role, "editor" if folder.owner == person else folder.shares.get(person))
    return role


def best(one: Role | None, other: Role | None) -> Role | None:
    """The role with more rights."""
    return one if RANK[one] >= RANK[other] else other


def everyone_with_access(call: Call, file: File) -> dict[str, Role]:
    """The role of everybody who can open a file, however they came by it."""
    chain = _chain(call, file.folder_id)
    people = {email for folder in chain for email in (folder.owner, *folder.shares)} | file.shares.keys()
    roles: dict[str, Role] = {file.owner: "owner"}
    for email in sorted(people - {file.owner}):
        role = best(file.shares.get(email), inherited(chain, email))
        if role is not None:
            roles[email] = role
    return roles


def _chain(call: Call, folder_id: str) -> list[Folder]:
    """A folder and all above it, from below; empty if there is no such folder."""
    chain: list[Folder] = []
    above: str | None = folder_id
    while above is not None:
        folder = call.world.get(Folder, above)
        if folder is None:
            break
        chain.append(folder)
        above = folder.parent
    return chain


# ------------------------------------------------------------ statements; ``me`` says whose rights count


def _shared(shares: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    entries = sa.func.json_each(shares).table_valued("key")
    with_me = sa.exists(sa.select(sa.literal(1)).select_from(entries).where(entries.c.key == param("me")))
    return sa.and_(shares != "{}", with_me)  # most are shared with nobody, which is cheap to see


def _visible_folders() -> sa.Subquery | sa.CTE:
    """Ids of the folders that ``me`` has a role on, inherited roles included."""
    folder, child = table(Folder), table(Folder).alias("child")
    own = sa.select(folder.c.id).where(sa.or_(folder.c.owner == param("me"), _shared(folder.c.shares)))
    visible = own.cte("visible", recursive=True)
    return visible.union(sa.select(child.c.id).where(child.c.parent == visible.c.id))


def _visible_file(visible: sa.Subquery | sa.CTE) -> sa.ColumnElement[bool]:
    file = table(File)
    in_folder = file.c.folder_id.in_(sa.select(visible.c.id))
    return sa.or_(file.c.owner == param("me"), in_folder, _shared(file.c.shares))


def _size() -> sa.ColumnElement[Any]:
    """Bytes of a version."""
    version = table(Version)
    encoded = version.c.base64
    padding = sa.func.length(encoded) - sa.func.length(sa.func.rtrim(encoded, "="))
    of_text = sa.func.length(sa.cast(version.c.text, sa.LargeBinary))
    return sa.func.coalesce(of_text, sa.func.length(encoded) * 3 // 4 - padding)


def _files() -> Select:
    """Files with what is shown of them, each with its newest version."""
    file, version = table(File), table(Version)
    newer = version.alias("newer")
    newest = sa.select(newer.c.id).where(newer.c.file_id == file.c.id).order_by(newer.c.number.desc()).limit(1)
    shown = [file.c[name] for name in ("id", "name", "media_type", "owner", "shares", "folder_id")]
    shown += [version.c[name] for name in ("id", "number", "author", "created_at")]
    joined = file.join(version, version.c.id == newest.scalar_subquery())
    return sa.select(*shown, _size()).select_from(joined)


def _files_in() -> Select:
    file = table(File)
    return _files().where(file.c.folder_id == param("folder")).order_by(file.c.name, file.c.id)


def _loose_files() -> Select:
    file, visible = table(File), _visible_folders()
    outside = file.c.folder_id.not_in(sa.select(visible.c.id))
    return _files().where(outside, _visible_file(visible)).order_by(file.c.name, file.c.id)


def _top_folders(folder: sa.Table) -> sa.Select[Any]:
    visible = _visible_folders()
    ids = sa.select(visible.c.id)
    top = sa.or_(folder.c.parent.is_(None), folder.c.parent.not_in(ids))
    return sa.select(folder).where(folder.c.id.in_(ids), top).order_by(folder.c.name, folder.c.id)


def find_files(file: sa.Table, shape: Shape) -> Select:
    """Files that ``me`` can open and that fit a search, last changed first."""
    version = table(Version)

    def clause(name: str, values: Any) -> sa.ColumnElement[bool]:  # noqa: ANN401
        match name:
            case "name":
                return holds([file.c.name], values)
            case "type":
                return sa.or_(holds([file.c.media_type], values[:1]), holds([file.c.name], values[1:]))
            case "owner":
                return file.c.owner == values[0]
            case "modified_after":
                return version.c.created_at >= values[0]
            case _:
                return holds([file.c.name, sa.func.coalesce(version.c.text, "")], values)

    order = (version.c.created_at.desc(), file.c.name, file.c.id)
    return _files().where(_visible_file(_visible_folders()), *where(shape, clause)).order_by(*order)


VISIBLE_FOLDERS = Query(
    Folder,
    lambda f: sa.select(f).where(f.c.id.in_(sa.select(_visible_folders().c.id))).order_by(f.c.name, f.c.id),
)
TOP_FOLDERS = Query(Folder, _top_folders)
"""The visible folders that lie in no visible folder."""
FOLDERS_IN = Query(Folder, lambda f: sa.select(f).where(f.c.parent == param("folder")).order_by(f.c.name, f.c.id))
FILES_IN = Statement(_files_in)
LOOSE_FILES = Statement(_loose_files)
"""The visible files that lie in no visible folder: shared one by one."""
NAMED = Query(File, lambda f: sa.select(f).where(f.c.folder_id == param("folder"), f.c.name == param("name")))
OWN_TOP_NAMED = Query(
    Folder,
    lambda f: sa.select(f).where(f.c.parent.is_(None), f.c.owner == param("owner"), f.c.name == param("name")),
)
FOLDER_NAMED = Query(Folder, lambda f: sa.select(f).where(f.c.parent == param("folder"), f.c.name == param("name")))
HISTORY = Query(Version, lambda v: sa.select(v).where(v.c.file_id == param("file")).order_by(v.c.number.desc()))
CURRENT = Query(
    Version, lambda v: sa.select(v).where(v.c.file_id == param("file")).order_by(v.c.number.desc()).limit(1)
)
AT = Query(Version, lambda v: sa.select(v).where(v.c.file_id == param("file"), v.c.number == param("number")))
TEXTS = Statement(
    lambda: sa.select(*[table(Version).c[name] for name in ("id", "text")]).where(among(table(Version).c.id, "ids"))
)
