"""Files that matter: written whole or not at all, and failures that say what to do.

Holds ``write_atomic``, which every record, manifest and summary of a run goes through, and
``storage_boundary``, the one place where an ``OSError`` of the disk becomes a ``StorageError``.

There is no way to append here, on purpose. A run keeps one record per episode, each a file of its own: a
record that exists is complete, a process that dies loses at most the episodes it was in, and no reader ever
meets half a line.

Not promised: that the *newest* files survive a power cut. The bytes of a file are flushed to the disk before
its name appears, so no power cut leaves an empty or torn file behind; but the folder itself is not flushed,
since that costs as much again, and a file of the last seconds may be gone. A run that lost it simply plays
that episode again. A process that is killed outright may leave a ``.tmp-*`` file behind; such names are never
records.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from servers.errors import CoworkEnvError

TEMPORARY_PREFIX = ".tmp-"
"""How the names of unfinished files start."""

StorageFault: TypeAlias = Literal["full", "read_only", "missing_folder", "not_a_folder", "is_a_folder", "other"]

_FAULTS: dict[int, StorageFault] = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EFBIG: "full",
    errno.EACCES: "read_only",
    errno.EPERM: "read_only",
    errno.EROFS: "read_only",
    errno.ENOENT: "missing_folder",
    errno.ENOTDIR: "not_a_folder",
    errno.EISDIR: "is_a_folder",
}

_ADVICE: dict[StorageFault, str] = {
    "full": "the disk, quota or file size limit is used up; free space and run the same command again",
    "read_only": "this folder cannot be written to; change its permissions or choose another one",
    "missing_folder": "its folder does not exist; create it, or check the path",
    "not_a_folder": "a part of its path is a file, not a folder; choose another path",
    "is_a_folder": "there is a folder of this name; choose another name",
    "other": "the operating system refused; see the reason above",
}


_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class StorageError(CoworkEnvError):
    """A file could not be written.

    Attributes:
        path: The file.
        fault: Which kind of trouble it was.
    """

    def __init__(self, path: Path, fault: StorageFault, reason: str) -> None:
        super().__init__(f"cannot write {path} ({reason}): {_ADVICE[fault]}")
        self.path = path
        self.fault: StorageFault = fault


@contextmanager
def storage_boundary(path: Path) -> Generator[None]:
    """Turn an ``OSError`` raised inside into a ``StorageError`` about ``path``.

    Raises:
        StorageError: From the ``OSError``.
    """
    try:
        yield
    except OSError as error:
        fault = _FAULTS.get(error.errno or 0, "other")
        raise StorageError(path, fault, error.strerror or str(error)) from error


def write_atomic(path: Path, data: bytes | str, *, flush: bool = True) -> None:
    """Write a file so that its name always stands for complete content: the old one or the new one.

    The bytes go to a temporary file in the same folder, which is renamed over ``path``. Whatever goes wrong,
    an interrupt included, the temporary file is removed and what was at ``path`` stays.

    Args:
        path: The file; its folder must exist. A symbolic link there is replaced, not followed.
        data: The content; text is stored as UTF-8, with its line ends as they are.
        flush: Wait until the disk has the bytes. Pass False for what can be rebuilt, such as an index: a
        process
            that dies still leaves nothing torn, only a power cut may.

    Raises:
        StorageError: If the file could not be written.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    # Not named after the target: a prefix on a name of 250 bytes would be longer than file systems allow.
    temporary = path.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    with storage_boundary(path):
        descriptor = os.open(temporary, _CREATE, 0o666)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - takes over the descriptor
                file.write(content)
                file.flush()
                if flush:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
