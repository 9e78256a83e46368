"""Files: folders, text and binary files, versions, sharing and search.

Records are ``files.folder``, ``files.file`` and ``files.version``; the content of a file is that of its
newest version. Rights are those of ``access``: an owner, editors and readers; what is shared on a folder
reaches everything below it. What a person may not see does not exist for that person.

Writes name the version that they are based on, so nobody overwrites what they have not seen. Names are unique
within a folder. Not promised: tools that share, move or delete folders, and getting back what was deleted.

* ``records``: the record types, and what types and ids cannot show of them.
* ``access``: who may do what, and finding folders and files under that rule.
* ``reading``: list, search, read, download, versions.
* ``writing``: create files and folders; update, share, move, delete files.
"""

from __future__ import annotations

from servers.services.files.reading import READING
from servers.services.files.records import File, Folder, Version, check
from servers.services.files.writing import WRITING
from servers.tools import Service

__all__ = ["FILES", "File", "Folder", "Version"]

FILES = Service(
    name="files",
    title="Files",
    summary="Folders and files with versions, sharing and search; a stale write is refused.",
    records=(Folder, File, Version),
    tools=READING + WRITING,
    check=check,
)
