"""What becomes of worlds in files when the disk is full or another process wants them, and of too long texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from servers.errors import InUse, StorageFault
from servers.journal import Actor
from servers.world import REFUSAL_LIMIT, World
from tests.servers.notebook import notebook
from tests.support import NORA

IMAGE = notebook()
AGENT = Actor("agent", NORA)
ROOT = Path(__file__).parents[2]

OPEN = """
import sys
from pathlib import Path
from servers.errors import InUse
from servers.world import World
from tests.servers.notebook import notebook
try:
    World.open(notebook(), Path(sys.argv[1]))
except InUse as used:
    print(used)
"""

# The limit on the size of files stands for a full disk. What has to hold is asserted in there.
FULL = """
import resource, sys
from pathlib import Path
from servers.desk import agent_desk
from servers.errors import StorageFault
from servers.mcp_server import BROKEN, answer
from servers.world import World
from tests.servers.notebook import notebook
import mcp_types as types

image = notebook()
world, other = World.open(image, Path(sys.argv[1])), World.open(image)
here, there = (agent_desk(one, image.workplace.tools) for one in (world, other))
faults = []

def call(desk, number):
    note = {"note_id": f"n{number}", "text": "x" * 20_000}
    return answer(desk, types.CallToolRequestParams(name="notes_put", arguments=note), faults.append)

assert not call(here, 0).is_error
size = Path(sys.argv[1] + "-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, resource.RLIM_INFINITY))
done = 1
while not (said := call(here, done)).is_error:
    done += 1
assert said.content[0].text == BROKEN
assert [type(fault) for fault in faults] == [StorageFault], faults
for write in (lambda: world.advance(60), world.end_turn, lambda: world.notify("x" * 200_000)):
    try:
        write()
    except StorageFault:
        pass
frozen = world.fork()
kept = {row["id"] for row in frozen.dump("notes.note")}
assert {f"n{number}" for number in range(done)} <= kept and f"n{done}" not in kept
assert frozen.state_hash() == world.state_hash()
assert (frozen.now, frozen.turn, frozen.journal_length) == (world.now, world.turn, world.journal_length)
assert [entry.seq for entry in world.journal()] == list(range(1, world.journal_length + 1))
assert not call(there, 0).is_error
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert not call(here, done).is_error
now, length, state = world.now, world.journal_length, world.state_hash()
world.close()
again = World.open(image, Path(sys.argv[1]))
assert (again.now, again.journal_length, again.state_hash()) == (now, length, state)
again.close()
print("held")
"""


def in_a_process(program: str, path: Path) -> str:
    ended = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
def test_on_a_full_disk_a_call_is_answered_undone_and_voids_only_its_own_episode(tmp_path: Path) -> None:
    assert in_a_process(FULL, tmp_path / "world.db") == "held"


def test_a_world_in_a_file_belongs_to_one_process_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    world = World.open(IMAGE, path)
    assert world.call("notes_fresh", {}, AGENT).ok
    assert "another process keeps this workplace" in in_a_process(OPEN, path)
    with pytest.raises(InUse, match="another process"):
        World.open(IMAGE, path)
    assert world.call("notes_fresh", {}, AGENT).ok
    world.close()
    assert not in_a_process(OPEN, path)


def test_a_world_that_may_go_back_to_a_mark_is_not_copied() -> None:
    world = World.open(IMAGE)
    world.mark()
    with pytest.raises(StorageFault, match="mark"):
        world.fork()


def test_a_long_refusal_loses_its_middle_and_the_journal_keeps_what_was_sent() -> None:
    world = World.open(IMAGE)
    name = "x" * 200_000
    refused = [world.call("notes_show", {"note_id": name}, AGENT), world.call(name, {}, AGENT)]
    assert all(len(result.text) <= REFUSAL_LIMIT for result in refused)
    assert "Valid: " in refused[1].text
    first = world.journal()[0]
    assert (first.arguments, first.error) == ({"note_id": name}, refused[0].text)
