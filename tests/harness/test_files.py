from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.files import TEMPORARY_PREFIX, StorageError, storage_boundary, write_atomic

# Runs in a process of its own: limits and identities cannot be given back. Prints what the user would read.
WRITE = """
import sys
from pathlib import Path
from harness.files import StorageError, write_atomic
target, size = Path(sys.argv[1]), int(sys.argv[2])
{before}
try:
    write_atomic(target, b"x" * size)
except StorageError as error:
    print(error.fault, str(error))
else:
    print("written")
"""


def write_in_a_process(before: str, target: Path, size: int) -> str:
    command = [sys.executable, "-c", WRITE.format(before=before), str(target), str(size)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=root, timeout=60)  # noqa: S603
    return done.stdout.strip()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own temporary folders are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_bytes_and_text_are_stored_as_given(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.json", "Zoë\r\n")
    write_atomic(tmp_path / "b.bin", b"\x00\xff", flush=False)
    assert (tmp_path / "a.json").read_bytes() == "Zoë\r\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.bin"]


def test_a_new_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_atomic(tmp_path / "record", b"")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "record")]
    assert modes[0] == modes[1]


def test_the_longest_name_a_file_may_have_is_no_trouble(tmp_path: Path) -> None:
    write_atomic(tmp_path / ("n" * 255), b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_readers_only_ever_see_a_whole_version(tmp_path: Path) -> None:
    path = tmp_path / "record"
    versions = [bytes([65 + n]) * 50_000 for n in range(2)]
    write_atomic(path, versions[0])
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        write_atomic(path, versions[number % 2], flush=False)
    done.set()
    reader.join()
    assert seen <= set(versions)


def test_a_disk_that_fills_up_is_named_and_the_old_record_stays(tmp_path: Path) -> None:
    target = tmp_path / "record"
    target.write_bytes(b"old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    answer = write_in_a_process(limit, target, 100_000)
    assert answer.startswith("full cannot write")
    assert str(target) in answer
    assert "free space and run the same command again" in answer
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to run out of space on")
def test_a_full_device_is_a_storage_error() -> None:
    device = Path("/dev/full")
    with pytest.raises(StorageError) as caught, storage_boundary(device):
        device.write_bytes(b"x")
    assert caught.value.fault == "full"
    assert "No space left on device" in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no users to become")
def test_a_folder_that_may_not_be_written_to_is_named(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    # Root may write anywhere, so root becomes nobody first.
    answer = write_in_a_process("import os; os.geteuid() or os.seteuid(65534)", open_folder / "record", 10)
    assert answer.startswith(f"read_only cannot write {open_folder / 'record'} (Permission denied)")
    assert "change its permissions or choose another one" in answer
    assert list(open_folder.iterdir()) == []


def test_a_path_through_a_file_a_missing_folder_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_bytes(b"x")
    for name, fault in (
        ("file/record", "not_a_folder"),
        ("none/record", "missing_folder"),
        ("folder", "is_a_folder"),
    ):
        with pytest.raises(StorageError, match=f"cannot write {tmp_path / name}") as caught:
            write_atomic(tmp_path / name, b"new")
        assert caught.value.fault == fault
        assert caught.value.path == tmp_path / name
    assert not list(tmp_path.rglob(f"{TEMPORARY_PREFIX}*"))


def test_an_interrupt_leaves_the_old_content_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "record"
    target.write_bytes(b"old")

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
